"""`reproduce.json` of a model folder: what a run was made of and what came out, so that it can be made again.

Written at the end of a run, of pre-training and fine-tuning alike: the resolved config, the sha256 of every file that
went in, threads, processes and versions, and the score of the model. Files are named without their folders: a model is
given away, and the folders of the machine it was trained on are nobody's business.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from spanlab.atomic_io import sha256_of, write_json
from spanlab.config import AtLeast, Source, from_mapping, to_mapping
from spanlab.encoder.pretrained import locate_model
from spanlab.errors import InputError
from spanlab.machine import describe_environment
from spanlab.strict_parsing import read_json
from spanlab.tasks.formats.aligned import files_of, short_name
from spanlab.training.config import Precision
from spanlab.training.loop import Training
from spanlab.training.records import read_metrics

PROVENANCE = "reproduce.json"
FORMAT_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class InputFile:
    """A file that went into a run."""

    role: str
    """train, dev, NAME/train of a task in a list, model (a file of the initial model), corpus (its manifest), spans."""
    name: str
    """Without folders; of a corpus its folder, of a model the path in its folder."""
    sha256: str


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """How a model came to be."""

    command: Literal["pretrain", "finetune"]
    config: dict[str, Any]
    """The resolved config of the run, its files by name."""
    inputs: tuple[InputFile, ...]
    metric: str = "loss"
    score: float | None = None
    """Of the model in the folder, on held-out data if the run had any, else the loss of its last step."""
    step: Annotated[int, AtLeast(0)] = 0
    """The step of the model."""
    scores: dict[str, float] = field(default_factory=dict)
    """All scores of that evaluation."""
    seconds: float = 0.0
    precision: Precision = "fp32"
    """As computed with."""
    device: str = "cpu"
    environment: dict[str, Any] = field(default_factory=dict)
    """Versions, cores, threads and processes."""
    format_version: int = FORMAT_VERSION

    def parallelism(self, name: Literal["threads", "processes"]) -> int:
        """The number of threads or processes the run was made with; 1 if unknown."""
        value = self.environment.get(name)
        return value if isinstance(value, int) and value > 0 else 1


def labelled_inputs(role: str, path: str | None) -> list[InputFile]:
    """A labelled file, or the two of an aligned pair."""
    names = () if path is None else files_of(path)
    return [InputFile(role=role, name=Path(name).name, sha256=sha256_of(Path(name))) for name in names]


def model_inputs(model: str | None) -> list[InputFile]:
    """The weights of an initial model."""
    return [] if model is None else weight_files(locate_model(model))


def weight_files(folder: Path) -> list[InputFile]:
    """The weight files of a model folder."""
    paths = sorted(folder.rglob("*.safetensors")) or sorted(folder.glob("*.bin"))
    return [InputFile(role="model", name=path.relative_to(folder).as_posix(), sha256=sha256_of(path)) for path in paths]


def without_folders(config: Mapping[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    """A config whose files and folders, under `keys`, are named without the folders they are in."""
    return {key: _bare(value) if key in keys else value for key, value in config.items()}


def _bare(value: Any) -> Any:  # noqa: ANN401 (a path, or a list of them)
    if isinstance(value, list):
        return [_bare(item) for item in value]
    return short_name(value) if isinstance(value, str) and any(map(os.path.exists, files_of(value))) else value


def write_provenance(training: Training[Any], provenance: Provenance) -> None:
    """Put the record of a finished run into its model folder."""
    progress, run, process = training.progress, training.run, training.process
    records = read_metrics(run.metrics)
    split, step = ("train", progress.step) if progress.best is None else ("dev", progress.best_step)
    matching = [record for record in records if (record["split"], record["step"]) == (split, step)]
    metrics = matching[-1] if matching else {}
    metric = "loss" if progress.best is None else training.spec.primary
    scores = {
        name: float(value)
        for name, value in metrics.items()
        if name not in {"step", "epoch"} and isinstance(value, int | float)
    }
    initial = run.initial_parallelism()
    parallelism = {} if initial is None else {"threads": initial.threads, "processes": initial.processes}
    results = {
        "metric": metric,
        "score": scores.get(metric),
        "step": step,
        "scores": scores if split == "dev" else {},
        "seconds": round(progress.seconds, 1),
        "precision": process.precision,
        "device": process.device.type,
        "environment": describe_environment(**parallelism),
    }
    write_json(run.model / PROVENANCE, {**to_mapping(provenance), **results})


def read_provenance(folder: Path) -> Provenance:
    """The record in a model folder; raises if there is none, or one of another version."""
    path = folder / PROVENANCE
    try:
        mapping = read_json(path, fix="restore the file")
    except FileNotFoundError:
        cause = f"no {PROVENANCE} in this model folder: it does not say how it was trained"
        raise InputError(cause, path=folder, fix="train it again with this version of SpanLab") from None
    version = mapping.get("format_version") if isinstance(mapping, dict) else None
    if version != FORMAT_VERSION:
        cause = f"the record has format {version}; this version of SpanLab reads {FORMAT_VERSION}"
        raise InputError(cause, path=path, fix="reproduce it with the version of SpanLab that trained it")
    return from_mapping(Provenance, mapping, Source(path=str(path)))
