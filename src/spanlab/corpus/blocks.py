"""Blocks: what a training sample is cut from, by index.

| kind | content of a block |
|---|---|
| `DocumentBlocks` | whole sentences of one document (BERT without pairs, SpanBERT, ELECTRA) |
| `FullSentenceBlocks` | whole sentences, documents joined by a separator (RoBERTa) |
| `StreamBlocks` (`columns.py`) | the next tokens of one of C continuous streams (XLNet, GPT, ELMo) |
| `PairBlocks` (`pairs.py`) | two segments and whether they belong together (BERT, ALBERT) |

`length` counts the special tokens that the corruption room adds around a block ([CLS], [SEP]): `special_tokens`
places are left for them. A block itself holds text, and the separators that `FullSentenceBlocks` and `StreamBlocks`
put between documents. In the first three every token of the corpus is in exactly one block.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spanlab.arrays import Numbers, offsets
from spanlab.corpus.corpus import PreparedCorpus, Ranges
from spanlab.corpus.index import kept_index
from spanlab.corpus.packing import document_block_starts, full_sentence_block_starts
from spanlab.corpus.shards import Shard
from spanlab.errors import InputError

_LONGEST = 1 << 20


@dataclass(frozen=True, kw_only=True)
class BlockBatch:
    """B blocks one after the other, N tokens in all. No padding, no special tokens but separators of the layout."""

    indices: Numbers
    """(B,) which blocks these are: what random draws are keyed by."""
    ids: Numbers
    """(N,) token ids."""
    lengths: Numbers
    """(B,) tokens of each block."""
    word_starts: NDArray[np.bool_]
    """(N,) where words begin; True at the first token of every block and segment, though a word may be cut there."""
    sentence_starts: NDArray[np.bool_]
    """(N,) where sentences begin; a block that goes on with a split sentence begins with False."""
    first_lengths: Numbers
    """(B,) tokens of the first segment; the second has the rest, none where a block has one segment."""
    sources: Numbers | None
    """(B,) where each block begins in the corpus, for blocks that are one stretch of it; None for the others."""
    labels: NDArray[np.int8]
    """(B,) of pairs: 0 the second segment follows the first, 1 it does not, -1 there is nothing to be asked."""


class Blocks(Protocol):
    """Samples by index."""

    def __len__(self) -> int: ...

    def batch(self, indices: ArrayLike) -> BlockBatch:
        """The blocks at `indices` (B,), in that order."""
        ...

    def first_tokens(self) -> Numbers:
        """(blocks,) where each block's first segment begins in the corpus."""
        ...


class DocumentBlocks:
    """Whole sentences packed up to the length, never across documents."""

    def __init__(self, corpus: PreparedCorpus, *, length: int, special_tokens: int = 2) -> None:
        room = room_for_text(length, special_tokens)
        self._corpus = corpus
        self._starts = _starts(corpus, "documents", room, document_block_starts)

    def __len__(self) -> int:
        return len(self._starts) - 1

    def first_tokens(self) -> Numbers:  # noqa: D102 (as in the protocol)
        return self._starts[:-1]

    def batch(self, indices: ArrayLike) -> BlockBatch:  # noqa: D102 (as in the protocol)
        numbers = checked(indices, len(self))
        starts = self._starts[numbers]
        return one_segment(numbers, self._corpus.read(starts, self._starts[numbers + 1]), sources=starts)


class FullSentenceBlocks:
    """Whole sentences packed up to the length, across documents; the last block of a shard may be short."""

    def __init__(
        self, corpus: PreparedCorpus, *, length: int, special_tokens: int = 2, separator_id: int | None = None
    ) -> None:
        room = room_for_text(length, special_tokens)
        self._corpus = corpus
        self._separator = _separator(corpus, separator_id)
        self._starts = _starts(corpus, "full-sentences", room, full_sentence_block_starts)

    def __len__(self) -> int:
        return len(self._starts) - 1

    def first_tokens(self) -> Numbers:  # noqa: D102 (as in the protocol)
        return self._starts[:-1]

    def batch(self, indices: ArrayLike) -> BlockBatch:  # noqa: D102
        numbers = checked(indices, len(self))
        starts, stops = self._starts[numbers], self._starts[numbers + 1]
        counts, found = self._corpus.starts_within("documents", starts + 1, np.maximum(stops, starts + 1))
        text = self._corpus.read(starts, stops)
        shifts = offsets(text.lengths) - starts
        return one_segment(numbers, with_separators(text, found + np.repeat(shifts, counts), counts, self._separator))


def room_for_text(length: int, special_tokens: int) -> int:
    """Tokens of text in a block of `length` with its special tokens."""
    room = length - special_tokens
    if not 1 <= room <= _LONGEST:
        raise InputError(f"a length of {length} leaves {room} places for text beside {special_tokens} special tokens")
    return room


def checked(indices: ArrayLike, count: int) -> Numbers:
    """Block indices as an array, all of them within the blocks."""
    numbers = np.asarray(indices, np.int64).reshape(-1)
    if numbers.size and not (numbers.min() >= 0 and numbers.max() < count):
        raise IndexError(f"block indices must be within 0 and {count - 1}")
    return numbers


def one_segment(indices: Numbers, text: Ranges, sources: Numbers | None = None) -> BlockBatch:
    """Blocks of one segment each."""
    word_starts = text.word_starts
    word_starts[offsets(text.lengths)[text.lengths > 0]] = True
    return BlockBatch(
        indices=indices,
        ids=text.ids,
        lengths=text.lengths,
        word_starts=word_starts,
        sentence_starts=text.sentence_starts,
        first_lengths=text.lengths,
        sources=sources,
        labels=np.full(len(indices), -1, np.int8),
    )


def with_separators(text: Ranges, places: Numbers, counts: Numbers, separator: int) -> Ranges:
    """The ranges with a separator, a word of its own, before the flat `places`, `counts` (R,) of them in each."""
    if not len(places):
        return text
    return Ranges(
        ids=np.insert(text.ids, places, separator),
        lengths=text.lengths + counts,
        word_starts=np.insert(text.word_starts, places, True),
        sentence_starts=np.insert(text.sentence_starts, places, False),
    )


def _separator(corpus: PreparedCorpus, separator_id: int | None) -> int:
    chosen = corpus.tokenizer.sep_id if separator_id is None else separator_id
    if chosen is None:
        raise InputError(
            "the tokenizer has no separator token to put between documents",
            path=corpus.folder,
            fix="choose blocks that stay within documents",
        )
    return chosen


def _starts(corpus: PreparedCorpus, kind: str, room: int, pack: Callable[[Shard, int], Numbers]) -> Numbers:
    """(blocks + 1,) where blocks start in the corpus, and its end; kept on disk once made."""

    def make() -> Numbers:
        first, starts = 0, []
        for shard in corpus.shards:
            starts.append(first + pack(shard, room))
            first += len(shard.tokens)
        return np.append(np.concatenate(starts), first)

    return kept_index(corpus, f"{kind}-{room}", make)
