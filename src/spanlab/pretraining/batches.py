"""The batches of a pre-training run by step: phases of lengths, a batch that may grow, and shares for each process."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from spanlab.corpus import PreparedCorpus
from spanlab.corruption import ExampleBatch
from spanlab.corruption.examples import Integers
from spanlab.errors import ConfigError
from spanlab.objectives import TensorBatch
from spanlab.pretraining.examples import Examples
from spanlab.pretraining.recipe import Recipe
from spanlab.pretraining.samples import Samples


@dataclass(frozen=True)
class Phase:
    """The steps from `first` on are trained at one length."""

    first: int
    length: int
    samples: Samples


class ExampleSteps:
    """What the loop asks about a batch of examples, however it was chosen."""

    def tokens(self, batch: ExampleBatch) -> int:
        """Tokens, special ones included."""
        return len(batch.input_ids)

    def to_device(self, batch: ExampleBatch, device: torch.device) -> TensorBatch:
        """The same batch as tensors."""
        return TensorBatch.from_examples(batch, device)

    def describe(self, batch: ExampleBatch) -> Mapping[str, Any]:
        """All arrays of the batch."""
        order = {} if batch.order is None else vars(batch.order)
        named = {**vars(batch), **{f"order.{name}": array for name, array in order.items()}}
        return {name: array for name, array in named.items() if isinstance(array, np.ndarray)}


class PretrainingData(ExampleSteps):
    """What the loop asks for the batches of each step, where every sample stands for itself."""

    def __init__(self, corpora: Sequence[PreparedCorpus], weights: Sequence[float], recipe: Recipe) -> None:
        training = recipe.training
        self._accumulate, self._batch_size = training.accumulate, training.batch_size
        lengths = recipe.data.length_phases
        sampled = {
            length: Samples(
                [Examples(corpus, replace_length(recipe, length)) for corpus in corpora], weights, recipe.data.held_out
            )
            for _, length in lengths
        }
        self.steps_per_epoch = sampled[lengths[0][1]].epoch_samples / self._batch_size
        self.steps = training.total_steps(self.steps_per_epoch)
        before = np.cumsum([0.0, *(share for share, _ in lengths[:-1])])
        firsts = np.floor(before * self.steps + 1e-6).astype(int)
        self.phases = [
            Phase(int(first), length, sampled[length]) for first, (_, length) in zip(firsts, lengths, strict=True)
        ]
        self.held_out = self.phases[-1].samples if recipe.data.held_out else None
        """What a model is scored on: samples of the last length."""
        self._warmup = round(training.batch_warmup * self.steps)
        self._warmup_samples = np.cumsum([0, *map(self.batch_size, range(self._warmup))])

    def batch_size(self, step: int) -> int:
        """Samples of a step: all, or in the warm-up a share that grows from an eighth."""
        if step >= self._warmup:
            return self._batch_size
        return max(1, round(self._batch_size * (1 + 7 * step / self._warmup) / 8))

    def samples_before(self, step: int) -> int:
        """Samples of all steps before this one, of the same phase."""
        return self._samples_so_far(step) - self._samples_so_far(self._phase(step).first)

    def _samples_so_far(self, step: int) -> int:
        growing = min(step, self._warmup)
        return int(self._warmup_samples[growing]) + self._batch_size * (step - growing)

    def step(self, number: int, *, part: int, parts: int) -> list[ExampleBatch]:
        """The micro-batches of a step for one process."""
        first, size = self.samples_before(number), self.batch_size(number)
        samples = self._phase(number).samples
        shares = shard_step(np.arange(first, first + size), self._accumulate, part=part, parts=parts)
        return [samples.batch(share) for share in shares]

    def epoch(self, number: int) -> float:
        """Passes over the samples, those of every length counted as what they are."""
        ends = [*(phase.first for phase in self.phases[1:]), max(number, self.steps)]
        return sum(
            (self._samples_so_far(min(end, number)) - self._samples_so_far(phase.first)) / phase.samples.epoch_samples
            for phase, end in zip(self.phases, ends, strict=True)
            if phase.first < number
        )

    def _phase(self, step: int) -> Phase:
        return [phase for phase in self.phases if phase.first <= max(0, min(step, self.steps - 1))][-1]


def shard_step(numbers: Integers, micro_batches: int, *, part: int, parts: int) -> list[Integers]:
    """The micro-batches that process `part` of `parts` takes of a step; the same places every time."""
    pieces = parts * micro_batches
    if len(numbers) < pieces:
        cause = f"a batch of {len(numbers)} samples cannot be shared by {parts} processes"
        cause = f"{cause} with {micro_batches} micro-batches"
        raise ConfigError(cause, fix="raise training.batch_size or lower training.accumulate")
    shares = np.array_split(numbers, pieces)
    return [shares[micro * parts + part] for micro in range(micro_batches)]


def replace_length(recipe: Recipe, length: int) -> Recipe:
    """The recipe at another length of samples."""
    return replace(recipe, data=replace(recipe.data, length=length))
