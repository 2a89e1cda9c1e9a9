"""The units of a text that carry labels, whatever the tokenizer: words, pieces or characters.

What enters are texts; what leaves are their tokens and, through character offsets, the units these make up. A unit is
labelled at its first token. Words suit languages that write spaces, and Chinese, where a character is a word. A Korean
word carries its particles, so an entity ends inside it: pieces are finer, and characters, each encoded by itself, fit
every span at the price of longer sequences. `choose_units` takes the coarsest that fits the spans of the training data.

Shapes: N tokens, U units, S spans.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from spanlab.text.tokenizer import Tokenizer
from spanlab.text.tokens import Tokens
from spanlab.text.words import MARK, SPACE, character_classes, code_points

UnitKind = Literal["word", "piece", "character"]
UNIT_KINDS: tuple[UnitKind, ...] = ("word", "piece", "character")
Integers = NDArray[np.int64]

TOLERATED_SHARE = 0.01
"""Of spans that do not fit: more, and finer units are taken; fewer are faults of the data."""


@dataclass(frozen=True, eq=False, kw_only=True)
class LabelUnits:
    """The tokens of a text, and the units that carry its labels."""

    tokens: Tokens
    first_tokens: Integers
    """(U,) the first token of each unit."""
    last_tokens: Integers
    """(U,) the last token of each unit."""
    starts: Integers
    """(U,) the first character of each unit, in the string the user gave."""
    ends: Integers
    """(U,) its end, exclusive."""

    def __len__(self) -> int:
        return len(self.starts)

    def find(self, starts: Integers, ends: Integers) -> tuple[Integers, Integers]:
        """(S,) and (S,): first and last unit of character spans; both -1 for a span that does not begin and end at units."""
        first = np.searchsorted(self.starts, starts)
        last = np.searchsorted(self.ends, ends)
        found = (first <= last) & (last < len(self))
        found[found] = (self.starts[first[found]] == starts[found]) & (self.ends[last[found]] == ends[found])
        return np.where(found, first, -1), np.where(found, last, -1)


def encode_units(tokenizer: Tokenizer, texts: Sequence[str], kind: UnitKind) -> list[LabelUnits]:
    """The tokens and units of several texts, in their order."""
    if kind == "character":
        return _encode_characters(tokenizer, texts)
    return [_units_of(text, tokens, kind) for text, tokens in zip(texts, tokenizer.encode_batch(texts), strict=True)]


def _units_of(text: str, tokens: Tokens, kind: UnitKind) -> LabelUnits:
    starts, ends = tokens.starts.astype(np.int64), tokens.ends.astype(np.int64)
    begins = tokens.word_starts
    if kind == "piece":  # the byte tokens of one character are one unit
        reached = np.maximum.accumulate(np.append(0, ends[:-1])) if len(ends) else ends
        begins = starts >= reached
    first = np.flatnonzero(begins)
    last = np.append(first[1:], len(tokens))[: len(first)] - 1
    blank = (character_classes(code_points(text))[starts[first]] & SPACE) != 0
    first, last = first[~blank], last[~blank]
    return LabelUnits(tokens=tokens, first_tokens=first, last_tokens=last, starts=starts[first], ends=ends[last])


def _encode_characters(tokenizer: Tokenizer, texts: Sequence[str]) -> list[LabelUnits]:
    cuts = [_character_ends(text) for text in texts]
    # Each character comes with the space before it, which some tokenizers keep.
    chunks = [text[a:b] for text, ends in zip(texts, cuts, strict=True) for a, b in zip([0, *ends], ends, strict=False)]
    encoded = tokenizer.encode_batch(chunks)
    units, place = [], 0
    for ends in cuts:
        units.append(_join_chunks(encoded[place : place + len(ends)], [0, *ends]))
        place += len(ends)
    return units


def _character_ends(text: str) -> list[int]:
    """Where each character that is not space ends, the marks upon it included."""
    classes = np.append(character_classes(code_points(text)), 0)
    visible = (classes[:-1] & SPACE) == 0
    return (np.flatnonzero(visible & ((classes[1:] & MARK) == 0)) + 1).tolist()  # type: ignore[no-any-return]


def _join_chunks(chunks: Sequence[Tokens], begins: Sequence[int]) -> LabelUnits:
    """One unit a chunk; a chunk that the tokenizer makes nothing of has none."""
    counts = np.array([len(chunk) for chunk in chunks], dtype=np.int64)
    shift = np.repeat(np.array(begins[: len(chunks)], dtype=np.int64), counts)
    empty = [np.zeros(0, dtype=np.uint32)]
    ids = np.concatenate([*(chunk.ids for chunk in chunks), *empty])
    starts = np.concatenate([*(chunk.starts for chunk in chunks), *empty]).astype(np.int64) + shift
    ends = np.concatenate([*(chunk.ends for chunk in chunks), *empty]).astype(np.int64) + shift
    stops = np.cumsum(counts)
    first, last = (stops - counts)[counts > 0], stops[counts > 0] - 1
    begin = np.zeros(len(ids), dtype=bool)
    begin[first] = True
    tokens = Tokens(ids, starts.astype(np.int32), ends.astype(np.int32), begin)
    return LabelUnits(tokens=tokens, first_tokens=first, last_tokens=last, starts=starts[first], ends=ends[last])


def choose_units(tokenizer: Tokenizer, texts: Sequence[str], spans: Sequence[Sequence[tuple[int, int]]]) -> UnitKind:
    """The coarsest kind of unit at which nearly all character spans begin and end."""
    total = sum(map(len, spans))
    for kind in UNIT_KINDS[:-1]:
        missed = 0
        for units, wanted in zip(encode_units(tokenizer, texts, kind), spans, strict=True):
            places = np.array(wanted, dtype=np.int64).reshape(-1, 2)
            missed += int((units.find(places[:, 0], places[:, 1])[0] < 0).sum())
        if missed <= TOLERATED_SHARE * total:
            return kind
    return UNIT_KINDS[-1]
