"""Encoding each distinct chunk of text once.

Text repeats itself: 61 MB of novels, 15 million BERT tokens, consist of 96 thousand distinct words. A chunk seen before
is not tokenized again: its ids, offsets and word starts are looked up and concatenated by numpy. That is two to three
times as fast as `tokenizers`, word boundaries included. `independent_chunks` says which chunks may be encoded alone.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from spanlab.arrays import concatenated_ranges, offsets
from spanlab.text.alignment import join, text_bases
from spanlab.text.independent_chunks import ChunkRule, find_chunks, split_long
from spanlab.text.tokens import TokenTable

MAX_CHUNKS = 1 << 18
"""Chunks kept: some 50 MB, and more than the words of any but huge corpora."""
MAX_CHARACTERS = 1 << 20
"""Characters encoded at once; longer texts are split, so that a huge text costs no more memory than many small ones."""


class _ChunkRows(dict[str, int]):
    """The row of each cached chunk; −1 for one that is not cached."""

    def __missing__(self, chunk: str) -> int:
        return -1


class _Rows:
    """A table of integers that rows are appended to; a row once written never changes, also while the table grows."""

    def __init__(self, columns: int) -> None:
        self.values = np.empty((1 << 12, columns), dtype=np.int32)
        self.used = 0

    def append(self, *columns: np.ndarray) -> None:
        first, last = self.used, self.used + len(columns[0])
        if last > len(self.values):
            grown = np.empty((2 * last, len(columns)), dtype=np.int32)
            grown[:first] = self.values[:first]
            self.values = grown
        for column, values in enumerate(columns):
            self.values[first:last, column] = values
        self.used = last


class _Cached:
    """Chunks with their tokens. It only grows, and a chunk is named after its tokens are written: readers need no lock.

    A reader looks chunks up first and takes the arrays afterwards; those have every row that it was given.
    """

    def __init__(self) -> None:
        self.rows = _ChunkRows()
        self.tokens = _Rows(4)  # id, start, end and word start of each token
        self.spans = _Rows(2)  # by chunk: its first token, and the number of its tokens

    def add(self, chunks: Sequence[str], table: TokenTable) -> None:
        """The tokens of chunks that are not cached yet; for one writer at a time."""
        first_row, first_token = self.spans.used, self.tokens.used
        self.tokens.append(table.ids, table.starts, table.ends, table.word_starts)
        self.spans.append(first_token + offsets(table.counts), table.counts)
        self.rows.update(zip(chunks, range(first_row, self.spans.used), strict=True))

    def gather(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The tokens of the chunks at `rows`, (N, 4), and how many each has."""
        first_tokens, counts = self.spans.values.take(rows, axis=0).T
        return self.tokens.values.take(concatenated_ranges(first_tokens, counts), axis=0), counts


