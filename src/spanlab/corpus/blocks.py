"""Blocks: what a training sample is made of, addressed by index.

| class | content of a block |
|---|---|
| `DocumentBlocks` | whole sentences of one document (BERT without pairs, SpanBERT, ELECTRA) |
| `FullSentenceBlocks` | whole sentences, documents joined by a separator (RoBERTa) |
| `StreamBlocks`, `StreamPairBlocks` (`text_streams.py`) | the next tokens of a continuous stream (XLNet, GPT, ELMo) |
| `PairBlocks` (`pairs.py`) | two segments and whether they belong together (BERT, ALBERT) |

`length` includes the special tokens that `corruption` adds around a block ([CLS], [SEP]); without these
`special_tokens` it is `max_tokens`, the most tokens a block holds: text, and the separators that `FullSentenceBlocks`
and `StreamBlocks` put between documents. In `DocumentBlocks`, `FullSentenceBlocks` and `StreamBlocks` without a stride
every token of the corpus is in exactly one block.

Where blocks begin is computed once for each corpus and length, and cached in the corpus folder.
"""

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from typing_extensions import override

from spanlab.arrays import Flags, Integers, offsets
from spanlab.corpus.corpus import PreparedCorpus, Ranges
from spanlab.corpus.manifest import INDEX, MANIFEST
from spanlab.corpus.shards import Shard
from spanlab.errors import InputError

_LONGEST = 1 << 20
_DIGEST_BYTES = 32
Index = TypeVar("Index", bound=NDArray[np.generic])


@dataclass(frozen=True, kw_only=True)
class BlockBatch:
    """B blocks end to end, N tokens in all. No padding, no special tokens but the separators between documents."""

    indices: Integers
    """(B,) the indices of the blocks: random draws are keyed by them."""
    ids: Integers
    """(N,) token ids."""
    lengths: Integers
    """(B,) tokens of each block."""
    word_starts: Flags
    """(N,) where words begin; True at the first token of every block and segment, though a word may be cut there."""
    sentence_starts: Flags
    """(N,) where sentences begin; a block that continues a split sentence begins with False."""
    first_lengths: Integers
    """(B,) tokens of the first segment; the second has the rest, none where a block has one segment."""
    sources: Integers | None
    """(B,) position of each block's first token in the corpus, for blocks that are one range of it; else None."""
    labels: NDArray[np.int8]
    """(B,) of pairs: 0 the second segment follows the first, 1 it does not, -1 no label."""


class Blocks(ABC):
    """Samples by index."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def batch(self, indices: ArrayLike) -> BlockBatch:
        """The blocks at `indices` (B,), in that order."""

    @abstractmethod
    def first_tokens(self) -> Integers:
        """(blocks,) position in the corpus of the first token of each block's first segment."""


class DocumentBlocks(Blocks):
    """Whole sentences packed up to the length, never across documents."""

    def __init__(self, corpus: PreparedCorpus, *, length: int, special_tokens: int = 2) -> None:
        self._corpus = corpus
        self._starts = _cached_starts(corpus, "documents", max_block_tokens(length, special_tokens), _pack_documents)

    @override
    def __len__(self) -> int:
        return len(self._starts) - 1

    @override
    def first_tokens(self) -> Integers:
        return self._starts[:-1]

    @override
    def batch(self, indices: ArrayLike) -> BlockBatch:
        indices = checked_indices(indices, len(self))
        starts = self._starts[indices]
        return one_segment(indices, self._corpus.read(starts, self._starts[indices + 1]), sources=starts)


class FullSentenceBlocks(Blocks):
    """Whole sentences packed up to the length, across documents; the last block of a shard may be short."""

    def __init__(
        self, corpus: PreparedCorpus, *, length: int, special_tokens: int = 2, separator_id: int | None = None
    ) -> None:
        max_tokens = max_block_tokens(length, special_tokens)
        separator = corpus.tokenizer.sep_id if separator_id is None else separator_id
        if separator is None:
            raise InputError(
                "the tokenizer has no separator token to put between documents",
                path=corpus.folder,
                fix="choose blocks that stay within documents",
            )
        self._corpus, self._separator = corpus, separator
        self._starts = _cached_starts(corpus, "full-sentences", max_tokens, _pack_full_sentences)

    @override
    def __len__(self) -> int:
        return len(self._starts) - 1

    @override
    def first_tokens(self) -> Integers:
        return self._starts[:-1]

    @override
    def batch(self, indices: ArrayLike) -> BlockBatch:
        indices = checked_indices(indices, len(self))
        starts, stops = self._starts[indices], self._starts[indices + 1]
        counts, documents = self._corpus.starts_within("documents", starts + 1, np.maximum(stops, starts + 1))
        text = self._corpus.read(starts, stops)
        shifts = offsets(text.lengths) - starts
        positions = documents + np.repeat(shifts, counts)
        return one_segment(indices, insert_separators(text, positions, counts, self._separator))


# What all classes of blocks share.


def max_block_tokens(length: int, special_tokens: int) -> int:
    """The most tokens of text in a block of `length` with its special tokens."""
    max_tokens = length - special_tokens
    if not 1 <= max_tokens <= _LONGEST:
        raise InputError(
            f"a length of {length} leaves {max_tokens} tokens for text beside {special_tokens} special ones"
        )
    return max_tokens


def checked_indices(indices: ArrayLike, count: int) -> Integers:
    """(B,) block indices as an array; IndexError unless all are in 0 … count - 1."""
    array = np.asarray(indices, np.int64).reshape(-1)
    if array.size and not (array.min() >= 0 and array.max() < count):
        raise IndexError(f"block indices must be between 0 and {count - 1}")
    return array


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


