"""The model over several processes: each holds a replica of it (DDP) or a shard of it (FSDP2).

Losses are divided by counts over all processes before the backward pass, so gradients must be summed; DDP and FSDP2
average them, so the loss is multiplied by the world size.
"""

import copy
from contextlib import AbstractContextManager, nullcontext
from typing import Literal

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

from spanlab.training.distributed import ProcessContext


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
