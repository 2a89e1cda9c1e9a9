"""Pairs of segments: BERT's next-sentence data and ALBERT's sentence-order data, by index.

The law is that of the published scripts. A document is read from its first sentence on; sentences gather into a chunk
until a target length is reached, that of a block or, for a share of the documents, a random shorter one.
The first segment is a random number of the chunk's sentences. Next sentence: the second segment is the rest of the
chunk or, half of the time and always for a chunk of one sentence, text from a random position in another document, and
then the rest of the chunk is put back and begins the next one. Sentence order: the second segment is the rest, and
half of the time the two are swapped. A pair that is too long loses tokens of its longer side, from either end.

Every choice is drawn from (seed, pass, document, chunk), so an index is made once and is the same on every machine.
A pass goes over the whole corpus; several passes give several draws of the pairs (BERT's `dupe_factor`). All documents
of a shard walk forward together, one chunk a step, so making an index is numpy work and no loop over sentences.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from typing_extensions import override

from spanlab.arrays import Flags, Integers, offsets
from spanlab.corpus.blocks import BlockBatch, Blocks, cached_index, checked_indices, max_block_tokens
from spanlab.corpus.corpus import PreparedCorpus
from spanlab.corpus.randomness import Draws, below, draw, sample_keys, uniform
from spanlab.errors import InputError

_TRIES = 10
"""Draws of another document before the same one is accepted, as in the published script."""

_PAIR = np.dtype(
    [("first", "<i8"), ("second", "<i8"), ("first_length", "<u4"), ("second_length", "<u4"), ("label", "i1")]
)


@dataclass(frozen=True, kw_only=True)
class PairLaw:
    """Which pairs are drawn."""

    task: Literal["next_sentence", "sentence_order"]
    short_share: float = 0.1
    """Documents whose target length is a random one (BERT's `short_seq_prob`)."""
    random_for_single: bool = False
    """Sentence order only: a chunk of one sentence takes a random second segment and the label 1, as ALBERT's script
    does; else it stays alone, without a label."""


class PairBlocks(Blocks):
    """Pairs of segments with labels."""

    def __init__(
        self, corpus: PreparedCorpus, *, length: int, law: PairLaw, seed: int, passes: int = 1, special_tokens: int = 3
    ) -> None:
        max_tokens = max_block_tokens(length, special_tokens)
        if max_tokens < 2:
            raise InputError(f"a length of {length} is too short for two segments")
        needs_others = law.task == "next_sentence" or law.random_for_single
        if needs_others and corpus.counts.documents < 2:
            raise InputError(
                "random second segments need at least two documents, the corpus has one",
                path=corpus.folder,
                fix="prepare with --documents blank-line or line, or use another objective",
            )
        self._corpus = corpus
        self._passes = [_cached_pass(corpus, max_tokens, law, seed, index) for index in range(passes)]
        self._firsts = np.cumsum([0, *map(len, self._passes)])

    @override
    def __len__(self) -> int:
        return int(self._firsts[-1])

    @override
    def first_tokens(self) -> Integers:
        return np.concatenate([np.asarray(pairs["first"], np.int64) for pairs in self._passes])

    @override
    def batch(self, indices: ArrayLike) -> BlockBatch:
        indices = checked_indices(indices, len(self))
        passes = np.searchsorted(self._firsts, indices, side="right") - 1
        pairs = np.empty(len(indices), _PAIR)
        for pass_index in np.unique(passes).tolist():
            in_pass = passes == pass_index
            pairs[in_pass] = self._passes[pass_index][indices[in_pass] - self._firsts[pass_index]]
        starts = np.stack((pairs["first"], pairs["second"]), axis=1).reshape(-1)
        lengths = np.stack((pairs["first_length"], pairs["second_length"]), axis=1).astype(np.int64)
        text = self._corpus.read(starts, starts + lengths.reshape(-1))
        text.word_starts[offsets(text.lengths)[text.lengths > 0]] = True
        return BlockBatch(
            indices=indices,
            ids=text.ids,
            lengths=lengths.sum(axis=1),
            word_starts=text.word_starts,
            sentence_starts=text.sentence_starts,
            first_lengths=lengths[:, 0],
            sources=None,
            labels=pairs["label"],
        )


def _cached_pass(corpus: PreparedCorpus, max_tokens: int, law: PairLaw, seed: int, pass_index: int) -> np.ndarray:
    # The name is part of the folder format: existing indexes are found by it.
    single = "-random" if law.random_for_single else ""
    name = f"{law.task}{single}-{max_tokens}-{law.short_share}-{seed}-{pass_index}"
    return cached_index(corpus, name, lambda: _draw_pass(corpus, max_tokens, law, seed, pass_index))


@dataclass(frozen=True, kw_only=True)
class _Chunks:
    """C chunks, as drawn: sentences are counted through the shard, documents through the corpus."""

    document: Integers
    key: Draws
    target: Integers
    first: Integers
    """Sentence the chunk begins with; `second` the one its second segment begins with; `end` past its last."""
    second: Integers
    end: Integers
    random: Flags


# Indices of the draws: first those of a document, then those of a chunk.
_IS_SHORT, _SHORT_LENGTH, _CHUNK_KEYS = 0, 1, 2
_FIRST_SENTENCES, _IS_RANDOM, _OTHER_SENTENCE, _OTHER_DOCUMENT, _FRONTS = 0, 1, 2, 8, 32


def _draw_pass(corpus: PreparedCorpus, max_tokens: int, law: PairLaw, seed: int, pass_index: int) -> np.ndarray:
    pairs, documents, tokens = [], 0, 0
    for shard in corpus.shards:
        sentences = np.append(shard.sentences.astype(np.int64), len(shard.tokens))
        document_firsts = np.searchsorted(shard.sentences, shard.documents)
        document_indices = documents + np.arange(len(shard.documents))
        keys = sample_keys(seed=seed, purpose="pairs", epoch=pass_index, index=document_indices)
        chunks = _draw_chunks(sentences, document_firsts, document_indices, keys, max_tokens, law)
        pairs.append(_pairs_of(corpus, chunks, sentences + tokens, max_tokens, law))
        documents, tokens = documents + len(shard.documents), tokens + len(shard.tokens)
    return np.concatenate(pairs)


def _draw_chunks(
    sentences: Integers,
    document_firsts: Integers,
    document_indices: Integers,
    keys: Draws,
    max_tokens: int,
    law: PairLaw,
) -> _Chunks:
    """The chunks of a shard's documents, in the order of the text."""
    document_ends = np.append(document_firsts[1:], len(sentences) - 1)
    short = uniform(draw(keys, _IS_SHORT)) < law.short_share
    targets = np.where(short, 2 + below(draw(keys, _SHORT_LENGTH), max_tokens - 1), max_tokens)
    position, active = document_firsts.astype(np.int64), np.arange(len(document_indices))
    steps: list[_Chunks] = []
    while active.size:
        key = draw(keys[active], _CHUNK_KEYS + len(steps))
        first, target = position[active], targets[active]
        end = np.minimum(np.searchsorted(sentences, sentences[first] + target), document_ends[active])
        count = end - first
        second = first + np.where(count > 1, 1 + below(draw(key, _FIRST_SENTENCES), np.maximum(count - 1, 1)), 1)
        coin = uniform(draw(key, _IS_RANDOM)) < 0.5
        alone = count == 1
        random = (alone | coin) if law.task == "next_sentence" else (alone & law.random_for_single)
        steps.append(
            _Chunks(
                document=document_indices[active],
                key=key,
                target=target,
                first=first,
                second=second,
                end=end,
                random=random,
            )
        )
        position[active] = np.where(random, second, end)
        active = active[position[active] < document_ends[active]]
    return _in_text_order(steps)


def _in_text_order(steps: list[_Chunks]) -> _Chunks:
    names = ("document", "key", "target", "first", "second", "end", "random")
    columns = {name: np.concatenate([getattr(step, name) for step in steps]) for name in names}
    order = np.argsort(columns["first"], kind="stable")
    return _Chunks(**{name: column[order] for name, column in columns.items()})


def _pairs_of(
    corpus: PreparedCorpus, chunks: _Chunks, sentences: Integers, max_tokens: int, law: PairLaw
) -> np.ndarray:
    """The pairs of a shard's chunks; `sentences` (S + 1,) are the tokens its sentences begin at, in the corpus."""
    first, second = sentences[chunks.first], sentences[chunks.second]
    first_length, second_length = second - first, sentences[chunks.end] - second
    label = np.where(chunks.random, 1, np.where(second_length == 0, -1, 0))
    others = np.flatnonzero(chunks.random)
    second[others], second_length[others] = _random_segments(
        corpus, chunks.document[others], chunks.key[others], (chunks.target - first_length)[others]
    )
    if law.task == "sentence_order":
        swapped = (label == 0) & (uniform(draw(chunks.key, _IS_RANDOM)) < 0.5)
        first, second = np.where(swapped, second, first), np.where(swapped, first, second)
        first_length, second_length = (
            np.where(swapped, second_length, first_length),
            np.where(swapped, first_length, second_length),
        )
        label = np.where(swapped, 1, label)
    keep_first, keep_second = _truncated(first_length, second_length, max_tokens)
    fronts = (
        _front_cuts(chunks.key, first_length - keep_first, 0),
        _front_cuts(chunks.key, second_length - keep_second, 1),
    )
    pairs = np.empty(len(label), _PAIR)
    pairs["first"], pairs["second"] = first + fronts[0], second + fronts[1]
    pairs["first_length"], pairs["second_length"], pairs["label"] = keep_first, keep_second, label
    return pairs


def _random_segments(
    corpus: PreparedCorpus, documents: Integers, keys: Draws, targets: Integers
) -> tuple[Integers, Integers]:
    """(first token, tokens) of text from a random sentence on of another document, up to the target length."""
    others = documents.copy()
    for attempt in range(_TRIES):
        same = others == documents
        if not same.any():
            break
        others[same] = below(draw(keys[same], _OTHER_DOCUMENT + attempt), corpus.counts.documents)
    begin, end = (corpus.count_before("sentences", corpus.start_of("documents", others + step)) for step in (0, 1))
    sentence = begin + below(draw(keys, _OTHER_SENTENCE), end - begin)
    start = corpus.start_of("sentences", sentence)
    # At least one sentence, however few tokens are missing, but never past the document's end.
    last = np.minimum(corpus.count_before("sentences", start + np.maximum(targets, 1)), end)
    return start, corpus.start_of("sentences", last) - start


def _truncated(first: Integers, second: Integers, max_tokens: int) -> tuple[Integers, Integers]:
    """The lengths left when the longer segment (the second, if equal) loses a token until both fit."""
    shorter = np.minimum(first, second)
    both = 2 * shorter > max_tokens  # even the shorter one loses tokens, until they are equal but for one
    keep_first = np.where(both, (max_tokens + 1) // 2, np.where(first > second, max_tokens - second, first))
    keep_second = np.where(both, max_tokens // 2, np.where(first > second, second, max_tokens - first))
    fits = first + second <= max_tokens
    return np.where(fits, first, keep_first), np.where(fits, second, keep_second)


def _front_cuts(keys: Draws, cuts: Integers, side: int) -> Integers:
    """(C,) how many of the cut tokens come off the front: one coin, a bit of the draws, for each."""
    fronts = np.zeros(len(cuts), np.int64)
    for word in range(-(-int(cuts.max(initial=0)) // 64)):
        bits = np.clip(cuts - 64 * word, 0, 64)
        coins = draw(keys, _FRONTS + 2 * word + side)
        kept = np.where(bits == 64, coins, coins & ((np.uint64(1) << (bits % 64).astype(np.uint64)) - np.uint64(1)))
        fronts += np.bitwise_count(kept).astype(np.int64) * (bits > 0)
    return fronts
