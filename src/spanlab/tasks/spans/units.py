"""The units of a text that carry labels, whatever the tokenizer: words, pieces or characters.

What enters are texts; what leaves are their tokens and, through character offsets, the units these make up. A unit is
labelled at its first token. Words suit languages that write spaces, and Chinese, where a character is a word. A Korean
word carries its particles, so an entity ends inside it: pieces are finer, and characters, each encoded by itself, fit
every span at the price of longer sequences. `choose_units` takes words where they fit the spans of the training data.

Shapes: N tokens, U units, S spans.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from spanlab.arrays import Integers, offsets
from spanlab.tasks.formats.row import Row
from spanlab.tasks.spans.labelled import TextSpan
from spanlab.tasks.spans.representation import enumerate_spans
from spanlab.tasks.windows import InputWindow
from spanlab.text.tokenizer import Tokenizer
from spanlab.text.tokens import Tokens
from spanlab.text.words import MARK, SPACE, character_classes, code_points, word_spans

UnitKind = Literal["word", "piece", "character"]

_MARKS_AND_WORDS = re.compile(r"\w+|[^\w\s]")
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
        """(S,) and (S,): first and last unit of character spans; both -1 where a span begins or ends inside a unit."""
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
        reached = np.maximum.accumulate(np.append(0, ends)[:-1])
        begins = starts >= reached
    # Tokens of space belong to no unit, even where a tokenizer begins a word with one.
    visible = (character_classes(code_points(text))[starts] & SPACE) == 0
    begins = visible & (begins | ~np.append(True, visible)[:-1])
    first = np.flatnonzero(begins)
    stops = np.append(np.flatnonzero(begins | ~visible), len(tokens))
    last = stops[np.searchsorted(stops, first, side="right")] - 1
    return LabelUnits(tokens=tokens, first_tokens=first, last_tokens=last, starts=starts[first], ends=ends[last])


def _encode_characters(tokenizer: Tokenizer, texts: Sequence[str]) -> list[LabelUnits]:
    cuts = [_character_ends(text) for text in texts]
    # Each character comes with the space before it, which some tokenizers keep.
    chunks = [text[a:b] for text, ends in zip(texts, cuts, strict=True) for a, b in zip([0, *ends], ends, strict=False)]
    encoded = tokenizer.encode_batch(chunks)
    units, place = [], 0
    for text, ends in zip(texts, cuts, strict=True):
        tokens = _join_chunks(encoded[place : place + len(ends)], [0, *ends])
        units.append(_units_of(text, tokens, "word"))
        place += len(ends)
    return units


def _character_ends(text: str) -> list[int]:
    """Where each character that is not space ends, the marks upon it included."""
    classes = np.append(character_classes(code_points(text)), 0)
    visible = (classes[:-1] & SPACE) == 0
    return (np.flatnonzero(visible & ((classes[1:] & MARK) == 0)) + 1).tolist()


def _join_chunks(chunks: Sequence[Tokens], begins: Sequence[int]) -> Tokens:
    """The tokens of chunks that begin at these characters of a text, each chunk a word."""
    none = Tokens(np.zeros(0, np.uint32), np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, bool))
    chunks = [*chunks, none]
    counts = np.array([len(chunk) for chunk in chunks])
    shift = np.repeat(np.array(begins, dtype=np.int32), counts)
    word_starts = np.zeros(len(shift), dtype=bool)
    word_starts[offsets(counts)[counts > 0]] = True
    return Tokens(
        np.concatenate([chunk.ids for chunk in chunks]),
        np.concatenate([chunk.starts for chunk in chunks]) + shift,
        np.concatenate([chunk.ends for chunk in chunks]) + shift,
        word_starts,
    )


def unit_spans(text: str, kind: UnitKind) -> tuple[Integers, Integers]:
    """(U,) and (U,): where the units of a text begin and end, told without a tokenizer: pieces are taken for words."""
    if kind == "character":
        ends = np.array(_character_ends(text), dtype=np.int64)
        visible = np.flatnonzero((character_classes(code_points(text)) & SPACE) == 0)
        return visible[np.searchsorted(visible, np.append(0, ends)[:-1])], ends
    words = np.array(word_spans(text), dtype=np.int64).reshape(-1, 2)
    return words[:, 0], words[:, 1]


def choose_units(texts: Sequence[str], spans: Sequence[Sequence[tuple[int, int]]]) -> UnitKind:
    """Words if nearly all character spans begin and end at words, else characters; the text alone decides."""
    total = missed = 0
    for text, wanted in zip(texts, spans, strict=True):
        words = word_spans(text) if wanted else []
        starts, ends = {start for start, _ in words}, {end for _, end in words}
        total += len(wanted)
        missed += sum(start not in starts or end not in ends for start, end in wanted)
    return "word" if missed <= TOLERATED_SHARE * total else "character"


def widest_span(texts: Sequence[str], spans: Sequence[Sequence[tuple[int, int]]], kind: UnitKind) -> int:
    """How many units the widest of character spans has, at least 1; the text alone decides, so pieces are guessed high.

    Of words, the finer of two counts is taken: tokenizers part words at every mark.
    """
    covered = (text[start:end] for text, wanted in zip(texts, spans, strict=True) for start, end in wanted)
    if kind == "word":
        counts = (max(len(word_spans(part)), len(_MARKS_AND_WORDS.findall(part))) for part in covered)
    else:
        counts = (len(part) for part in covered)
    return max(counts, default=1)


def window_spans(units: LabelUnits, window: InputWindow, max_width: int) -> tuple[Integers, Integers, Integers]:
    """(S,) first unit, last unit and middle token of every span of up to `max_width` units that lies in a window."""
    begin = int(np.searchsorted(units.first_tokens, window.first.start))
    stop = int(np.searchsorted(units.last_tokens, window.first.end))
    first, last = enumerate_spans(np.array([begin]), np.array([max(0, stop - begin)]), max_width)
    return first, last, (units.first_tokens[first] + units.last_tokens[last]) // 2


def tokens_over(starts: NDArray[np.integer], ends: NDArray[np.integer], begin: int, end: int) -> tuple[int, int] | None:
    """First and last of tokens at `starts` to `ends` that hold a character of `begin` to `end` (exclusive), if any."""
    first = int(np.searchsorted(ends, begin, side="right"))
    last = int(np.searchsorted(starts, end, side="left")) - 1
    return (first, last) if first <= last else None


@dataclass(frozen=True, eq=False, kw_only=True)
class GoldUnits:
    """The entities of a text by units."""

    first: Integers
    last: Integers
    labels: Integers
    """Indices of labels."""
    indices: Integers
    """The index of each among the given spans."""


def find_gold(
    spans: Sequence[TextSpan],
    row: Row,
    units: LabelUnits,
    labels: Sequence[str],
    *,
    max_width: int | None,
    refuse: bool,
    setting: str = "span.max_width",
) -> GoldUnits:
    """The spans as units; one that does not fit is refused, or left out without `refuse`.

    Args:
        spans: Of the row's text, in any order.
        row: Their row, for errors.
        units: Of the same text.
        labels: All labels.
        max_width: The widest span that can be predicted, in units; None: any.
        refuse: Whether one that does not fit is an error.
        setting: The name of `max_width` in the task's settings.
    """
    starts, ends = (np.array([getattr(span, end) for span in spans], np.int64) for end in ("start", "end"))
    label_index = {label: index for index, label in enumerate(labels)}
    first, last = units.find(starts, ends)
    too_wide = last - first >= (len(units) if max_width is None else max_width)
    if refuse:
        for index in np.flatnonzero(first < 0).tolist():
            span = spans[index]
            covered = str(row.values["text"])[span.start : span.end]
            cause = f"the entity {covered!r} ({span.start} to {span.end}) begins or ends inside a unit"
            raise row.error(cause, "correct it, or use units=character or data.bad_rows=drop")
        for index in np.flatnonzero(too_wide).tolist():
            width = int(last[index] - first[index]) + 1
            cause = f"an entity is {width} units wide, and {setting} is {max_width}"
            raise row.error(cause, f"use {setting}={width} or data.bad_rows=drop")
    kept = np.flatnonzero((first >= 0) & ~too_wide)
    label_indices = np.array([label_index[span.label] for span in spans], dtype=np.int64)
    return GoldUnits(first=first[kept], last=last[kept], labels=label_indices[kept], indices=kept)
