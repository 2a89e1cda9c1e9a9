"""The batches of a fine-tuning run: a pure function of the step.

An epoch of a task visits every sample once, in batches whose sizes differ by at most one. With `group_by_length`, the
samples of fifty batches at a time are sorted by length before they are split into batches, and the batches are then
shuffled: sequences of similar length are computed together, and steps still come in random order. A step is split into
micro-batches by tokens, so memory does not depend on the lengths of the texts in a batch.

Every step belongs to one task. An epoch of several tasks has as many steps as the epochs of all of them together,
divided among the tasks in proportion to `samples ** exponent` and shuffled.
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
from spanlab.tasks.sample import Sample, SampleBatch
from spanlab.tasks.tensor_batch import TensorBatch, pack_samples

_GROUP = 50
"""Batches whose samples are sorted by length together."""
PROPORTIONAL, UNIFORM = 1.0, 0.0
"""Exponents of the shares of several tasks."""


class TaskBatches:
    """The micro-batches of each step of one task."""

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
        sources: Sequence[str] = (),
    ) -> None:
        """`sources`: where each example comes from, such as `train.jsonl:17`."""
        self.sources = sources
        self.samples, self.task, self._seed = samples, task, seed
        self.batch_tokens, self.accumulate, self.group_by_length = batch_tokens, accumulate, group_by_length
        self._lengths = np.array([sample.longest for sample in samples])
        self._tokens = np.array([sample.tokens for sample in samples])
        self.steps_per_epoch = -(-len(samples) // batch_size)
        self._order = SampleOrder(len(samples), seed)
        self._batch_order = SampleOrder(self.steps_per_epoch, seed + 1)
        self._epoch_batches = lru_cache(maxsize=2)(self._split_epoch)

    def step(self, step: int, *, rank: int, world_size: int) -> list[SampleBatch]:
        """The micro-batches of a step for one of `world_size` processes."""
        epoch, index = divmod(step, self.steps_per_epoch)
        indices = self._epoch_batches(epoch)[index]
        if len(indices) < world_size:
            cause = f"a step has {len(indices)} samples for {world_size} processes"
            raise ConfigError(cause, fix="use a larger training.batch_size or fewer processes")
        shares = [indices[first::world_size] for first in range(world_size)]
        count = max(self.accumulate, *(self._count_micro_batches(share) for share in shares))
        count = min(count, *map(len, shares))
        return [
            SampleBatch(task=self.task, samples=tuple(self._sample(index, epoch) for index in chunk.tolist()))
            for chunk in np.array_split(shares[rank], count)
        ]

    def _sample(self, index: int, epoch: int) -> Sample:
        """A sample, or the part of it that is drawn for this epoch."""
        sample = self.samples[index]
        return sample if sample.draw is None else sample.draw(np.random.default_rng((self._seed, epoch, index)))

    def _count_micro_batches(self, indices: Integers) -> int:
        """The smallest number of equal chunks of which none exceeds `batch_tokens`."""
        tokens = self._tokens[indices]
        for count in range(-(-int(tokens.sum()) // self.batch_tokens), len(indices)):
            if all(chunk.sum() <= self.batch_tokens for chunk in np.array_split(tokens, max(1, count))):
                return max(1, count)
        return len(indices)

    def _split_epoch(self, epoch: int) -> list[Integers]:
        """The sample indices of each step."""
        order = self._order.indices(epoch, 0, len(self.samples))
        bounds = np.linspace(0, len(order), self.steps_per_epoch + 1).astype(np.int64)
        if self.group_by_length:
            edges = [*range(0, self.steps_per_epoch, _GROUP), self.steps_per_epoch]
            for first, last in pairwise(edges):
                group = order[bounds[first] : bounds[last]]
                order[bounds[first] : bounds[last]] = group[np.argsort(self._lengths[group], kind="stable")]
        batches = [order[start:stop] for start, stop in pairwise(bounds)]
        return [batches[index] for index in self._batch_order.indices(epoch, 0, self.steps_per_epoch).tolist()]


class MixedBatches:
    """The steps of a run over one or more tasks, as `training.StepData`."""

    def __init__(self, tasks: Sequence[TaskBatches], *, exponent: float = PROPORTIONAL, seed: int = 0) -> None:
        """The share of a task is its number of samples to the power of `exponent`: 1 is proportional, 0 uniform."""
        self._tasks = tuple(tasks)
        sizes = [len(task.samples) for task in tasks]
        epochs = [task.steps_per_epoch for task in tasks]
        self.task_steps = epochs if exponent == PROPORTIONAL else share_steps(sizes, exponent, sum(epochs))
        """Steps of each task in an epoch."""
        self._steps = sum(self.task_steps)
        self._order = SampleOrder(self._steps, seed + 2)  # seed and seed + 1 order the samples and their batches
        self.steps_per_epoch = float(self._steps)
        self._epoch_schedule = lru_cache(maxsize=2)(self._schedule)

    def step(self, step: int, *, rank: int, world_size: int) -> list[SampleBatch]:
        """The micro-batches of a step for one of `world_size` processes; all of one task."""
        epoch, index = divmod(step, self._steps)
        tasks, task_steps = self._epoch_schedule(epoch)
        task = int(tasks[index])
        first = epoch * self.task_steps[task]
        return self._tasks[task].step(first + int(task_steps[index]), rank=rank, world_size=world_size)

    def epoch(self, step: int) -> float:
        """Epochs done before a step."""
        return step / self._steps

    def tokens(self, batch: SampleBatch) -> int:
        """Tokens of a batch, special ones included."""
        return sum(sample.tokens for sample in batch.samples)

    def to_device(self, batch: SampleBatch, device: torch.device) -> TensorBatch:
        """The batch packed, on the device."""
        return pack_samples(batch, device)

    def describe(self, batch: SampleBatch) -> Mapping[str, Any]:
        """Task, examples by index and by their place in a file, and token ids."""
        indices = [sample.example for sample in batch.samples]
        sources = next((task.sources for task in self._tasks if task.task == batch.task), ())
        return {
            "task": batch.task,
            "indices": indices,
            **({"sources": [sources[index] for index in indices]} if sources else {}),
            "lengths": [len(sequence) for sequence in batch.sequences],
            "input_ids": np.concatenate([sequence.ids for sequence in batch.sequences]),
        }

    def _schedule(self, epoch: int) -> tuple[Integers, Integers]:
        """(steps,) the task of each step of an epoch, and its index among the steps of that task."""
        slots = np.repeat(np.arange(len(self.task_steps)), self.task_steps)
        tasks = slots[self._order.indices(epoch, 0, self._steps)]
        task_steps = np.empty(self._steps, np.int64)
        for task, count in enumerate(self.task_steps):
            task_steps[tasks == task] = np.arange(count)
        return tasks, task_steps


def share_steps(sizes: Sequence[int], exponent: float, steps: int) -> list[int]:
    """Steps of each task in proportion to `size ** exponent`, at least one each; the largest remainders round up."""
    powers = np.array(sizes, np.float64) ** exponent
    exact = steps * powers / powers.sum()
    counts = np.floor(exact).astype(np.int64)
    for task in np.argsort(counts - exact, kind="stable")[: steps - int(counts.sum())]:
        counts[task] += 1
    return [max(1, int(count)) for count in counts]
