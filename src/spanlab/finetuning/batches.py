"""The batches of a fine-tuning run: a pure function of the step.

An epoch goes through every sample once, in batches whose sizes differ by at most one. Where lengths are grouped, the
samples of fifty batches at a time are put in order of length before they are cut, and the batches are then shuffled:
sequences of equal length attend in one go, and the steps still come in random order. A step is cut into micro-batches
by their tokens, so memory does not depend on how long the texts of a batch happen to be.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from spanlab.arrays import Integers
from spanlab.corpus.order import SampleOrder
from spanlab.errors import ConfigError
from spanlab.tasks.sample import Sample, SampleBatch, TensorBatch, pack_samples

_GROUP = 50


class SampleData:
    """The training samples of one task, as `training.StepData`."""

    def __init__(
        self,
        samples: Sequence[Sample],
        *,
        task: str,
        batch_size: int,
        batch_tokens: int,
        accumulate: int = 1,
        seed: int = 0,
        group_by_length: bool = True,
    ) -> None:
        self.samples, self.task, self._seed = samples, task, seed
        self.batch_tokens, self.accumulate, self.group_by_length = batch_tokens, accumulate, group_by_length
        self._lengths = np.array([sample.longest for sample in samples])
        self._tokens = np.array([sample.tokens for sample in samples])
        self._batches = -(-len(samples) // batch_size)
        self._order = SampleOrder(len(samples), seed)
        self._batch_order = SampleOrder(self._batches, seed + 1)
        self.steps_per_epoch = float(self._batches)
        self._epoch_batches = lru_cache(maxsize=2)(self._cut_epoch)

    def step(self, number: int, *, part: int, parts: int) -> list[SampleBatch]:
        """The micro-batches of a step for one of `parts` processes."""
        epoch, place = divmod(number, self._batches)
        indices = self._epoch_batches(epoch)[place]
        if len(indices) < parts:
            cause = f"a step has {len(indices)} samples, and {parts} processes share it"
            raise ConfigError(cause, fix="take a larger training.batch_size, or fewer processes")
        shares = [indices[first::parts] for first in range(parts)]
        wanted = max(self.accumulate, *(self._micro_batches(share) for share in shares))
        count = min(wanted, *map(len, shares))
        return [self._batch(chunk, epoch) for chunk in np.array_split(shares[part], count)]

    def epoch(self, number: int) -> float:
        """Passes over the samples done before a step."""
        return number / self._batches

    def tokens(self, batch: SampleBatch) -> int:
        """Tokens of a batch, special ones included."""
        return sum(sample.tokens for sample in batch.samples)

    def to_device(self, batch: SampleBatch, device: torch.device) -> TensorBatch:
        """The batch packed, on the device."""
        return pack_samples(batch, device)

    def describe(self, batch: SampleBatch) -> Mapping[str, Any]:
        """Which examples, and their ids."""
        return {
            "task": batch.task,
            "examples": [sample.example for sample in batch.samples],
            "lengths": [len(sequence) for sequence in batch.sequences],
            "input_ids": np.concatenate([sequence.ids for sequence in batch.sequences]),
        }

    def _batch(self, indices: Integers, epoch: int) -> SampleBatch:
        return SampleBatch(task=self.task, samples=tuple(self._sample(index, epoch) for index in indices.tolist()))

    def _sample(self, index: int, epoch: int) -> Sample:
        """A sample, or the part of it that this epoch draws."""
        sample = self.samples[index]
        return sample if sample.draw is None else sample.draw(np.random.default_rng((self._seed, epoch, index)))

    def _micro_batches(self, indices: Integers) -> int:
        """Into how many chunks samples must be cut so that none of equal size holds too many tokens."""
        tokens = self._tokens[indices]
        for count in range(-(-int(tokens.sum()) // self.batch_tokens), len(indices)):
            if all(chunk.sum() <= self.batch_tokens for chunk in np.array_split(tokens, max(1, count))):
                return max(1, count)
        return len(indices)

    def _cut_epoch(self, epoch: int) -> list[Integers]:
        order = self._order.indices(epoch, 0, len(self.samples))
        bounds = np.linspace(0, len(order), self._batches + 1).astype(np.int64)
        if self.group_by_length:
            edges = [*range(0, self._batches, _GROUP), self._batches]
            for first, last in pairwise(edges):
                group = order[bounds[first] : bounds[last]]
                order[bounds[first] : bounds[last]] = group[np.argsort(self._lengths[group], kind="stable")]
        batches = [order[start:stop] for start, stop in pairwise(bounds)]
        return [batches[place] for place in self._batch_order.indices(epoch, 0, self._batches).tolist()]


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

    def _draw_epoch(self, epoch: int) -> tuple[Integers, Integers]:
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
