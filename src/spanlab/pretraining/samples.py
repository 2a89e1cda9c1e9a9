"""Which samples a step trains on: several corpora by weight, without what is held out, in an order that is computed.

Samples are numbered through the run; number n decides the corpus, the epoch and the index of a sample, whatever the
number of processes. Corpora take turns in a fixed pattern of `CYCLE` places, shared out by their weights.

Held out are stretches of each corpus, evenly spread over it: a sample belongs to them when its first token does. Text
on either side of a stretch is trained on, but no token of it, and a corpus of one long document can be split, too.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from spanlab.arrays import Numbers
from spanlab.corpus import SampleOrder
from spanlab.corpus.randomness import sample_keys
from spanlab.corruption import ExampleBatch
from spanlab.corruption.examples import Integers, join_examples
from spanlab.errors import ConfigError, InputError
from spanlab.pretraining.examples import Examples
from spanlab.pretraining.token_counts import token_counts

CYCLE = 1024
STRETCHES = 16
SCORED = 1000
"""At most so many held-out samples of a corpus are scored; all of them stay out of training."""
HELD_OUT_BATCH = 32
HELD_OUT_EPOCH = 1 << 30
"""The epoch whose masks held-out samples always have; no training epoch comes so far."""


@dataclass(frozen=True)
class Split:
    """The samples of one corpus, as indices."""

    training: Integers
    held_out: Integers

    @classmethod
    def of(cls, examples: Examples, share: float) -> "Split":
        """Hold out about a `share` of the tokens."""
        if share == 0:
            return cls(np.arange(len(examples)), np.empty(0, np.int64))
        starts, stops = held_out_stretches(examples.corpus.counts.tokens, share)
        firsts = examples.blocks.first_tokens()
        out = np.searchsorted(starts, firsts, side="right") > np.searchsorted(stops, firsts, side="right")
        training, held_out = np.flatnonzero(~out), np.flatnonzero(out)
        if not len(training) or not len(held_out):
            cause = f"{len(examples)} samples are too few to hold out {share:.2%} of them"
            raise InputError(cause, path=examples.corpus.folder, fix="set data.held_out=0, or prepare more text")
        return cls(training, held_out)


class Samples:
    """The training and held-out samples of weighted corpora at one length."""

    def __init__(self, corpora: Sequence[Examples], weights: Sequence[float], held_out: float) -> None:
        self.corpora = list(corpora)
        self.splits = [Split.of(examples, held_out) for examples in corpora]
        seeds = [examples.recipe.seed + 1_000_003 * number for number, examples in enumerate(corpora)]
        self._orders = [SampleOrder(len(split.training), seed) for split, seed in zip(self.splits, seeds, strict=True)]
        self._turns = take_turns(weights, seeds[0])
        counts = np.array([len(split.training) for split in self.splits])
        shares = np.bincount(self._turns, minlength=len(counts)) / CYCLE
        self.epoch_samples = float(np.min(counts[shares > 0] / shares[shares > 0]))
        """Samples after which the first corpus has been gone through once."""

    def batch(self, numbers: Integers) -> ExampleBatch:
        """The examples with these numbers; those of one corpus stand together."""
        turns, places = np.divmod(numbers, CYCLE)
        owners = self._turns[places]
        parts = []
        for owner in np.unique(owners).tolist():
            mine = self._turns == owner
            before = np.cumsum(mine) - mine  # turns of this corpus earlier in the cycle
            own_numbers = (turns * int(mine.sum()) + before[places])[owners == owner]
            epochs, positions = self._orders[owner].places(own_numbers)
            indices = self.splits[owner].training[positions]
            parts.append(self.corpora[owner].batch(indices, epochs))
        return join_examples(parts)

    def held_out_batches(self, size: int) -> list[tuple[int, Integers]]:
        """(corpus, indices) of the held-out samples that are scored, a fixed choice, in batches."""
        batches = []
        for number, split in enumerate(self.splits):
            chosen = np.arange(len(split.held_out))
            if len(chosen) > SCORED:
                keys = sample_keys(seed=0, purpose="held out", epoch=number, index=chosen)
                chosen = np.sort(np.argsort(keys, kind="stable")[:SCORED])
            indices = split.held_out[chosen]
            batches += [(number, indices[first : first + size]) for first in range(0, len(indices), size)]
        return batches

    def held_out_turns(self, *, part: int, parts: int) -> Iterator[tuple[ExampleBatch, bool]]:
        """The held-out batches of one process, and whether each counts, with the masks they always have.

        Every process has equally many, as sharded models need, so a last one may be another's and not count.
        """
        batches = self.held_out_batches(HELD_OUT_BATCH)
        for first in range(0, len(batches), parts):
            corpus, indices = batches[min(first + part, len(batches) - 1)]
            yield self.corpora[corpus].batch(indices, HELD_OUT_EPOCH), first + part < len(batches)

    def training_counts(self) -> Numbers:
        """(V,) how often each token is there to be learnt from."""
        each = [
            token_counts(examples, *held_out_stretches(examples.corpus.counts.tokens, examples.recipe.data.held_out))
            for examples in self.corpora
        ]
        counts: Numbers = np.sum(each, axis=0, dtype=np.int64)
        return counts


def held_out_stretches(tokens: int, share: float) -> tuple[Integers, Integers]:
    """Where the stretches of a corpus that are held out begin (STRETCHES,), and where they end (STRETCHES,)."""
    stops = np.arange(1, STRETCHES + 1) * tokens / STRETCHES
    starts = stops - share * tokens / STRETCHES
    return np.ceil(starts).astype(np.int64), np.ceil(stops).astype(np.int64)


def take_turns(weights: Sequence[float], seed: int) -> Integers:
    """(CYCLE,) which corpus each place of the cycle belongs to: as near to the weights as whole places come."""
    shares = np.asarray(weights, float)
    if not (np.isfinite(shares).all() and (shares > 0).all()):
        raise ConfigError(
            f"the corpora have weights {list(weights)}; each must be above 0", fix="write --data DIR:WEIGHT"
        )
    exact = shares / shares.sum() * CYCLE
    counts = np.maximum(np.floor(exact), 1).astype(int)
    while counts.sum() != CYCLE:
        towards = 1 if counts.sum() < CYCLE else -1
        counts[np.argmax(towards * (exact - counts))] += towards
    keys = sample_keys(seed=seed, purpose="turns", epoch=0, index=np.arange(CYCLE))
    return np.repeat(np.arange(len(counts)), counts)[np.argsort(keys, kind="stable")]
