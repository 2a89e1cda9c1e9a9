"""The place or name of a model enters, a predictor on a device leaves."""

from dataclasses import replace
from pathlib import Path

from spanlab.errors import InputError
from spanlab.inference.precision import InferencePrecision, process_for
from spanlab.inference.predictor import Predictor
from spanlab.machine import limit_threads
from spanlab.tasks.generation.task import Generation
from spanlab.tasks.model import TaskModel, load_task_model
from spanlab.training.config import Device


def load(
    folder_or_id: str | Path,
    *,
    device: Device = "auto",
    precision: InferencePrecision | None = None,
    revision: str | None = None,
    beams: int | None = None,
) -> Predictor:
    """Load a fine-tuned model of any task; an encoder without heads can only embed.

    Args:
        folder_or_id: a model folder, a run folder, a name in `spanlab models` or a Hugging Face id.
        device: the device to run on.
        precision: of matrix products. fp32; bf16; int8: the encoder's linear layers in 8 bits, on a CPU; auto: the
            fastest of these for this model on this CPU, measured for about a second, whose hidden states differ from
            those of fp32 by at most `inference.precision.TOLERANCE`. None: bf16 where the device has instructions for
            it, else fp32, without measuring.
        revision: branch, tag or commit of a Hugging Face repository.
        beams: the beam size of a model that generates text; None: the one it was trained with.
    """
    limit_threads()
    model = load_task_model(folder_or_id, revision=revision)
    if beams is not None:
        _set_beams(model, beams)
    process = process_for(model, device, precision)
    for module in (model.encoder, *model.heads.values(), *model.adapters.values()):
        module.to(device=process.device, dtype=process.dtype).eval()
    return Predictor(model, process)


def _set_beams(model: TaskModel, beams: int) -> None:
    """Give the tasks that generate text another beam size."""
    generating = {name: task for name, task in model.tasks.items() if isinstance(task, Generation)}
    if not generating:
        raise InputError("no task of the model generates text", path=model.folder, fix="leave out beams (--beams)")
    for name, task in generating.items():
        task.config = replace(task.config, beams=beams)
        task.apply_decoding(model.heads[name])
