"""The place or name of a model enters, a predictor on a device leaves."""

from pathlib import Path
from typing import TYPE_CHECKING

from spanlab.errors import InputError
from spanlab.inference.onnx_folder import is_exported
from spanlab.inference.predictor import Predictor
from spanlab.machine import keep_few_kernels
from spanlab.training.config import Device, InferencePrecision

if TYPE_CHECKING:
    from spanlab.inference.torch_predictor import TorchPredictor


def load(
    folder_or_id: str | Path,
    *,
    device: Device = "auto",
    precision: InferencePrecision | None = None,
    revision: str | None = None,
    beams: int | None = None,
) -> Predictor:
    """Load a fine-tuned model of any task; an encoder without heads can only embed.

    A folder that `spanlab export` wrote is computed by ONNX Runtime, without torch.

    Args:
        folder_or_id: a model folder, a run folder, a name in `spanlab models` or a Hugging Face id.
        device: the device to run on.
        precision: of matrix products. fp32; bf16; int8: the encoder's linear layers in 8 bits, on a CPU; auto: the
            fastest of these for this model on this CPU, measured for about a second, whose hidden states differ from
            those of fp32 by at most a tenth. None: bf16 where the device has instructions for it, else fp32, without
            measuring.
        revision: branch, tag or commit of a Hugging Face repository.
        beams: the beam size of a model that generates text; None: the one it was trained with.
    """
    folder = Path(folder_or_id).expanduser()
    if is_exported(folder):
        return _load_exported(folder, device=device, precision=precision, beams=beams)
    return load_torch(folder_or_id, device=device, precision=precision, revision=revision, beams=beams)


def load_torch(
    folder_or_id: str | Path,
    *,
    device: Device = "auto",
    precision: InferencePrecision | None = None,
    revision: str | None = None,
    beams: int | None = None,
) -> "TorchPredictor":
    """The same for a model in torch, whose layers are there to be looked into."""
    from spanlab.inference.torch_predictor import load_predictor

    keep_few_kernels()
    return load_predictor(folder_or_id, device=device, precision=precision, revision=revision, beams=beams)


def _load_exported(
    folder: Path, *, device: Device, precision: InferencePrecision | None, beams: int | None
) -> Predictor:
    from spanlab.inference.onnx_predictor import load_exported

    if device not in {"auto", "cpu"}:
        raise InputError(f"an exported model runs on the CPU, not on {device}", path=folder, fix="use device=auto")
    if precision not in {None, "auto", "fp32"}:
        cause = "the precision of an exported model is that of its export"
        raise InputError(cause, path=folder, fix="leave it out, or export with or without --int8")
    if beams is not None:
        raise InputError("no task of the model generates text", path=folder, fix="leave out beams (--beams)")
    return load_exported(folder)
