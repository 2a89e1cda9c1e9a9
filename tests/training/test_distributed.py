"""Optimisers and the moving average on FSDP2's shards, against whole tensors."""

from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.multiprocessing.spawn import spawn

from spanlab.training.config import TrainingConfig
from spanlab.training.ema import ExponentialMovingAverage
from spanlab.training.optim import build_optimiser, set_learning_rate
from tests.training.by_hand import give_gradients, small_model

CONFIGS = [
    TrainingConfig(steps=4, optimiser="lamb", lr=0.1),
    TrainingConfig(steps=4, lr=0.1),
    TrainingConfig(steps=4, lr=0.1, bias_correction=False),
]


def give_shards(model: nn.Module, step: int) -> None:
    """The gradients of `give_gradients`, each process its part."""
    whole = small_model()
    give_gradients(whole, step)
    for weight, source in zip(model.parameters(), whole.parameters(), strict=True):
        assert isinstance(weight, DTensor)
        assert source.grad is not None
        weight.grad = distribute_tensor(source.grad, weight.device_mesh, weight.placements)


def train(model: nn.Module, config: TrainingConfig, give: Callable[[nn.Module, int], None]) -> dict[str, Tensor]:
    """Four steps; the weights and their averages at the end."""
    optimiser, average = build_optimiser(model, config), ExponentialMovingAverage(model, 0.5)
    for step in range(4):
        set_learning_rate(optimiser, config.lr / (step + 1))
        give(model, step)
        optimiser.step()
        average.update(step)
    ends = {name: gather(weight) for name, weight in model.named_parameters()}
    average.load({name: average.clone() for name, average in average.state().items()})
    with average.swapped():
        averages = {f"average of {name}": gather(weight) for name, weight in model.named_parameters()}
    return ends | averages


def gather(tensor: Tensor) -> Tensor:
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor.detach().clone()


def compare_on_one_of_two(rank: int, meeting: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    for config in CONFIGS:
        sharded = small_model()
        fully_shard(sharded, mesh=init_device_mesh("cpu", (2,)))
        ours, theirs = train(sharded, config, give_shards), train(small_model(), config, give_gradients)
        assert set(ours) == set(theirs)
        for name, value in ours.items():
            torch.testing.assert_close(value, theirs[name], rtol=1e-12, atol=1e-14)
    dist.destroy_process_group()


def test_shards_on_two_processes_end_where_whole_tensors_end(tmp_path: Path) -> None:
    spawn(compare_on_one_of_two, args=(str(tmp_path / "meeting"),), nprocs=2)  # type: ignore[no-untyped-call]
