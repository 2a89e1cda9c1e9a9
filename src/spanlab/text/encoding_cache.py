"""Encoding each distinct piece of text once.

Text repeats itself: 61 MB of novels, 15 million tokens of BERT, are made of 96 thousand different words. A piece met
before need not be tokenized again: its ids, offsets and word starts are looked up and laid end to end by numpy. That
is two to three times as fast as `tokenizers` itself, boundaries included. `cuts` says which pieces are independent.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from spanlab.arrays import concatenated_ranges, offsets
from spanlab.text.alignment import join, text_bases
from spanlab.text.independent_chunks import CutRule, cut_long, find_pieces
from spanlab.text.tokens import TokenTable

MOST_PIECES = 1 << 18
"""Pieces remembered: some 50 MB, and more than the words of any but huge corpora."""
AT_ONCE = 1 << 20
"""Characters looked at together; more are cut up, so that one huge text costs no more memory than many small ones."""


class _Numbering(dict[str, int]):
    """Gives each new piece the next number, and remembers which are new."""

    def __init__(self) -> None:
        super().__init__()
        self.new: list[str] = []

    def __missing__(self, piece: str) -> int:
        number = self[piece] = len(self)
        self.new.append(piece)
        return number


class _Rows:
    """A table of integers that grows at its end."""

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


class PieceMemory:
    """Tokens of the pieces met so far. Its answers do not depend on what it has met.

    When it is full it learns nothing more, since the frequent pieces come early; when it has met as many unknown
    pieces again as it can hold, the text has changed, and it begins anew.
    """

    def __init__(self, encode: Callable[[Sequence[str]], TokenTable], rule: CutRule) -> None:
        self._encode, self._rule = encode, rule
        self._forget()

    def _forget(self) -> None:
        self._numbers = _Numbering()
        self._tokens = _Rows(4)  # id, start, end and word start of each token
        self._spans = _Rows(2)  # first token of each piece, and how many
        self._unlearnt = 0

    def encode(self, texts: Sequence[str]) -> TokenTable:
        """The tokens of `texts`, as `encode` would give them."""
        if sum(map(len, texts)) <= AT_ONCE:
            return self._encode_at_once(texts)
        parts = [(number, *part) for number, text in enumerate(texts) for part in cut_long(text, AT_ONCE)]
        tables = []
        for group in _groups(parts):
            table = self._encode_at_once([texts[number][first:last] for number, first, last in group])
            shifts = np.repeat(np.array([first for _, first, _ in group], dtype=np.int32), table.counts)
            tables.append((table.ids, table.starts + shifts, table.ends + shifts, table.word_starts, table.counts))
        ids, starts, ends, word_starts, counts = map(np.concatenate, zip(*tables, strict=True))
        owners = [number for number, _, _ in parts]
        whole = np.bincount(owners, weights=counts, minlength=len(texts)).astype(np.int64)
        return TokenTable(ids=ids, starts=starts, ends=ends, word_starts=word_starts, counts=whole)

    def _encode_at_once(self, texts: Sequence[str]) -> TokenTable:
        bases, joined = text_bases(texts), join(texts)
        firsts, lasts = find_pieces(joined, bases, self._rule.places)
        pieces = [joined[first:last] for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True)]
        known = len(self._numbers), self._tokens.used
        try:
            numbers = np.fromiter(map(self._numbers.__getitem__, pieces), np.int64, len(pieces))
            self._learn()
        except BaseException:
            self._forget()  # numbers were given out that have no tokens
            raise
        table = self._gather(numbers, firsts, bases)
        if len(self._numbers) > MOST_PIECES:
            self._unlearn(*known)
        return table

    def _learn(self) -> None:
        """Encode the new pieces and put their tokens into the table."""
        if not self._numbers.new:
            return
        fitted = self._encode(self._numbers.new)
        self._spans.append(self._tokens.used + offsets(fitted.counts), fitted.counts)
        self._tokens.append(fitted.ids, fitted.starts, fitted.ends, fitted.word_starts)
        self._numbers.new = []

    def _unlearn(self, pieces: int, tokens: int) -> None:
        """Forget what came after the first `pieces` and `tokens`; everything, if that happens too often."""
        self._unlearnt += len(self._numbers) - pieces
        if self._unlearnt > MOST_PIECES:
            self._forget()
            return
        while len(self._numbers) > pieces:
            self._numbers.popitem()
        self._spans.used, self._tokens.used = pieces, tokens

    def _gather(self, numbers: np.ndarray, firsts: np.ndarray, bases: np.ndarray) -> TokenTable:
        """The tokens of the numbered pieces that begin at `firsts`, counted from the base of their text."""
        text_of_piece = np.searchsorted(bases, firsts, side="right") - 1
        first_tokens, counts = self._spans.values.take(numbers, axis=0).T
        rows = self._tokens.values.take(concatenated_ranges(first_tokens, counts), axis=0)
        shifts = np.repeat((firsts - bases[text_of_piece]).astype(np.int32), counts)
        return TokenTable(
            ids=rows[:, 0].astype(np.uint32),
            starts=rows[:, 1] + shifts,
            ends=rows[:, 2] + shifts,
            word_starts=rows[:, 3] != 0,
            counts=np.bincount(text_of_piece, weights=counts, minlength=len(bases) - 1).astype(np.int64),
        )


def _groups(parts: list[tuple[int, int, int]]) -> Iterator[list[tuple[int, int, int]]]:
    """The parts, in order, in groups of about as many characters as are looked at together."""
    group: list[tuple[int, int, int]] = []
    size = 0
    for part in parts:
        group.append(part)
        size += part[2] - part[1]
        if size >= AT_ONCE:
            yield group
            group, size = [], 0
    if group:
        yield group
