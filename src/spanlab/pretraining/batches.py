"""The batches of a pre-training run: prepared corpora and a recipe in, the examples of each step and process out.

Corpora are mixed by weight, a share of each is held out, lengths follow `data.phases`, the batch size may warm up. A
batch is a function of the step alone, so a resumed run continues with the batches of the interrupted one.
"""

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

CYCLE = 1024
"""The corpora of a mixture alternate in a pattern of this many samples."""
HELD_OUT_RANGES = 16
"""Held-out text is taken from this many ranges of a corpus, at equal distances."""
SCORED = 1000
"""The maximum number of held-out samples of a corpus that are scored; none of the others is trained on either."""
HELD_OUT_BATCH = 32
_SPLIT_AT_ONCE = 1 << 20
HELD_OUT_EPOCH = 1 << 30
"""The epoch that the masks of held-out samples are drawn for; training never reaches it."""


class IndexRanges:
    """Sample indices in ascending order, kept as R ranges without gaps: each process of a machine has its own."""

    def __init__(self, starts: Integers, stops: Integers) -> None:
        self._starts, self._offsets = starts, offsets(stops - starts)
        self._count = int((stops - starts).sum())

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, positions: Integers) -> Integers:
        """The indices at positions (B,) of the list."""
        ranges = np.searchsorted(self._offsets, positions, side="right") - 1
        indices: Integers = self._starts[ranges] + positions - self._offsets[ranges]
        return indices


@dataclass(frozen=True)
class Split:
    """Sample indices of one corpus."""

    training: IndexRanges
    held_out: Integers

    @classmethod
    def of(cls, examples: Examples, share: float) -> "Split":
        """Hold out the samples that start in the held-out ranges, about `share` of the tokens."""
        if share == 0:
            return cls(IndexRanges(np.zeros(1, np.int64), np.array([len(examples)])), np.empty(0, np.int64))
        starts, stops = held_out_ranges(examples.corpus.counts.tokens, share)
        first_tokens = examples.blocks.first_tokens()
        edges, held_out = [], []
        before = False
        for first in range(0, len(first_tokens), _SPLIT_AT_ONCE):
            tokens = first_tokens[first : first + _SPLIT_AT_ONCE]
            is_training = np.searchsorted(starts, tokens, "right") == np.searchsorted(stops, tokens, "right")
            held_out.append(first + np.flatnonzero(~is_training))
            edges.append(first + np.flatnonzero(is_training != np.concatenate(([before], is_training[:-1]))))
            before = bool(is_training[-1])
        edges.append(np.full(int(before), len(first_tokens)))
        bounds = np.concatenate(edges)
        training = IndexRanges(bounds[::2], bounds[1::2])
        if not len(training) or not sum(map(len, held_out)):
            cause = f"{len(examples)} samples are too few to hold out {share:.2%} of them"
            raise InputError(cause, path=examples.corpus.folder, fix="set data.held_out=0, or prepare more text")
        return cls(training, np.concatenate(held_out))


