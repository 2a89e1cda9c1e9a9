"""An exported model's folder: what its `spanlab.json` says, checked.

    spanlab.json        tasks as in any model folder, and under `onnx` what follows
    encoder.onnx        ids and lengths to hidden states; a task with adapters has its own, encoder.TASK.onnx
    TASK.GRAPH.onnx     the graphs of the task's head
    weights.bin         the weights of all of them, each once
    tokenizer.json …    the tokenizer; tasks/TASK: files of a task
    requirements.txt    what prediction needs where torch is not installed

It is predicted from by ONNX Runtime, numpy and tokenizers alone: nothing here imports torch.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from spanlab.config import AtLeast, Bounded, Source, from_mapping, to_mapping
from spanlab.errors import ConfigError, InputError
from spanlab.strict_parsing import read_json

DESCRIPTION, WEIGHTS = "spanlab.json", "weights.bin"
OPSET = 17
"""The first with LayerNormalization."""
FORMAT_VERSION = 1
REQUIREMENTS_FILE = "requirements.txt"
REQUIREMENTS = (
    "numpy>=2.0",
    "onnxruntime>=1.20",
    "pyyaml>=6.0",
    "rich>=14.0",
    "scipy>=1.13",
    "tokenizers>=0.21",
    "typer>=0.16",
    "typing_extensions>=4.12",
)
"""What prediction needs beside SpanLab, which is installed without its own requirements, torch among them."""
_KEY = "onnx"


@dataclass(frozen=True, kw_only=True)
class ExportedGraph:
    """The names of a graph's inputs and outputs, in their order."""

    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ExportedTask:
    """The files of a task."""

    encoder: str
    graphs: dict[str, str] = field(default_factory=dict)
    """By the name of the head's graph."""


@dataclass(frozen=True, kw_only=True)
class ExportedModel(Bounded):
    """What is under `onnx` in `spanlab.json`; also the `InputShape` of the encoder."""

    opset: Annotated[int, AtLeast(1)]
    int8: bool
    """Whether the matrices of the encoder are int8."""
    width: Annotated[int, AtLeast(1)]
    max_positions: Annotated[int, AtLeast(1)]
    segments: Annotated[int, AtLeast(0)]
    encoder: str
    """The file of the encoder without adapters, which embeds."""
    tasks: dict[str, ExportedTask] = field(default_factory=dict)
    graphs: dict[str, ExportedGraph] = field(default_factory=dict)
    """By file."""

    @property
    def files(self) -> set[str]:
        """The files that there must be."""
        heads = {file for task in self.tasks.values() for file in task.graphs.values()}
        return {self.encoder, WEIGHTS, *heads, *(task.encoder for task in self.tasks.values())}


def is_exported(folder: Path) -> bool:
    """Whether a folder is one of these."""
    path = folder / DESCRIPTION
    if (folder / "config.json").is_file() or not path.is_file():
        return False
    described = read_json(path, error=ConfigError)
    return isinstance(described, dict) and _KEY in described


def read_exported(folder: Path) -> tuple[ExportedModel, dict[str, Any]]:
    """What is under `onnx`, and the whole description; every file that it names is there."""
    path = folder / DESCRIPTION
    described = read_json(path, error=ConfigError)
    if not isinstance(described, dict) or not isinstance(described.get(_KEY), dict):
        raise ConfigError("expected a JSON object with 'onnx'", path=path, fix="export the model again")
    version = described.get("format_version")
    if version != FORMAT_VERSION:
        raise ConfigError(f"format {version} is none that this SpanLab reads ({FORMAT_VERSION})", path=path)
    exported = from_mapping(ExportedModel, described[_KEY], Source(path=str(path)))
    for name in sorted(exported.files):
        if Path(name).name != name:
            raise ConfigError(f"'{name}' is not the name of a file in this folder", path=path, fix="restore the file")
        if not (folder / name).is_file():
            raise InputError(f"the file '{name}' is missing", path=folder, fix="export the model again")
    return exported, described


def describe_exported(exported: ExportedModel) -> dict[str, Any]:
    """The part of `spanlab.json` that `read_exported` reads."""
    return {"format_version": FORMAT_VERSION, _KEY: to_mapping(exported)}
