"""Encoding each distinct piece of text once.

Text repeats itself: 60 MB of novels hold 13 million words and 150 thousand different ones. Where a tokenizer treats
the pieces between certain places independently of each other, a piece met before need not be tokenized again: its
ids, offsets and word starts are looked up and laid end to end by numpy. That is several times as fast as
`tokenizers` itself, and boundaries come free.

Whether and where a tokenizer allows this is read from its own description, never guessed: `cut_rule` knows BERT's
pre-tokenizer (pieces are words), the byte-level one (a word with the space before it) and SentencePiece's as in
ALBERT and XLNet (a word between spaces). Any other goes the plain way. Texts that hold an added token that a cut
could break go the plain way too. A property test holds the two ways equal on hostile text.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from spanlab.text.alignment import join, text_bases
from spanlab.text.tokens import TokenTable, ranges
from spanlab.text.words import MARK, ODD, SPACE, character_classes, code_points, word_begins

MAXIMUM_PIECES = 1 << 18
"""Pieces remembered before the memory is emptied: some 50 MB, and more than the words of any but huge corpora."""

_LOCAL_NORMALIZERS = frozenset({"NFC", "NFD", "NFKC", "NFKD", "StripAccents", "Lowercase", "Precompiled"})


@dataclass(frozen=True, kw_only=True)
class CutRule:
    """Where text may be cut for a tokenizer, and which texts must not be."""

    places: Literal["words", "spaces before", "spaces between"]
    unsafe: re.Pattern[str] | None
    """Matches a text that holds an added token which the cuts could break."""


def cut_rule(description: Mapping[str, Any]) -> CutRule | None:
    """The rule for a tokenizer, from its `tokenizer.json`; None if its pieces are not known to be independent."""
    added = description["added_tokens"]
    places = _cut_places(description["normalizer"], description["pre_tokenizer"])
    if places is None or any(token["normalized"] for token in added):
        return None
    fragile = [token["content"] for token in added if places == "words" or _needs_neighbours(token)]
    return CutRule(places=places, unsafe=re.compile("|".join(map(re.escape, fragile))) if fragile else None)


def _needs_neighbours(token: Mapping[str, Any]) -> bool:
    flags = token["lstrip"] or token["rstrip"] or token["single_word"]
    return bool(flags) or any(character.isspace() for character in token["content"])


def _cut_places(
    normalizer: Mapping[str, Any] | None, splitter: Mapping[str, Any] | None
) -> Literal["words", "spaces before", "spaces between"] | None:
    if splitter == {"type": "BertPreTokenizer"} and normalizer is not None:
        isolates_han = normalizer["type"] == "BertNormalizer" and normalizer["handle_chinese_chars"]
        return "words" if isolates_han else None
    if splitter is None or not _is_local(normalizer):
        return None
    if splitter["type"] == "ByteLevel":
        return "spaces before" if splitter["use_regex"] and not splitter["add_prefix_space"] else None
    if splitter["type"] == "Sequence":
        parts = [(part["type"], part.get("prepend_scheme")) for part in splitter["pretokenizers"]]
        return "spaces between" if parts == [("WhitespaceSplit", None), ("Metaspace", "always")] else None
    return None


def _is_local(normalizer: Mapping[str, Any] | None) -> bool:
    """Whether what a normalizer does to a word does not depend on the words around it."""
    if normalizer is None:
        return True
    if normalizer["type"] == "Sequence":
        return all(_is_local(part) for part in normalizer["normalizers"])
    if normalizer["type"] == "Replace":
        pattern = normalizer["pattern"].get("String", " ")
        return not any(character.isspace() for character in pattern + normalizer["content"])
    return normalizer["type"] in _LOCAL_NORMALIZERS


class _Numbering(dict[str, int]):
    """Gives each new piece the next number, and remembers which are new."""

    def __init__(self) -> None:
        super().__init__()
        self.new: list[str] = []

    def __missing__(self, piece: str) -> int:
        number = self[piece] = len(self)
        self.new.append(piece)
        return number


class PieceMemory:
    """Tokens of the pieces met so far. Its answers do not depend on what it has met."""

    def __init__(self, encode: Callable[[Sequence[str]], TokenTable], rule: CutRule) -> None:
        self._encode, self._rule = encode, rule
        self._forget()

    def _forget(self) -> None:
        self._numbers = _Numbering()
        self._table = np.empty((1 << 12, 4), dtype=np.int32)  # id, start, end and word start of a token
        self._used = 0
        self._firsts = np.empty(0, dtype=np.int64)  # of each piece, its first token in the table
        self._counts = np.empty(0, dtype=np.int64)

    def encode(self, texts: Sequence[str]) -> TokenTable:
        """The tokens of `texts`, as `encode` would give them."""
        if max(len(self._numbers), self._used // 4) > MAXIMUM_PIECES:
            self._forget()
        bases = text_bases(texts)
        joined = join(texts)
        firsts, lasts = find_pieces(joined, bases, self._rule)
        pieces = [joined[first:last] for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True)]
        numbers = np.fromiter(map(self._numbers.__getitem__, pieces), np.int64, len(pieces))
        if self._numbers.new:
            self._learn()
        return self._gather(numbers, firsts, bases)

    def _learn(self) -> None:
        """Encode the new pieces and put their tokens into the table."""
        try:
            learnt = self._encode(self._numbers.new)
        except BaseException:
            self._forget()  # the numbers given out have no tokens
            raise
        self._numbers.new = []
        used, self._used = self._used, self._used + len(learnt.ids)
        if self._used > len(self._table):
            table = np.empty((2 * self._used, 4), dtype=np.int32)
            table[:used] = self._table[:used]
            self._table = table
        columns = (learnt.ids, learnt.starts, learnt.ends, learnt.word_starts)
        for column, values in enumerate(columns):
            self._table[used : self._used, column] = values
        self._firsts = np.concatenate((self._firsts, used + np.cumsum(learnt.counts) - learnt.counts))
        self._counts = np.concatenate((self._counts, learnt.counts))

    def _gather(self, numbers: np.ndarray, firsts: np.ndarray, bases: np.ndarray) -> TokenTable:
        """The tokens of the numbered pieces that begin at `firsts`, counted from the base of their text."""
        text_of_piece = np.searchsorted(bases, firsts, side="right") - 1
        counts = self._counts[numbers]
        rows = self._table.take(ranges(self._firsts[numbers], counts), axis=0)
        shifts = np.repeat((firsts - bases[text_of_piece]).astype(np.int32), counts)
        return TokenTable(
            ids=rows[:, 0].astype(np.uint32),
            starts=rows[:, 1] + shifts,
            ends=rows[:, 2] + shifts,
            word_starts=rows[:, 3] != 0,
            counts=np.bincount(text_of_piece, weights=counts, minlength=len(bases) - 1).astype(np.int64),
        )


def find_pieces(text: str, bases: np.ndarray, rule: CutRule) -> tuple[np.ndarray, np.ndarray]:
    """First and last (exclusive) character of each piece of joined texts; no piece crosses from one to the next."""
    classes = character_classes(code_points(text))
    spaces = classes == SPACE  # a space that is ODD may be none to the tokenizer: it stays inside its piece
    if rule.places == "spaces before":
        return _cut_before_spaces(classes, spaces, bases)
    stay = ODD | MARK if rule.places == "spaces between" else ODD
    before = np.empty_like(classes)
    before[0], before[1:] = SPACE, classes[:-1]
    cuts = (classes & stay) == 0
    cuts &= (before & (ODD | MARK)) == 0
    if rule.places == "words":
        cuts &= word_begins(text, classes)
    else:
        cuts &= ~spaces & (before == SPACE)
    filled = np.flatnonzero(~spaces)  # what is not space
    rank = np.cumsum(~spaces)
    text_firsts = np.append(filled, len(text))[np.append(0, rank)[bases[:-1]]]  # first that is not space in each
    cuts[text_firsts[text_firsts < bases[1:] - 1]] = True
    firsts = np.flatnonzero(cuts)
    lasts = filled[np.append(rank[firsts[1:]] - 2, len(filled) - 1)] + 1 if len(firsts) else firsts
    return firsts, lasts


def _cut_before_spaces(classes: np.ndarray, spaces: np.ndarray, bases: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pieces that begin with the space before a word, as byte-level BPE wants them; they cover every character."""
    cuts = np.zeros(len(classes) + 1, dtype=bool)
    cuts[1:-1] = spaces[1:] & ((classes[:-1] & (SPACE | ODD)) == 0)
    cuts[bases[1:] - 1] = False  # the separator is no part of a text
    cuts[bases[:-1]] = True
    cuts[-1] = False
    firsts = np.flatnonzero(cuts)
    lasts = np.append(firsts[1:], len(classes))
    cuts[:] = False
    cuts[bases[1:]] = True
    lasts -= cuts[lasts]  # back over the separator
    return firsts[lasts > firsts], lasts[lasts > firsts]
