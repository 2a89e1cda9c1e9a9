"""From what a user calls a model to a predictor on a device."""

from pathlib import Path

from spanlab.inference.predictor import Predictor
from spanlab.tasks.model import load_task_model
from spanlab.training.config import Device, Precision
from spanlab.training.distributed import current_process


def load(
    folder_or_id: str | Path, *, device: Device = "auto", precision: Precision = "auto", revision: str | None = None
) -> Predictor:
    """A fine-tuned model, whatever its task; an encoder alone can embed.

    Args:
        folder_or_id: a model folder, a run folder or a Hugging Face id.
        device: where it runs.
        precision: of the matrix products; auto is bf16 where the device is made for it.
        revision: of a Hugging Face repository.
    """
    model = load_task_model(folder_or_id, revision=revision)
    process = current_process(device, precision)
    for module in (model.encoder, *model.heads.values(), *model.adapters.values()):
        module.to(device=process.device, dtype=process.dtype).eval()
    return Predictor(model, process)
