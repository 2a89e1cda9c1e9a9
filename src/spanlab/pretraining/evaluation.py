"""Evaluation on held-out text: loss, accuracy and perplexity of every objective, with fixed masks.

A criterion and held-out batches go in, metrics by name come out. `unigram.mlm`, `unigram.plm`, … are the losses of a
unigram model on the same targets: a model whose loss is below them has learned from context.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from spanlab.arrays import Integers
from spanlab.corruption import ExampleBatch
from spanlab.objectives import Criterion, TensorBatch
from spanlab.training.distributed import ProcessContext
from spanlab.training.train_step import all_reduce_parts, sum_parts

_PREDICT_TOKENS = ("mlm", "sbo", "plm", "clm", "bilm")
"""The objectives whose targets are tokens."""


class HeldOutSamples(Protocol):
    """Held-out batches, and the token counts of the training text for the unigram loss."""

    def held_out_batches(self, *, rank: int, world_size: int) -> Iterator[tuple[ExampleBatch, bool]]:
        """The batches of one process, and whether each counts; every process gets the same number."""

    def held_out_samples(self) -> int:
        """The number of samples that an evaluation scores."""

    def training_counts(self) -> Integers:
        """(V,) how often each token occurs in the training text."""


class HeldOut:
    """Scores a criterion on the held-out samples of a run, divided among the processes."""

    def __init__(self, criterion: Criterion, samples: HeldOutSamples) -> None:
        self._criterion, self._samples = criterion, samples
        self._unigram: dict[str, float] | None = None
        self.latest: dict[str, float] = {}
        """The metrics of the last evaluation."""

    def __call__(self, process: ProcessContext) -> dict[str, float]:
        """Metrics by name, reduced over all processes."""
        parts = []
        for examples, counts in self._samples.held_out_batches(rank=process.rank, world_size=process.world_size):
            with process.autocast():
                result = self._criterion(TensorBatch.from_examples(examples, process.device))
            parts.append({name: part if counts else part.nothing() for name, part in result.parts.items()})
        added = all_reduce_parts(sum_parts(parts), process)
        weights = self._criterion.weights
        loss = sum(weights[name] * part.total.item() / max(1, part.count) for name, part in added.items())
        if self._unigram is None:
            self._unigram = self._unigram_losses()
        self.latest = {"loss": loss, **self._criterion.metrics(added), **self._unigram}
        return self.latest

    def _unigram_losses(self) -> dict[str, float]:
        """The cross-entropy of the unigram model of the training text on the held-out targets, by objective."""
        objectives = [name for name in self._criterion.weights if name in _PREDICT_TOKENS]
        batches: dict[str, list[Integers]] = defaultdict(list)
        for examples, _ in self._samples.held_out_batches(rank=0, world_size=1):
            for name in objectives:
                boundaries = examples.boundaries if name == "sbo" else None
                batches[name].append(examples.targets if boundaries is None else boundaries.targets)
        losses_V = -np.log(smoothed(self._samples.training_counts()))
        targets = {name: np.concatenate(ids) for name, ids in batches.items()}
        return {f"unigram.{name}": float(losses_V[ids].mean()) for name, ids in targets.items() if len(ids)}


def smoothed(counts: Integers) -> NDArray[np.float64]:
    """(V,) add-one smoothed token frequencies."""
    shares: NDArray[np.float64] = (counts + 1) / (counts + 1).sum()
    return shares
