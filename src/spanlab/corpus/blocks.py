"""Blocks: what a training sample is cut from, by index.

| kind | content of a block |
|---|---|
| `DocumentBlocks` | whole sentences of one document (BERT without pairs, SpanBERT, ELECTRA) |
| `FullSentenceBlocks` | whole sentences, documents joined by a separator (RoBERTa) |
| `ColumnBlocks` | the next tokens of one of C continuous streams (XLNet, GPT, ELMo) |
| `PairBlocks` (`pairs.py`) | two segments and whether they belong together (BERT, ALBERT) |

`length` counts the special tokens that the corruption room adds around a block ([CLS], [SEP]): `special_tokens`
places are left for them. A block itself holds text, and the separators that `FullSentenceBlocks` and `ColumnBlocks`
put between documents. In the first three every token of the corpus is in exactly one block.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spanlab.corpus.backwards import turn_round
from spanlab.corpus.corpus import PreparedCorpus, Ranges
from spanlab.corpus.index import kept_index
from spanlab.corpus.packing import document_block_starts, full_sentence_block_starts
from spanlab.corpus.ragged import Numbers, flat_ranges, offsets
from spanlab.corpus.randomness import Draws, below, mix
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


class ColumnBlocks:
    """C continuous streams side by side: block t·C + c is step t of column c, and goes on where step t - 1 ended.

    With a `stride` shorter than the length, step t begins `stride` tokens after step t - 1 and sees some of its tokens
    again (XLNet's `reuse_len`). With a separator id, one follows every document. Columns differ by at most one token;
    their last steps are shorter, or with `whole` left out. With `both_ways` they are left out, too, and the second half
    of the columns are the streams of the first half, each read from its end to its beginning (XLNet's `bi_data`).
    """

    def __init__(
        self,
        corpus: PreparedCorpus,
        *,
        length: int,
        columns: int = 1,
        stride: int | None = None,
        special_tokens: int = 0,
        separator_id: int | None = None,
        whole: bool = False,
        both_ways: bool = False,
    ) -> None:
        self._corpus, self._separator, self._both_ways = corpus, separator_id, both_ways
        self._room, self._columns = room_for_text(length, special_tokens), columns
        if both_ways and columns % 2:
            cause = f"{columns} columns cannot be read half forwards, half backwards"
            raise InputError(cause, fix="ask for an even number")
        self._stride = self._room if stride is None else stride
        if not 1 <= self._stride <= self._room:
            raise InputError(f"a stride of {stride} does not fit blocks with room for {self._room} tokens")
        size = corpus.counts.tokens + (0 if separator_id is None else corpus.counts.documents)
        self._streams = columns // 2 if both_ways else columns
        if not 1 <= self._streams <= size:
            raise InputError(f"{columns} columns cannot be made of {size} tokens", fix="ask for fewer columns")
        self._shortest, self._longer = divmod(size, self._streams)
        self._whole_steps = 1 + (self._shortest - self._room) // self._stride if whole or both_ways else None
        if self._whole_steps is not None and self._whole_steps < 1:
            cause = f"{columns} columns of {size} tokens have no whole block of {self._room} tokens"
            raise InputError(cause, path=corpus.folder, fix="ask for fewer columns or shorter blocks")

    def __len__(self) -> int:
        if self._whole_steps is not None:
            return self._whole_steps * self._columns
        steps, rest = divmod(self._shortest, self._stride)
        # Where whole steps fill the short columns, the longer ones, which come first, have one more token each.
        return steps * self._columns + (self._columns if rest else self._longer)

    def batch(self, indices: ArrayLike) -> BlockBatch:  # noqa: D102
        numbers = checked(indices, len(self))
        steps, columns = np.divmod(numbers, self._columns)
        streams, backward = columns % self._streams, columns >= self._streams
        first = streams * self._shortest + np.minimum(streams, self._longer)
        end = first + self._shortest + (streams < self._longer)
        ahead = steps * self._stride
        starts = np.where(backward, np.maximum(end - ahead - self._room, first), first + ahead)
        stops = np.where(backward, end - ahead, np.minimum(starts + self._room, end))
        if self._separator is None:
            blocks = one_segment(numbers, self._corpus.read(starts, stops), sources=starts)
        else:
            blocks = one_segment(numbers, self._read_separated(starts, stops, self._separator))
        return turn_round(blocks, backward) if self._both_ways else blocks

    def same_direction(self, indices: Numbers, values: Draws) -> Numbers:
        """(B,) for each block a random one that is read in the same direction, by a draw (B,)."""
        backward = indices % self._columns >= self._streams
        steps = below(values, len(self) // self._columns)
        columns = below(mix(values), self._streams)
        return steps * self._columns + columns + np.where(backward, self._streams, 0)

    def _read_separated(self, starts: Numbers, stops: Numbers, separator: int) -> Ranges:
        before, until = self._separators_before(starts), self._separators_before(stops)
        text = self._corpus.read(starts - before, stops - until)
        counts = until - before
        # The separator of document d - 1 stands before the first token of document d.
        tokens = self._corpus.start_of("documents", flat_ranges(before + 1, counts))
        shifts = offsets(text.lengths) - (starts - before)
        return with_separators(text, tokens + np.repeat(shifts, counts), counts, separator)

    def _separators_before(self, places: Numbers) -> Numbers:
        """(R,) separators in the stream before each place, by bisection over all documents at once."""
        low, high = np.zeros_like(places), np.full_like(places, self._corpus.counts.documents)
        while (open_ := low < high).any():
            middle = (low + high + 1) // 2
            ended = self._corpus.start_of("documents", middle) + middle <= places
            low, high = np.where(open_ & ended, middle, low), np.where(open_ & ~ended, middle - 1, high)
        return low


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
