"""The place or name of a model enters, a predictor on a device leaves."""

from pathlib import Path

from spanlab.inference.predictor import Predictor
from spanlab.machine import limit_threads
from spanlab.tasks.model import load_task_model
from spanlab.training.config import Device, Precision
from spanlab.training.distributed import current_process


def load(
    folder_or_id: str | Path, *, device: Device = "auto", precision: Precision = "auto", revision: str | None = None
) -> Predictor:
    """Load a fine-tuned model of any task; an encoder without heads can only embed.

    Args:
        folder_or_id: a model folder, a run folder, a name in `spanlab models` or a Hugging Face id.
        device: the device to run on.
        precision: of weights and matrix products; auto is bf16 if the device is fast in it.
        revision: branch, tag or commit of a Hugging Face repository.
    """
    limit_threads()
    model = load_task_model(folder_or_id, revision=revision)
    process = current_process(device, precision)
    for module in (model.encoder, *model.heads.values(), *model.adapters.values()):
        module.to(device=process.device, dtype=process.dtype).eval()
    return Predictor(model, process)