class Samples:
    """The training and held-out samples of weighted corpora at one length."""

    def __init__(self, corpora: Sequence[Examples], weights: Sequence[float], held_out: float) -> None:
        self.corpora = list(corpora)
        self.splits = [Split.of(examples, held_out) for examples in corpora]
        seeds = [examples.recipe.seed + 1_000_003 * index for index, examples in enumerate(corpora)]
        self._orders = [SampleOrder(len(split.training), seed) for split, seed in zip(self.splits, seeds, strict=True)]
        self._turns = take_turns(weights, seeds[0])
        counts = np.array([len(split.training) for split in self.splits])
        shares = np.bincount(self._turns, minlength=len(counts)) / CYCLE
        self.epoch_samples = float(np.min(counts[shares > 0] / shares[shares > 0]))
        """The number of samples after which the first corpus to be exhausted starts over."""

    def batch(self, ordinals: Integers) -> ExampleBatch:
        """The examples at `ordinals` (B,) of the mixture, counted from the first step; grouped by corpus."""
        cycles, turns = np.divmod(ordinals, CYCLE)
        corpus_of = self._turns[turns]
        parts = []
        for corpus in np.unique(corpus_of).tolist():
            has_turn = self._turns == corpus
            turns_before = offsets(has_turn)  # turns of this corpus earlier in the cycle
            in_corpus = (cycles * int(has_turn.sum()) + turns_before[turns])[corpus_of == corpus]
            epochs, positions = self._orders[corpus].at(in_corpus)
            indices = self.splits[corpus].training[positions]
            parts.append(self.corpora[corpus].batch(indices, epochs))
        return join_examples(parts)

    def held_out_batches(self, *, rank: int, world_size: int) -> Iterator[tuple[ExampleBatch, bool]]:
        """The held-out batches of one process, with fixed masks, and whether each counts.

        Every process gets the same number of batches, as sharded models need: at the end a process may get one that
        another process scores, and it does not count.
        """
        batches = self._scored_batches()
        for first in range(0, len(batches), world_size):
            corpus, indices = batches[min(first + rank, len(batches) - 1)]
            yield self.corpora[corpus].batch(indices, HELD_OUT_EPOCH), first + rank < len(batches)

    def held_out_samples(self) -> int:
        """The number of samples that an evaluation scores."""
        return sum(min(SCORED, len(split.held_out)) for split in self.splits)

    def _scored_batches(self) -> list[tuple[int, Integers]]:
        """(corpus, sample indices) of each held-out batch; always the same samples."""
        batches = []
        for corpus, split in enumerate(self.splits):
            scored = np.arange(len(split.held_out))
            if len(scored) > SCORED:
                keys = sample_keys(seed=0, purpose="held out", epoch=corpus, index=scored)
                scored = np.sort(np.argsort(keys, kind="stable")[:SCORED])
            indices = split.held_out[scored]
            batches += [
                (corpus, indices[first : first + HELD_OUT_BATCH]) for first in range(0, len(indices), HELD_OUT_BATCH)
            ]
        return batches

    def training_counts(self) -> Integers:
        """(V,) how often each token occurs in the training text."""
        per_corpus = [
            token_counts(examples, *held_out_ranges(examples.corpus.counts.tokens, examples.recipe.data.held_out))
            for examples in self.corpora
        ]
        counts: Integers = np.sum(per_corpus, axis=0, dtype=np.int64)
        return counts


def held_out_ranges(tokens: int, share: float) -> tuple[Integers, Integers]:
    """Starts and stops, each (HELD_OUT_RANGES,), of the ranges of tokens that are held out of a corpus."""
    stops = np.arange(1, HELD_OUT_RANGES + 1) * tokens / HELD_OUT_RANGES
    starts = stops - share * tokens / HELD_OUT_RANGES
    return np.ceil(starts).astype(np.int64), np.ceil(stops).astype(np.int64)


def count_without(corpus: PreparedCorpus, starts: Integers, stops: Integers) -> tuple[Integers, int]:
    """(V,) how often each token occurs outside of the ranges, and how many sentences begin outside of them."""
    counts: Integers = corpus.token_counts.astype(np.int64)
    sentences = corpus.counts.sentences
    for start, stop in zip(starts, stops, strict=True):
        text = corpus.read([start], [stop])
        counts -= np.bincount(text.ids, minlength=len(counts))
        sentences -= int(text.sentence_starts.sum())
    return counts, sentences


def token_counts(examples: Examples, held_out_starts: Integers, held_out_stops: Integers) -> Integers:
    """(V,) how often each token occurs in the training examples: the corpus without its held-out ranges.

    Tokens that are inserted between sentences or documents are counted too.
    """
    corpus, recipe = examples.corpus, examples.recipe
    counts, sentences = count_without(corpus, held_out_starts, held_out_stops)
    tokenizer, inserted = corpus.tokenizer, []
    if recipe.method.marks_sentences:
        inserted = [(tokenizer.cls_id, sentences), (tokenizer.sep_id, sentences)]
    elif recipe.corruption is None and recipe.streams:
        inserted = [(document_end(tokenizer), corpus.counts.documents)]
    for token, count in inserted:
        if token is not None:
            counts[token] += count
    return counts


