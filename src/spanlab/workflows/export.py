"""`spanlab export`: a model to a folder for another runtime, compared with the model on passages of the almanac."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spanlab.errors import UnknownTokensWarning
from spanlab.inference.load import load, load_torch
from spanlab.inference.onnx_export import export_onnx
from spanlab.inference.onnx_folder import ExportedModel
from spanlab.inference.onnx_parity import Parity, compare
from spanlab.inference.onnx_predictor import encoder_threads
from spanlab.machine import int8_instructions
from spanlab.samples import Passage
from spanlab.samples import load as load_passages
from spanlab.samples.export import clusters, entities, key_sentences, pairs, questions, relations, topics
from spanlab.tasks.fitted import FittedTasks

_SAMPLES: Mapping[str, Callable[[Sequence[Passage]], Sequence[Mapping[str, Any]]]] = {
    "classification": topics,
    "similarity": pairs,
    "ner": entities,
    "qa": questions,
    "summarisation": key_sentences,
    "coref": clusters,
    "relation": relations,
}
"""The inputs of each task; labels in them are ignored."""
_INPUTS = 24


@dataclass(frozen=True, kw_only=True)
class ExportReport:
    """What was written, and how it compares."""

    folder: Path
    exported: ExportedModel
    megabytes: float
    parity: Parity
    vnni: bool
    """Whether this CPU multiplies int8 without saturating."""

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        about = {"folder": str(self.folder), "opset": self.exported.opset, "int8": self.exported.int8}
        return about | {"megabytes": self.megabytes, "vnni": self.vnni, "parity": self.parity.to_dict()}


def export(model: str | Path, out: Path, *, int8: bool = False) -> ExportReport:
    """Export a model as ONNX graphs, and compare it with torch in fp32 on this CPU."""
    exported = export_onnx(model, out, int8=int8)
    torch_side = load_torch(model, device="cpu", precision="fp32")
    passages = [passage for passage in load_passages() if passage.language == "en"]
    inputs, texts = _inputs(torch_side.model, passages), [passage.text for passage in passages[:_INPUTS]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnknownTokensWarning)  # a model of another language is compared as well
        parity = compare(torch_side, load(out), inputs, texts, threads=encoder_threads())
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file()) / 1e6
    return ExportReport(
        folder=out, exported=exported, megabytes=size, parity=parity, vnni=int8_instructions() is not None
    )


def _inputs(model: FittedTasks, passages: Sequence[Passage]) -> dict[str, list[dict[str, Any]]]:
    """Inputs of each task of a model."""
    return {
        name: [dict(record) for record in _SAMPLES[task.name](passages)[:_INPUTS]] for name, task in model.tasks.items()
    }
