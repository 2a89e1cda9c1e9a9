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

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spanlab.arrays import Flags, Integers, offsets
from spanlab.corpus.corpus import PreparedCorpus, Ranges
from spanlab.corpus.manifest import MANIFEST
from spanlab.corpus.prepare.folder import INDEX
from spanlab.corpus.shards import Shard
from spanlab.errors import InputError


def document_block_starts(shard: Shard, room: int) -> Integers:
    """Whole sentences up to `room` tokens, never across documents; a longer sentence is split between words."""
    starts = _segment_starts(shard, room)
    bounds = np.append(starts, len(shard.tokens))
    fitting = np.searchsorted(bounds, starts + room, side="right") - 1
    documents = np.searchsorted(starts, shard.documents)
    document_ends = np.append(documents[1:], len(starts))
    own_document = np.repeat(document_ends, np.diff(np.append(documents, len(starts))))
    return starts[_walk(np.minimum(fitting, own_document))]


def full_sentence_block_starts(shard: Shard, room: int) -> Integers:
    """Whole sentences up to `room` tokens, across documents; the separator between two documents takes a place."""
    starts = _segment_starts(shard, room)
    documents = np.searchsorted(starts, shard.documents)
    separators = np.cumsum(np.bincount(documents, minlength=len(starts)))  # before a segment, from the beginning on
    ends = np.append(starts[1:], len(shard.tokens)) + separators
    return starts[_walk(np.searchsorted(ends, starts + separators + room, side="right"))]


def _segment_starts(shard: Shard, room: int) -> Integers:
    """Where sentences start, and where those longer than `room` are split."""
    starts = shard.sentences.astype(np.int64)
    ends = np.append(starts[1:], len(shard.tokens))
    splits = [
        split
        for sentence in np.flatnonzero(ends - starts > room).tolist()
        for split in _splits(shard, int(starts[sentence]), int(ends[sentence]), room)
    ]
    return np.sort(np.append(starts, np.array(splits, np.int64))) if splits else starts


def _splits(shard: Shard, start: int, end: int, room: int) -> list[int]:
    """Where to split a sentence so that no piece exceeds `room`: at the last word start that fits, if there is one."""
    first_byte = start // 8
    bits = np.unpackbits(shard.words[first_byte : end // 8 + 1], bitorder="little")
    words = np.flatnonzero(bits) + 8 * first_byte
    splits = []
    while end - start > room:
        place = int(np.searchsorted(words, start + room, side="right")) - 1
        start = int(words[place]) if place >= 0 and words[place] > start else start + room
        splits.append(start)
    return splits


def _walk(successors: Integers) -> Integers:
    """The numbers met from 0 on by going from each to its successor, until past the end."""
    following = successors.data
    met, number = [], 0
    while number < len(following):
        met.append(number)
        number = following[number]
    return np.array(met, np.int64)


Index = TypeVar("Index", bound=NDArray[np.generic])


def kept_index(corpus: PreparedCorpus, name: str, make: Callable[[], Index]) -> Index:
    """The array that `make` returns, from disk if it was made before."""
    fingerprint = hashlib.sha256((corpus.folder / MANIFEST).read_bytes()).hexdigest()[:16]
    path = corpus.folder / INDEX / f"{name}-{fingerprint}.npy"
    try:
        return _mapped(path)
    except (OSError, ValueError):  # not there, or cut by a full disk: it is made again
        index = make()
    try:
        _write(path, index)
    except OSError:  # a read-only or full disk
        return index
    return _mapped(path)


def _mapped(path: Path) -> Index:  # type: ignore[type-var]
    array: Index = np.load(path, mmap_mode="r", allow_pickle=False).view(np.ndarray)
    return array


def _write(path: Path, index: Index) -> None:
    """Several processes may make the same index at once: each writes its own file, and the last rename stays."""
    path.parent.mkdir(exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            np.save(file, index, allow_pickle=False)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


_LONGEST = 1 << 20


@dataclass(frozen=True, kw_only=True)
class BlockBatch:
    """B blocks one after the other, N tokens in all. No padding, no special tokens but separators of the layout."""

    indices: Integers
    """(B,) which blocks these are: what random draws are keyed by."""
    ids: Integers
    """(N,) token ids."""
    lengths: Integers
    """(B,) tokens of each block."""
    word_starts: Flags
    """(N,) where words begin; True at the first token of every block and segment, though a word may be cut there."""
    sentence_starts: Flags
    """(N,) where sentences begin; a block that goes on with a split sentence begins with False."""
    first_lengths: Integers
    """(B,) tokens of the first segment; the second has the rest, none where a block has one segment."""
    sources: Integers | None
    """(B,) where each block begins in the corpus, for blocks that are one stretch of it; None for the others."""
    labels: NDArray[np.int8]
    """(B,) of pairs: 0 the second segment follows the first, 1 it does not, -1 there is nothing to be asked."""


class Blocks(Protocol):
    """Samples by index."""

    def __len__(self) -> int: ...

    def batch(self, indices: ArrayLike) -> BlockBatch:
        """The blocks at `indices` (B,), in that order."""
        ...

    def first_tokens(self) -> Integers:
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

    def first_tokens(self) -> Integers:  # noqa: D102 (as in the protocol)
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

    def first_tokens(self) -> Integers:  # noqa: D102 (as in the protocol)
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


def checked(indices: ArrayLike, count: int) -> Integers:
    """Block indices as an array, all of them within the blocks."""
    numbers = np.asarray(indices, np.int64).reshape(-1)
    if numbers.size and not (numbers.min() >= 0 and numbers.max() < count):
        raise IndexError(f"block indices must be within 0 and {count - 1}")
    return numbers


def one_segment(indices: Integers, text: Ranges, sources: Integers | None = None) -> BlockBatch:
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


def with_separators(text: Ranges, places: Integers, counts: Integers, separator: int) -> Ranges:
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


def _starts(corpus: PreparedCorpus, kind: str, room: int, pack: Callable[[Shard, int], Integers]) -> Integers:
    """(blocks + 1,) where blocks start in the corpus, and its end; kept on disk once made."""

    def make() -> Integers:
        first, starts = 0, []
        for shard in corpus.shards:
            starts.append(first + pack(shard, room))
            first += len(shard.tokens)
        return np.append(np.concatenate(starts), first)

    return kept_index(corpus, f"{kind}-{room}", make)