def take_turns(weights: Sequence[float], seed: int) -> Integers:
    """(CYCLE,) the index of the corpus that each sample of a cycle comes from, in proportion to the weights."""
    shares = np.asarray(weights, float)
    if not (np.isfinite(shares).all() and (shares > 0).all()):
        raise ConfigError(
            f"the corpora have weights {list(weights)}; each must be above 0", fix="write --data DIR:WEIGHT"
        )
    exact = shares / shares.sum() * CYCLE
    counts = np.maximum(np.floor(exact), 1).astype(int)
    while counts.sum() != CYCLE:
        change = 1 if counts.sum() < CYCLE else -1
        counts[np.argmax(change * (exact - counts))] += change
    keys = sample_keys(seed=seed, purpose="turns", epoch=0, index=np.arange(CYCLE))
    return np.repeat(np.arange(len(counts)), counts)[np.argsort(keys, kind="stable")]


@dataclass(frozen=True)
class Phase:
    """The steps from `first` on, with samples of one length."""

    first: int
    length: int
    samples: Samples


class ExampleSteps:
    """Base of the data of a run: what the training loop needs to know about a batch of examples."""

    def tokens(self, batch: ExampleBatch) -> int:
        """The number of tokens, special tokens included."""
        return len(batch.input_ids)

    def to_device(self, batch: ExampleBatch, device: torch.device) -> TensorBatch:
        """The batch as tensors."""
        return TensorBatch.from_examples(batch, device)

    def describe(self, batch: ExampleBatch) -> Mapping[str, Any]:
        """All arrays of the batch by name."""
        return dict(named_arrays(batch))


class PretrainingData(ExampleSteps):
    """The batches of a run over independent samples."""

    def __init__(self, corpora: Sequence[PreparedCorpus], weights: Sequence[float], recipe: Recipe) -> None:
        training = recipe.training
        self._accumulate, self._batch_size = training.accumulate, training.batch_size
        lengths = recipe.data.length_phases
        samples = {}
        for _, length in lengths:
            at_length = replace(recipe, data=replace(recipe.data, length=length))
            samples[length] = Samples(
                [Examples(corpus, at_length) for corpus in corpora], weights, recipe.data.held_out
            )
        self.steps_per_epoch = samples[lengths[0][1]].epoch_samples / self._batch_size
        self.steps = training.total_steps(self.steps_per_epoch)
        before = np.cumsum([0.0, *(share for share, _ in lengths[:-1])])
        firsts = np.floor(before * self.steps + 1e-6).astype(int)
        self.phases = [
            Phase(int(first), length, samples[length]) for first, (_, length) in zip(firsts, lengths, strict=True)
        ]
        self.held_out = self.phases[-1].samples if recipe.data.held_out else None
        """The samples that the model is scored on: those of the last length."""
        self._warmup = round(training.batch_warmup * self.steps)
        self._warmup_samples = np.cumsum([0, *map(self.batch_size, range(self._warmup))])

    def batch_size(self, step: int) -> int:
        """The number of samples of a step; grows from an eighth of the batch size during the warm-up."""
        if step >= self._warmup:
            return self._batch_size
        return max(1, round(self._batch_size * (1 + 7 * step / self._warmup) / 8))

    def samples_before(self, step: int) -> int:
        """The number of samples of all earlier steps of the same phase."""
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
        """Passes over the samples, added up over the phases."""
        ends = [*(phase.first for phase in self.phases[1:]), max(step, self.steps)]
        return sum(
            (self._samples_so_far(min(end, step)) - self._samples_so_far(phase.first)) / phase.samples.epoch_samples
            for phase, end in zip(self.phases, ends, strict=True)
            if phase.first < step
        )

    def _phase(self, step: int) -> Phase:
        return [phase for phase in self.phases if phase.first <= max(0, min(step, self.steps - 1))][-1]


def shard_step(samples: Integers, micro_batches: int, *, rank: int, world_size: int) -> list[Integers]:
    """The micro-batches of a step that process `rank` of `world_size` computes, always the same slices of the step."""
    pieces = world_size * micro_batches
    if len(samples) < pieces:
        cause = f"a batch of {len(samples)} samples cannot be split over {world_size} processes"
        cause = f"{cause} with {micro_batches} micro-batches"
        raise ConfigError(cause, fix="raise training.batch_size or lower training.accumulate")
    shortest, longer = divmod(len(samples), pieces)  # the first shares are one longer where it does not come out even
    indices = [micro * world_size + rank for micro in range(micro_batches)]
    starts = [index * shortest + min(index, longer) for index in indices]
    return [samples[start : start + shortest + (index < longer)] for index, start in zip(indices, starts, strict=True)]
