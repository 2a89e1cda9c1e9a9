"""Data-parallel training: each process holds a replica of the model (DDP) or a shard of it (FSDP2).

torchrun or Ray Train starts the processes; each runs the same loop on its own samples. Losses are divided by counts
over all processes before the backward pass, so gradients must be summed; DDP and FSDP2 average them, so the loss is
multiplied by the world size.
"""

import copy
import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Literal

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

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


def wrap_model(
    model: nn.Module,
    process: ProcessContext,
    parallel: Literal["ddp", "fsdp"],
    shard_layers: type[nn.Module] | None,
    *,
    find_unused_parameters: bool = False,
) -> nn.Module:
    """The module to call in the forward pass: a DDP wrapper, or the model itself, sharded layer by layer (FSDP2)."""
    if process.world_size == 1:
        return model
    if parallel == "fsdp":
        for module in model.modules():
            if shard_layers is not None and isinstance(module, shard_layers):
                fully_shard(module)
        fully_shard(model)
        return model
    return DistributedDataParallel(
        model,
        device_ids=[process.device.index] if process.device.type == "cuda" else None,
        broadcast_buffers=False,
        gradient_as_bucket_view=True,
        find_unused_parameters=find_unused_parameters,
    )


def sync_gradients(model: nn.Module, *, last: bool) -> AbstractContextManager[object]:
    """Context of a micro-batch: gradients are reduced with the last one of a step only."""
    if isinstance(model, DistributedDataParallel):
        return nullcontext() if last else model.no_sync()
    if isinstance(model, FSDPModule):
        model.set_requires_gradient_sync(last)
    return nullcontext()


def reshard(model: nn.Module) -> None:
    """Free the gathered weights of FSDP modules, which a forward pass without a backward pass leaves behind."""
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.reshard()


class UnshardedModel:
    """The model with all its weights on the main process, for export; with FSDP2 this is a copy on the CPU."""

    def __init__(self, model: nn.Module, process: ProcessContext, parallel: Literal["ddp", "fsdp"]) -> None:
        """Must be created before `wrap_model` shards the model."""
        self._model, self._is_main = model, process.is_main
        self._sharded = process.world_size > 1 and parallel == "fsdp"
        self._copy = copy.deepcopy(model).cpu() if self._sharded and self._is_main else None

    @torch.no_grad()
    def get(self) -> nn.Module | None:
        """The model with its current weights on the main process, None elsewhere. Collective: call on all processes."""
        if not self._sharded:
            return self._model if self._is_main else None
        copied = {} if self._copy is None else named_tensors(self._copy)
        for name, tensor in named_tensors(self._model).items():
            gathered = full_tensor(tensor)
            if copied:
                copied[name].copy_(gathered)
        return self._copy


def named_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and persistent buffers by name; tied tensors appear once."""
    persistent = model.state_dict().keys()
    buffers = {name: buffer for name, buffer in model.named_buffers() if name in persistent}
    return {**dict(model.named_parameters()), **buffers}


def full_tensor(tensor: Tensor) -> Tensor:
    """A CPU copy of a tensor, gathered from all its shards. Collective: call on all processes."""
    gathered = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
    return gathered.detach().to("cpu", copy=True)


def shard_like(tensor: Tensor, reference: Tensor) -> Tensor:
    """A copy of an unsharded tensor on the device of `reference`, sharded like it."""
    # A copy: a tensor read from a file may be memory-mapped, and must not be written to.
    moved = tensor.to(reference.device, copy=True)
    if isinstance(reference, DTensor):
        # Every process has the full tensor and takes its own shard; nothing is sent.
        return distribute_tensor(moved, reference.device_mesh, reference.placements, src_data_rank=None)
    return moved


def gather_objects(local: dict[str, Tensor], process: ProcessContext) -> list[dict[str, Tensor]]:
    """The `local` of every process, by rank, on all processes."""
    if process.world_size == 1:
        return [local]
    gathered: list[dict[str, Tensor]] = [{} for _ in range(process.world_size)]
    dist.all_gather_object(gathered, local)
    return gathered
