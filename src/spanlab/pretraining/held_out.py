"""How good a model is on text it has not seen: loss, accuracy and perplexity of every objective, with fixed masks.

Beside them stands what a model that knew nothing but how often each token occurs would lose on the same targets
(`unigram.mlm`, `unigram.sbo`): a loss below it is what was learnt from context.
"""

import numpy as np
from numpy.typing import NDArray

from spanlab.corpus.ragged import Numbers
from spanlab.objectives import Criterion, TensorBatch
from spanlab.pretraining.samples import Samples
from spanlab.training.losses import add_over_processes, add_parts
from spanlab.training.place import Place

BATCH = 32
Frequencies = NDArray[np.float64]


class HeldOut:
    """Scores a criterion on the held-out samples of a run; each process takes its share of them."""

    def __init__(self, criterion: Criterion, samples: Samples) -> None:
        self._criterion, self._samples = criterion, samples
        self._batches = samples.held_out_batches(BATCH)
        self._unigram: dict[str, float] | None = None

    def __call__(self, place: Place) -> dict[str, float]:
        """Scores over all processes."""
        parts = []
        # Every process runs the model equally often, as sharded models need: a last batch may not count.
        for turn in range(-(-len(self._batches) // place.size)):
            number = turn * place.size + place.rank
            examples = self._samples.held_out_examples(self._batches[min(number, len(self._batches) - 1)])
            with place.autocast():
                result = self._criterion(TensorBatch.from_examples(examples, place.device))
            counts = number < len(self._batches)
            parts.append({name: part if counts else part.nothing() for name, part in result.parts.items()})
        added = add_over_processes(add_parts(parts), place)
        weights = self._criterion.weights
        loss = sum(weights[name] * part.total.item() / max(1, part.count) for name, part in added.items())
        if self._unigram is None:
            self._unigram = self._unigram_losses()
        return {"loss": loss, **self._criterion.metrics(added), **self._unigram}

    def _unigram_losses(self) -> dict[str, float]:
        """What the training text's token frequencies alone lose on the held-out targets."""
        predicted, bounded = [], []
        for batch in self._batches:
            examples = self._samples.held_out_examples(batch)
            predicted.append(examples.targets)
            bounded.append(examples.boundary_targets)
        logs = -np.log(training_frequencies(self._samples))
        targets = {"mlm": np.concatenate(predicted), "sbo": np.concatenate(bounded)}
        return {
            f"unigram.{name}": float(logs[ids].mean())
            for name, ids in targets.items()
            if name in self._criterion.weights and len(ids)
        }


def training_frequencies(samples: Samples) -> Frequencies:
    """(V,) how often each token occurs in the text that is trained on, one more than counted so that none is 0."""
    counts: Numbers = np.sum([examples.corpus.token_counts for examples in samples.corpora], axis=0, dtype=np.int64)
    for examples, split in zip(samples.corpora, samples.splits, strict=True):
        for first in range(0, len(split.held_out), 1024):
            ids = examples.blocks.batch(split.held_out[first : first + 1024]).ids
            counts = np.maximum(counts - np.bincount(ids, minlength=len(counts)), 0)
    frequencies: Frequencies = (counts + 1) / (counts + 1).sum()
    return frequencies
