"""The processes of data-parallel training, and this one among them: device, precision, rank, and what they exchange.

torchrun or Ray Train starts them; each runs the same loop on its own samples. Replicas and shards of the model are in
`sharding`, whose parts of torch take seconds to import: a prediction has one process and needs none of them.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Literal

import torch
import torch.distributed as dist
from torch import Tensor

from spanlab.errors import ConfigError
from spanlab.machine import has_bf16_instructions
from spanlab.training.config import Device, Precision

_AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True, kw_only=True)
class ProcessContext:
    """Device, precision and rank of this process."""

    device: torch.device
    precision: Precision | Literal["int8"]
    """int8 is of prediction alone; what is not a matrix product of the encoder is then float32."""
    rank: int = 0
    world_size: int = 1

    @property
    def is_main(self) -> bool:
        """Whether this process writes files and reports to the user."""
        return self.rank == 0

    @property
    def dtype(self) -> torch.dtype:
        """Dtype of the weights; half precision is used for matrix products only, by autocast."""
        return torch.float64 if self.precision == "fp64" else torch.float32

    def autocast(self) -> AbstractContextManager[object]:
        """Context in which matrix products use half precision, if `precision` is bf16 or fp16."""
        dtype = _AUTOCAST.get(self.precision)
        return nullcontext() if dtype is None else torch.autocast(self.device.type, dtype=dtype)

    def all_reduce_sum(self, numbers: Sequence[float]) -> list[float]:
        """The sum of each number over all processes; exact for whole numbers."""
        if self.world_size == 1:
            return list(numbers)
        # NCCL needs CUDA tensors, and MPS has no double precision.
        device = self.device if self.device.type == "cuda" else torch.device("cpu")
        total = torch.tensor(list(numbers), dtype=torch.float64, device=device)
        dist.all_reduce(total)
        return total.tolist()

    def barrier(self) -> None:
        """Wait for all processes."""
        if self.world_size > 1:
            dist.barrier()


def current_process(device: Device, precision: Precision) -> ProcessContext:
    """The context of this process; within torchrun or Ray Train its rank is that of the process group."""
    chosen = _device(device)
    in_group = dist.is_available() and dist.is_initialized()
    rank, world_size = (dist.get_rank(), dist.get_world_size()) if in_group else (0, 1)
    return ProcessContext(device=chosen, precision=_precision(precision, chosen), rank=rank, world_size=world_size)


def _device(name: Device) -> torch.device:
    if name == "cuda" and not torch.cuda.is_available():
        raise ConfigError("training.device is cuda, but no CUDA device is available", fix="use device=auto")
    if name == "mps" and not torch.backends.mps.is_available():
        raise ConfigError("training.device is mps, but no MPS device is available", fix="use device=auto")
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    if name == "cuda":
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
    return torch.device(name)


def _precision(name: Precision, device: torch.device) -> Precision:
    if name == "fp16" and device.type != "cuda":
        raise ConfigError("training.precision is fp16, which needs a CUDA device", fix="use precision=auto")
    if name != "auto":
        return name
    if device.type == "cuda":
        return "bf16" if torch.cuda.is_bf16_supported() else "fp16"
    return "bf16" if device.type == "cpu" and has_bf16_instructions() else "fp32"


@contextmanager
def process_group() -> Iterator[None]:
    """Initialise the process group if torchrun started this process, and destroy it at the end."""
    if "RANK" not in os.environ or dist.is_initialized():
        yield
        return
    dist.init_process_group("cuda:nccl,cpu:gloo" if torch.cuda.is_available() else "gloo")
    try:
        yield
        dist.barrier()  # gloo aborts when one process leaves while another still sends
    finally:
        dist.destroy_process_group()


def gather_objects(local: dict[str, Tensor], process: ProcessContext) -> list[dict[str, Tensor]]:
    """The `local` of every process, by rank, on all processes."""
    if process.world_size == 1:
        return [local]
    gathered: list[dict[str, Tensor]] = [{} for _ in range(process.world_size)]
    dist.all_gather_object(gathered, local)
    return gathered
