"""Losses of micro-batches and processes, added up before anything is divided."""

from collections.abc import Iterable, Mapping

import torch

from spanlab.objectives.objective import ObjectiveLoss
from spanlab.training.place import ProcessContext

LossParts = Mapping[str, ObjectiveLoss]


def add_parts(batches: Iterable[LossParts]) -> dict[str, ObjectiveLoss]:
    """The losses of several batches as those of one; at least one batch is needed."""
    added: dict[str, ObjectiveLoss] = {}
    for parts in batches:
        for name, part in parts.items():
            added[name] = added[name] + part.detached() if name in added else part.detached()
    return added


def add_over_processes(parts: LossParts, process: ProcessContext) -> LossParts:
    """The losses of all processes as those of one."""
    if process.world_size == 1:
        return parts
    numbers = [number for part in parts.values() for number in _numbers(part)]
    added = iter(process.all_reduce_sum(numbers))
    return {
        name: ObjectiveLoss(
            total=torch.tensor(next(added), dtype=torch.float64),
            count=int(next(added)),
            tallies={tally: torch.tensor(int(next(added))) for tally in part.tallies},
        )
        for name, part in parts.items()
    }


def _numbers(part: ObjectiveLoss) -> list[float]:
    return [part.total.item(), part.count, *(tally.item() for tally in part.tallies.values())]
