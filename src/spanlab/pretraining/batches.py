"""The batches of a pre-training run by step: phases of lengths, a batch that may grow, and shares for each process."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from spanlab.arrays import Integers, offsets
from spanlab.corpus import PreparedCorpus, SampleOrder
from spanlab.corpus.randomness import sample_keys
from spanlab.corruption import ExampleBatch
from spanlab.corruption.examples import join_examples, named_arrays
from spanlab.errors import ConfigError, InputError
from spanlab.objectives import TensorBatch
from spanlab.pretraining.examples import Examples, document_end
from spanlab.pretraining.recipe import Recipe


def token_counts(examples: Examples, held_out_starts: Integers, held_out_stops: Integers) -> Integers:
    """(V,) the tokens of the corpus outside of the stretches that are held out."""
    corpus, recipe = examples.corpus, examples.recipe
    counts: Integers = corpus.token_counts.astype(np.int64)
    sentences = corpus.counts.sentences
    for start, stop in zip(held_out_starts, held_out_stops, strict=True):
        text = corpus.read([start], [stop])
        counts -= np.bincount(text.ids, minlength=len(counts))
        sentences -= int(text.sentence_starts.sum())
    tokenizer, marks = corpus.tokenizer, []
    if recipe.method.marks_sentences:
        marks = [(tokenizer.cls_id, sentences), (tokenizer.sep_id, sentences)]
    elif recipe.corruption is None and recipe.streams:
        marks = [(document_end(tokenizer), corpus.counts.documents)]
    for token, count in marks:
        if token is not None:
            counts[token] += count
    return counts


CYCLE = 1024
HELD_OUT_RANGES = 16
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
        starts, stops = held_out_ranges(examples.corpus.counts.tokens, share)
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
            before = offsets(mine)  # turns of this corpus earlier in the cycle
            own_numbers = (turns * int(mine.sum()) + before[places])[owners == owner]
            epochs, positions = self._orders[owner].at(own_numbers)
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

    def held_out_turns(self, *, rank: int, world_size: int) -> Iterator[tuple[ExampleBatch, bool]]:
        """The held-out batches of one process, and whether each counts, with the masks they always have.

        Every process has equally many, as sharded models need, so a last one may be another's and not count.
        """
        batches = self.held_out_batches(HELD_OUT_BATCH)
        for first in range(0, len(batches), world_size):
            corpus, indices = batches[min(first + rank, len(batches) - 1)]
            yield self.corpora[corpus].batch(indices, HELD_OUT_EPOCH), first + rank < len(batches)

    def training_counts(self) -> Integers:
        """(V,) how often each token is there to be learnt from."""
        each = [
            token_counts(examples, *held_out_ranges(examples.corpus.counts.tokens, examples.recipe.data.held_out))
            for examples in self.corpora
        ]
        counts: Integers = np.sum(each, axis=0, dtype=np.int64)
        return counts


def held_out_ranges(tokens: int, share: float) -> tuple[Integers, Integers]:
    """Where the stretches of a corpus that are held out begin (STRETCHES,), and where they end (STRETCHES,)."""
    stops = np.arange(1, HELD_OUT_RANGES + 1) * tokens / HELD_OUT_RANGES
    starts = stops - share * tokens / HELD_OUT_RANGES
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
        return dict(named_arrays(batch))


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

    def step(self, step: int, *, rank: int, world_size: int) -> list[ExampleBatch]:
        """The micro-batches of a step for one process."""
        first, size = self.samples_before(step), self.batch_size(step)
        samples = self._phase(step).samples
        shares = shard_step(np.arange(first, first + size), self._accumulate, rank=rank, world_size=world_size)
        return [samples.batch(share) for share in shares]

    def epoch(self, step: int) -> float:
        """Passes over the samples, those of every length counted as what they are."""
        ends = [*(phase.first for phase in self.phases[1:]), max(step, self.steps)]
        return sum(
            (self._samples_so_far(min(end, step)) - self._samples_so_far(phase.first)) / phase.samples.epoch_samples
            for phase, end in zip(self.phases, ends, strict=True)
            if phase.first < step
        )

    def _phase(self, step: int) -> Phase:
        return [phase for phase in self.phases if phase.first <= max(0, min(step, self.steps - 1))][-1]


def shard_step(numbers: Integers, micro_batches: int, *, rank: int, world_size: int) -> list[Integers]:
    """The micro-batches that process `rank` of `world_size` takes of a step; the same places every time."""
    pieces = world_size * micro_batches
    if len(numbers) < pieces:
        cause = f"a batch of {len(numbers)} samples cannot be shared by {world_size} processes"
        cause = f"{cause} with {micro_batches} micro-batches"
        raise ConfigError(cause, fix="raise training.batch_size or lower training.accumulate")
    shares = np.array_split(numbers, pieces)
    return [shares[micro * world_size + rank] for micro in range(micro_batches)]


def replace_length(recipe: Recipe, length: int) -> Recipe:
    """The recipe at another length of samples."""
    return replace(recipe, data=replace(recipe.data, length=length))
