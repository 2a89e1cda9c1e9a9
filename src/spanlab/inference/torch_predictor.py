"""A loaded model whose layers torch computes, on any device."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from typing_extensions import override

from spanlab.encoder.int8 import int8_copy
from spanlab.errors import InputError
from spanlab.inference.precision import process_for
from spanlab.inference.predictor import BATCH_TOKENS, EMBEDDING, Predictor, Progress
from spanlab.machine import limit_threads
from spanlab.tasks.generation.task import Generation
from spanlab.tasks.model import TaskModel, load_task_model
from spanlab.tasks.network import MultiTaskNetwork
from spanlab.tasks.predict import TokenSumHead, compute_outputs
from spanlab.tasks.sample import Sample
from spanlab.training.config import Device, InferencePrecision
from spanlab.training.distributed import ProcessContext


class TorchPredictor(Predictor):
    """A model folder in torch."""

    model: TaskModel

    def __init__(self, model: TaskModel, process: ProcessContext) -> None:
        self.model, self.process = model, process
        heads = {**model.heads, EMBEDDING: TokenSumHead()}
        # The model stays as it is: adapters are merged into its exact matrices, and its layers can be looked into.
        encoder = int8_copy(model.encoder) if process.precision == "int8" else model.encoder
        self._network = MultiTaskNetwork(encoder, heads, adapters=model.adapters).eval()
        self._merging = threading.Lock()

    @override
    def compute(
        self,
        samples: Mapping[str, Sequence[Sample]],
        *,
        batch_tokens: int = BATCH_TOKENS,
        on_share: Progress = lambda share: None,
    ) -> dict[str, list[Any]]:
        for task in samples:
            self._merge_adapters(task)
        return compute_outputs(
            self._network, samples, batch_tokens=batch_tokens, process=self.process, on_share=on_share
        )

    @override
    def generates(self, task: str) -> bool:
        return self._network.head(task).generates

    @property
    @override
    def precision(self) -> str:
        return self.process.precision

    @property
    @override
    def made_by(self) -> dict[str, str]:
        return {
            "device": self.process.device.type,
            "precision": self.process.precision,
            "torch": torch.__version__,
        }

    def _merge_adapters(self, task: str) -> None:
        """Merge the LoRA adapters of a task into matrices of its own, once."""
        with self._merging:
            adapters = self._network.adapters(task)
            if adapters is not None and len(adapters.adapters) and adapters.merged_encoder is None:
                merged = adapters.merged_with(self.model.encoder)
                if self.process.precision == "int8":
                    assert merged.merged_encoder is not None
                    merged.merged_encoder = int8_copy(merged.merged_encoder)
                self._network.own[task] = merged


def in_torch(predictor: Predictor) -> TorchPredictor:
    """A predictor whose layers can be looked into; raises for one of another runtime."""
    if not isinstance(predictor, TorchPredictor):
        cause = "the layers of an exported model cannot be looked into"
        raise InputError(cause, path=predictor.model.folder, fix="use the model that it was exported from")
    return predictor


def load_predictor(
    folder_or_id: str | Path,
    *,
    device: Device,
    precision: InferencePrecision | None,
    revision: str | None,
    beams: int | None,
) -> TorchPredictor:
    """The model of a folder, a name or a Hugging Face id; the arguments are those of `load`."""
    limit_threads()
    model = load_task_model(folder_or_id, revision=revision)
    if beams is not None:
        _set_beams(model, beams)
    process = process_for(model, device, precision)
    for module in (model.encoder, *model.heads.values(), *model.adapters.values()):
        module.to(device=process.device, dtype=process.dtype).eval()
    return TorchPredictor(model, process)


def _set_beams(model: TaskModel, beams: int) -> None:
    """Give the tasks that generate text another beam size."""
    generating = {name: task for name, task in model.tasks.items() if isinstance(task, Generation)}
    if not generating:
        raise InputError("no task of the model generates text", path=model.folder, fix="leave out beams (--beams)")
    for name, task in generating.items():
        task.config = replace(task.config, beams=beams)
        task.apply_decoding(model.heads[name])