class EncodingCache:
    """Tokens of the chunks seen so far. Results do not depend on what is cached.

    A full cache keeps what it has, since frequent chunks come early; after as many misses as it can hold, the text has
    changed, and the cache is cleared.

    Threads share it and never wait for each other: reading takes no lock, and a thread that finds another one adding
    chunks keeps its own for itself this time.
    """

    def __init__(self, encode: Callable[[Sequence[str]], TokenTable], rule: ChunkRule) -> None:
        self._encode, self._rule = encode, rule
        self._cached, self._dropped = _Cached(), 0
        self._adding = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy, in this process or another, begins empty."""
        return EncodingCache, (self._encode, self._rule)

    def encode(self, texts: Sequence[str]) -> TokenTable:
        """The tokens of `texts`, as `encode` would give them."""
        if sum(map(len, texts)) <= MAX_CHARACTERS:
            return self._encode_at_once(texts)
        parts = [(index, *part) for index, text in enumerate(texts) for part in split_long(text, MAX_CHARACTERS)]
        tables = []
        for group in _groups(parts):
            table = self._encode_at_once([texts[index][first:last] for index, first, last in group])
            shifts = np.repeat(np.array([first for _, first, _ in group], dtype=np.int32), table.counts)
            tables.append((table.ids, table.starts + shifts, table.ends + shifts, table.word_starts, table.counts))
        ids, starts, ends, word_starts, counts = map(np.concatenate, zip(*tables, strict=True))
        owners = [index for index, _, _ in parts]
        text_counts = np.bincount(owners, weights=counts, minlength=len(texts)).astype(np.int64)
        return TokenTable(ids=ids, starts=starts, ends=ends, word_starts=word_starts, counts=text_counts)

    def _encode_at_once(self, texts: Sequence[str]) -> TokenTable:
        bases, joined = text_bases(texts), join(texts)
        firsts, lasts = find_chunks(joined, bases, self._rule.boundaries)
        chunks = [joined[first:last] for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True)]
        cached = self._cached
        rows = np.fromiter(map(cached.rows.__getitem__, chunks), np.int64, len(chunks))
        missing = np.flatnonzero(rows < 0)
        if not len(missing):
            return _to_table(*cached.gather(rows), firsts, bases)
        names = list(dict.fromkeys(chunks[index] for index in missing.tolist()))
        table = self._encode(names)
        if self._add(names, table, cached):
            rows[missing] = [cached.rows[chunks[index]] for index in missing.tolist()]
            return _to_table(*cached.gather(rows), firsts, bases)
        uncached = _Cached()
        uncached.add(names, table)
        return _to_table(*_gather_both(cached, uncached, chunks, rows), firsts, bases)

    def _add(self, chunks: list[str], table: TokenTable, cached: _Cached) -> bool:
        """Whether the new chunks could be added: not if the cache is full, or another thread is adding or was first."""
        if not self._adding.acquire(blocking=False):
            return False
        try:
            if cached is not self._cached or any(map(cached.rows.__contains__, chunks)):
                return False
            if len(cached.rows) + len(chunks) > MAX_CHUNKS:
                self._dropped += len(chunks)
                if self._dropped > MAX_CHUNKS:
                    self._cached, self._dropped = _Cached(), 0
                return False
            cached.add(chunks, table)
            return True
        finally:
            self._adding.release()


def _gather_both(
    cached: _Cached, uncached: _Cached, chunks: list[str], rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The tokens of chunks, (N, 4), and how many each has; those without a row are in `uncached`."""
    is_new = rows < 0
    new_rows = np.array([uncached.rows[chunks[index]] for index in np.flatnonzero(is_new).tolist()])
    old_tokens, old_counts = cached.gather(rows[~is_new])
    new_tokens, new_counts = uncached.gather(new_rows)
    counts = np.empty(len(chunks), np.int64)
    counts[is_new], counts[~is_new] = new_counts, old_counts
    tokens = np.empty((len(old_tokens) + len(new_tokens), 4), np.int32)
    of_new = np.repeat(is_new, counts)
    tokens[of_new], tokens[~of_new] = new_tokens, old_tokens
    return tokens, counts


def _to_table(tokens: np.ndarray, counts: np.ndarray, firsts: np.ndarray, bases: np.ndarray) -> TokenTable:
    """The tokens of chunks that begin at `firsts` of the joined texts; offsets count from `bases`."""
    text_of_chunk = np.searchsorted(bases, firsts, side="right") - 1
    shifts = np.repeat((firsts - bases[text_of_chunk]).astype(np.int32), counts)
    return TokenTable(
        ids=tokens[:, 0].astype(np.uint32),
        starts=tokens[:, 1] + shifts,
        ends=tokens[:, 2] + shifts,
        word_starts=tokens[:, 3] != 0,
        counts=np.bincount(text_of_chunk, weights=counts, minlength=len(bases) - 1).astype(np.int64),
    )


def _groups(parts: list[tuple[int, int, int]]) -> Iterator[list[tuple[int, int, int]]]:
    """The parts, in order, in groups of about `MAX_CHARACTERS`."""
    group: list[tuple[int, int, int]] = []
    size = 0
    for part in parts:
        group.append(part)
        size += part[2] - part[1]
        if size >= MAX_CHARACTERS:
            yield group
            group, size = [], 0
    if group:
        yield group