def insert_separators(text: Ranges, positions: Integers, counts: Integers, separator: int) -> Ranges:
    """The ranges with a separator, a word of its own, before each of `positions` in `text.ids`.

    `counts` (R,) is the number of positions in each range.
    """
    if not len(positions):
        return text
    return Ranges(
        ids=np.insert(text.ids, positions, separator),
        lengths=text.lengths + counts,
        word_starts=np.insert(text.word_starts, positions, True),
        sentence_starts=np.insert(text.sentence_starts, positions, False),
    )


# Packing: where the blocks of a shard begin.


def _pack_documents(shard: Shard, max_tokens: int) -> Integers:
    """Whole sentences up to `max_tokens`, never across documents; a longer sentence is split between words."""
    starts = _segment_starts(shard, max_tokens)
    bounds = np.append(starts, len(shard.tokens))
    next_segments = np.searchsorted(bounds, starts + max_tokens, side="right") - 1
    documents = np.searchsorted(starts, shard.documents)
    document_ends = np.append(documents[1:], len(starts))
    segment_document_ends = np.repeat(document_ends, np.diff(np.append(documents, len(starts))))
    return starts[_follow(np.minimum(next_segments, segment_document_ends))]


def _pack_full_sentences(shard: Shard, max_tokens: int) -> Integers:
    """Whole sentences up to `max_tokens`, across documents; the separator between two documents counts as a token."""
    starts = _segment_starts(shard, max_tokens)
    documents = np.searchsorted(starts, shard.documents)
    separators = np.cumsum(np.bincount(documents, minlength=len(starts)))  # before each segment, from the shard's start
    ends = np.append(starts[1:], len(shard.tokens)) + separators
    return starts[_follow(np.searchsorted(ends, starts + separators + max_tokens, side="right"))]


def _segment_starts(shard: Shard, max_tokens: int) -> Integers:
    """Where sentences start, and where those longer than `max_tokens` are split."""
    starts = shard.sentences.astype(np.int64)
    ends = np.append(starts[1:], len(shard.tokens))
    splits = [
        split
        for sentence in np.flatnonzero(ends - starts > max_tokens).tolist()
        for split in _split_sentence(shard, int(starts[sentence]), int(ends[sentence]), max_tokens)
    ]
    return np.sort(np.append(starts, np.array(splits, np.int64))) if splits else starts


def _split_sentence(shard: Shard, start: int, end: int, max_tokens: int) -> list[int]:
    """Positions at which to split a sentence: the last word start within `max_tokens`, or after that many tokens."""
    first_byte = start // 8
    bits = np.unpackbits(shard.words[first_byte : end // 8 + 1], bitorder="little")
    words = np.flatnonzero(bits) + 8 * first_byte
    splits = []
    while end - start > max_tokens:
        last = int(np.searchsorted(words, start + max_tokens, side="right")) - 1
        start = int(words[last]) if last >= 0 and words[last] > start else start + max_tokens
        splits.append(start)
    return splits


def _follow(successors: Integers) -> Integers:
    """The indices visited from 0 on by going from each index to its successor, until past the end."""
    following = successors.data
    visited, index = [], 0
    while index < len(following):
        visited.append(index)
        index = following[index]
    return np.array(visited, np.int64)


# The cache of block indices on disk. File names are part of the folder format: existing indexes are found by them.


def _cached_starts(
    corpus: PreparedCorpus, name: str, max_tokens: int, pack: Callable[[Shard, int], Integers]
) -> Integers:
    """(blocks + 1,) where blocks start in the corpus, and its end."""

    def compute() -> Integers:
        first, starts = 0, []
        for shard in corpus.shards:
            starts.append(first + pack(shard, max_tokens))
            first += len(shard.tokens)
        return np.append(np.concatenate(starts), first)

    return cached_index(corpus, f"{name}-{max_tokens}", compute)


def cached_index(corpus: PreparedCorpus, name: str, compute: Callable[[], Index]) -> Index:
    """The array that `compute` returns, from the corpus folder if it was computed before."""
    fingerprint = hashlib.sha256((corpus.folder / MANIFEST).read_bytes()).hexdigest()[:16]
    path = corpus.folder / INDEX / f"{name}-{fingerprint}.npy"
    try:
        return _map_index(path)
    except (OSError, ValueError):  # missing or damaged
        index = compute()
    try:
        _write_index(path, index)
    except OSError:  # a read-only or full disk
        return index
    return _map_index(path)


def _map_index(path: Path) -> Index:  # type: ignore[type-var]
    """A damaged index is a ValueError: with wrong starts, training would read other blocks, or beyond the corpus."""
    digest, left = hashlib.sha256(), path.stat().st_size - _DIGEST_BYTES
    with path.open("rb") as file:
        while left > 0 and (chunk := file.read(min(left, 1 << 22))):  # an index may be larger than memory
            digest.update(chunk)
            left -= len(chunk)
        if left or digest.digest() != file.read():
            raise ValueError("the index is not what was written")
    array: Index = np.load(path, mmap_mode="r", allow_pickle=False).view(np.ndarray)
    return array


def _write_index(path: Path, index: Index) -> None:
    """Write an index, and the SHA-256 of the file so far behind it.

    Several processes may compute the same index at once: each writes its own file, and the last rename wins.
    """
    path.parent.mkdir(exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            np.save(file, index, allow_pickle=False)
        digest = hashlib.sha256(partial.read_bytes()).digest()
        with partial.open("ab") as file:
            file.write(digest)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
