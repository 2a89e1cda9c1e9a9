"""Encoding each distinct chunk of text once.

Text repeats itself: 61 MB of novels, 15 million BERT tokens, consist of 96 thousand distinct words. A chunk seen before
is not tokenized again: its ids, offsets and word starts are looked up and concatenated by numpy. That is two to three
times as fast as `tokenizers`, word boundaries included. `independent_chunks` says which chunks may be encoded alone.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from spanlab.arrays import concatenated_ranges, offsets
from spanlab.text.alignment import join, text_bases
from spanlab.text.independent_chunks import ChunkRule, find_chunks, split_long
from spanlab.text.tokens import TokenTable

MAX_CHUNKS = 1 << 18
"""Chunks kept: some 50 MB, and more than the words of any but huge corpora."""
MAX_CHARACTERS = 1 << 20
"""Characters encoded at once; longer texts are split, so that a huge text costs no more memory than many small ones."""


class _ChunkIds(dict[str, int]):
    """Gives each new chunk the next id; `new` lists those that are not encoded yet."""

    def __init__(self) -> None:
        super().__init__()
        self.new: list[str] = []

    def __missing__(self, chunk: str) -> int:
        chunk_id = self[chunk] = len(self)
        self.new.append(chunk)
        return chunk_id


class _Rows:
    """A table of integers that rows are appended to."""

    def __init__(self, columns: int) -> None:
        self.values = np.empty((1 << 12, columns), dtype=np.int32)
        self.used = 0

    def append(self, *columns: np.ndarray) -> None:
        first, self.used = self.used, self.used + len(columns[0])
        if self.used > len(self.values):
            grown = np.empty((2 * self.used, len(columns)), dtype=np.int32)
            grown[:first] = self.values[:first]
            self.values = grown
        for column, values in enumerate(columns):
            self.values[first : self.used, column] = values


class EncodingCache:
    """Tokens of the chunks seen so far. Results do not depend on what is cached.

    A full cache keeps what it has, since frequent chunks come early; after as many misses as it can hold, the text has
    changed, and the cache is cleared.
    """

    def __init__(self, encode: Callable[[Sequence[str]], TokenTable], rule: ChunkRule) -> None:
        self._encode, self._rule = encode, rule
        self._clear()

    def _clear(self) -> None:
        self._chunk_ids = _ChunkIds()
        self._tokens = _Rows(4)  # id, start, end and word start of each token
        self._spans = _Rows(2)  # first token of each chunk, and number of tokens
        self._dropped = 0

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
        cached = len(self._chunk_ids), self._tokens.used
        try:
            chunk_ids = np.fromiter(map(self._chunk_ids.__getitem__, chunks), np.int64, len(chunks))
            self._encode_new()
        except BaseException:
            self._clear()  # some ids have no tokens
            raise
        table = self._gather(chunk_ids, firsts, bases)
        if len(self._chunk_ids) > MAX_CHUNKS:
            self._drop_after(*cached)
        return table

    def _encode_new(self) -> None:
        """Encode the new chunks and append their tokens to the table."""
        if not self._chunk_ids.new:
            return
        encoded = self._encode(self._chunk_ids.new)
        self._spans.append(self._tokens.used + offsets(encoded.counts), encoded.counts)
        self._tokens.append(encoded.ids, encoded.starts, encoded.ends, encoded.word_starts)
        self._chunk_ids.new = []

    def _drop_after(self, chunks: int, tokens: int) -> None:
        """Drop what came after the first `chunks` and `tokens`; everything, if that happens too often."""
        self._dropped += len(self._chunk_ids) - chunks
        if self._dropped > MAX_CHUNKS:
            self._clear()
            return
        while len(self._chunk_ids) > chunks:
            self._chunk_ids.popitem()
        self._spans.used, self._tokens.used = chunks, tokens

    def _gather(self, chunk_ids: np.ndarray, firsts: np.ndarray, bases: np.ndarray) -> TokenTable:
        """The tokens of chunks that begin at `firsts` of the joined texts; offsets count from `bases`."""
        text_of_chunk = np.searchsorted(bases, firsts, side="right") - 1
        first_tokens, counts = self._spans.values.take(chunk_ids, axis=0).T
        rows = self._tokens.values.take(concatenated_ranges(first_tokens, counts), axis=0)
        shifts = np.repeat((firsts - bases[text_of_chunk]).astype(np.int32), counts)
        return TokenTable(
            ids=rows[:, 0].astype(np.uint32),
            starts=rows[:, 1] + shifts,
            ends=rows[:, 2] + shifts,
            word_starts=rows[:, 3] != 0,
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
