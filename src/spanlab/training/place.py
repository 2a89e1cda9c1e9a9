"""Device, precision and rank of this process."""

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
import torch.distributed as dist

from spanlab.errors import ConfigError
from spanlab.machine import has_bf16_instructions
from spanlab.training.config import Device, Precision

_AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True, kw_only=True)
class ProcessContext:
    """One process of a run, and how it communicates with the others."""

    device: torch.device
    precision: Precision
    rank: int = 0
    world_size: int = 1

    @property
    def is_main(self) -> bool:
        """Whether this process writes files and speaks to the user."""
        return self.rank == 0

    @property
    def dtype(self) -> torch.dtype:
        """Of the weights; half precision is for products only, by autocast."""
        return torch.float64 if self.precision == "fp64" else torch.float32

    def autocast(self) -> AbstractContextManager[object]:
        """Matrix products in half precision, where that was asked for."""
        dtype = _AUTOCAST.get(self.precision)
        return nullcontext() if dtype is None else torch.autocast(self.device.type, dtype=dtype)

    def all_reduce_sum(self, numbers: Sequence[float]) -> list[float]:
        """The sum of each number over all processes; exact for whole numbers."""
        if self.world_size == 1:
            return list(numbers)
        # NCCL knows no other device than the GPU's, and MPS no double precision.
        device = self.device if self.device.type == "cuda" else torch.device("cpu")
        summed = torch.tensor(list(numbers), dtype=torch.float64, device=device)
        dist.all_reduce(summed)
        return summed.tolist()

    def barrier(self) -> None:
        """Barrier."""
        if self.world_size > 1:
            dist.barrier()


def current_process(device: Device, precision: Precision) -> ProcessContext:
    """The context of this process; within torchrun or Ray Train the process group exists already."""
    chosen = _device(device)
    in_group = dist.is_available() and dist.is_initialized()
    rank, world_size = (dist.get_rank(), dist.get_world_size()) if in_group else (0, 1)
    return ProcessContext(device=chosen, precision=_precision(precision, chosen), rank=rank, world_size=world_size)


def _device(name: Device) -> torch.device:
    if name == "cuda" and not torch.cuda.is_available():
        raise ConfigError("training.device is cuda, and there is no CUDA device", fix="take device=auto")
    if name == "mps" and not torch.backends.mps.is_available():
        raise ConfigError("training.device is mps, and there is none", fix="take device=auto")
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    if name == "cuda":
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
    return torch.device(name)


def _precision(name: Precision, device: torch.device) -> Precision:
    if name == "fp16" and device.type != "cuda":
        raise ConfigError("training.precision is fp16, which needs a CUDA device", fix="take precision=auto")
    if name != "auto":
        return name
    if device.type == "cuda":
        return "bf16" if torch.cuda.is_bf16_supported() else "fp16"
    return "bf16" if device.type == "cpu" and has_bf16_instructions() else "fp32"
