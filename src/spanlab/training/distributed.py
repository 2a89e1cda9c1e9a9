"""Several processes on one model: copies that add their gradients (DDP), or shards of it (FSDP2).

torchrun or Ray Train starts the processes; each runs the same loop on its own samples. Losses are divided by counts
over all processes before the backward pass, so gradients must be added, and both kinds average: the loop multiplies
by their number.
"""

import copy
import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

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


@contextmanager
def process_group() -> Iterator[None]:
    """Join the processes that torchrun has started, if it has; leave them in order at the end."""
    if "RANK" not in os.environ or dist.is_initialized():
        yield
        return
    dist.init_process_group("cuda:nccl,cpu:gloo" if torch.cuda.is_available() else "gloo")
    try:
        yield
        dist.barrier()  # gloo aborts when one process leaves while another still sends
    finally:
        dist.destroy_process_group()


def spread(
    model: nn.Module, process: ProcessContext, kind: str, layers: type[nn.Module] | None, *, idle_weights: bool = False
) -> nn.Module:
    """What the forward pass is called on; shards are made in process, layer by layer, copies are wrapped.

    With `idle_weights` copies do not wait for the gradients of weights that had no part in a step.
    """
    if process.world_size == 1:
        return model
    if kind == "fsdp":
        for module in model.modules():
            if layers is not None and isinstance(module, layers):
                fully_shard(module)
        fully_shard(model)
        return model
    device_ids = [process.device.index] if process.device.type == "cuda" else None
    return DistributedDataParallel(
        model,
        device_ids=device_ids,
        broadcast_buffers=False,
        gradient_as_bucket_view=True,
        find_unused_parameters=idle_weights,
    )


def sending(model: nn.Module, *, last: bool) -> AbstractContextManager[object]:
    """Gradients go to the other processes with the last micro-batch of a step only."""
    if isinstance(model, DistributedDataParallel):
        return nullcontext() if last else model.no_sync()
    if isinstance(model, FSDPModule):
        model.set_requires_gradient_sync(last)
    return nullcontext()


def put_shards_back(model: nn.Module) -> None:
    """After a forward pass without a backward one: a sharded model is left with whole weights here and there."""
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.reshard()


class WholeModel:
    """A model with all its weights on one process, to be exported or tried there; for a sharded one that is a copy."""

    def __init__(self, model: nn.Module, process: ProcessContext, kind: str) -> None:
        """Must be made before the model is spread."""
        self._model, self._first = model, process.is_main
        self._sharded = process.world_size > 1 and kind == "fsdp"
        self._copy = copy.deepcopy(model).cpu() if self._sharded and self._first else None

    @torch.no_grad()
    def get(self) -> nn.Module | None:
        """The model as it is now; None on all processes but the first. All of them must ask for it together."""
        if not self._sharded:
            return self._model if self._first else None
        copied = {} if self._copy is None else tensors_of(self._copy)
        for name, tensor in tensors_of(self._model).items():
            gathered = whole(tensor)
            if copied:
                copied[name].copy_(gathered)
        return self._copy


def tensors_of(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and kept buffers by name; what several modules share is there once."""
    kept = model.state_dict().keys()
    buffers = {name: buffer for name, buffer in model.named_buffers() if name in kept}
    return {**dict(model.named_parameters()), **buffers}


def whole(tensor: Tensor) -> Tensor:
    """A tensor on the host with all its shards, in memory of its own; all processes must ask for it together."""
    full = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
    return full.detach().to("cpu", copy=True)


def like(tensor: Tensor, pattern: Tensor) -> Tensor:
    """A whole tensor placed and sharded as `pattern` is."""
    # In memory of its own: what comes from a file may be mapped from it, and is not to be written to.
    moved = tensor.to(pattern.device, copy=True)
    if isinstance(pattern, DTensor):
        # Every process has the whole tensor and takes its own part; nothing is sent.
        return distribute_tensor(moved, pattern.device_mesh, pattern.placements, src_data_rank=None)
    return moved


def gather_objects(own: dict[str, Tensor], process: ProcessContext) -> list[dict[str, Tensor]]:
    """What each process has, on all of them, by rank."""
    if process.world_size == 1:
        return [own]
    everyone: list[dict[str, Tensor]] = [{} for _ in range(process.world_size)]
    dist.all_gather_object(everyone, own)
    return everyone
