"""The batches of a run over several tasks: whose turn each step is, as a pure function of the step.

A step belongs to one task. An epoch has as many steps as all tasks' epochs together, and each task's share of them is
fixed: proportional shares go through every sample once an epoch, temperature and uniform ones give small tasks more
turns. Turns are shuffled within an epoch; a task takes up its own order of samples where its last turn left it.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from spanlab.corpus.order import SampleOrder
from spanlab.finetuning.batches import SampleData
from spanlab.tasks.sample import SampleBatch, TensorBatch, pack_samples

PROPORTIONAL, UNIFORM = 1.0, 0.0


class MixedData:
    """The training samples of several tasks, as `training.StepData`."""

    def __init__(self, parts: Mapping[str, SampleData], *, exponent: float = PROPORTIONAL, seed: int = 0) -> None:
        """A task's share is its samples to the power of `exponent`: 1 is proportional, 0 uniform."""
        self._parts = tuple(parts.values())
        sizes = [len(part.samples) for part in self._parts]
        own_steps = [round(part.steps_per_epoch) for part in self._parts]
        self.turns = own_steps if exponent == PROPORTIONAL else share_turns(sizes, exponent, sum(own_steps))
        """Of each task in an epoch."""
        self._steps = sum(self.turns)
        self._order = SampleOrder(self._steps, seed + 2)  # seed and seed + 1 order the samples and their batches
        self.steps_per_epoch = float(self._steps)
        self._epoch_turns = lru_cache(maxsize=2)(self._draw_epoch)

    def step(self, number: int, *, part: int, parts: int) -> list[SampleBatch]:
        """The micro-batches of a step for one of `parts` processes; all of one task."""
        epoch, place = divmod(number, self._steps)
        tasks, turns = self._epoch_turns(epoch)
        task = int(tasks[place])
        return self._parts[task].step(epoch * self.turns[task] + int(turns[place]), part=part, parts=parts)

    def epoch(self, number: int) -> float:
        """How often as many steps were done as all tasks' epochs have."""
        return number / self._steps

    def tokens(self, batch: SampleBatch) -> int:
        """Tokens of a batch, special ones included."""
        return sum(sample.tokens for sample in batch.samples)

    def to_device(self, batch: SampleBatch, device: torch.device) -> TensorBatch:
        """The batch packed, on the device."""
        return pack_samples(batch, device)

    def describe(self, batch: SampleBatch) -> Mapping[str, Any]:
        """Which task and examples, and their ids."""
        return self._parts[0].describe(batch)

    def _draw_epoch(self, epoch: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Whose turn each step of an epoch is, and which of that task's turns in the epoch."""
        slots = np.repeat(np.arange(len(self.turns)), self.turns)
        tasks = slots[self._order.indices(epoch, 0, self._steps)]
        turns = np.empty(self._steps, np.int64)
        for task, count in enumerate(self.turns):
            turns[tasks == task] = np.arange(count)
        return tasks, turns


def share_turns(sizes: Sequence[int], exponent: float, steps: int) -> list[int]:
    """Steps of each task, in proportion to `size ** exponent`; at least one each, the largest remainders rounded up."""
    powers = np.array(sizes, np.float64) ** exponent
    wanted = steps * powers / powers.sum()
    turns = np.floor(wanted).astype(np.int64)
    for task in np.argsort(turns - wanted, kind="stable")[: steps - int(turns.sum())]:
        turns[task] += 1
    return [max(1, int(turn)) for turn in turns]
