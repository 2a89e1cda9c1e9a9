"""The labelled units of a text, independent of the tokenizer: words, pieces or characters.

Texts enter; their tokens and, by character offsets, the units that the tokens form leave. A unit is labelled at its
first token. Words suit languages that write spaces, and Chinese, where each character is a word. A Korean word includes
its particles, so entities end inside words: pieces are finer, and characters, each encoded separately, fit every span
at the price of longer sequences. `choose_units` prefers words if they fit the spans of the training data.

Shapes: N tokens, U units, S spans, R ranges.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from spanlab.arrays import Flags, Integers, concatenated_ranges, offsets
from spanlab.tasks.formats.row import Row
from spanlab.tasks.spans.labelled import TextSpan
from spanlab.tasks.windows import InputWindow
from spanlab.text.tokenizer import Tokenizer
from spanlab.text.tokens import Tokens
from spanlab.text.whole_words import TOLERATED_SHARE, inside_words
from spanlab.text.words import MARK, SPACE, character_classes, code_points, word_spans

UnitKind = Literal["word", "piece", "character"]

_MARKS_AND_WORDS = re.compile(r"\w+|[^\w\s]")


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
    begins_inside: Flags
    """(U,) whether it begins inside a word, in a script that puts spaces between words."""
    ends_inside: Flags
    """(U,) whether it ends inside such a word."""

    def __len__(self) -> int:
        return len(self.starts)

    def find(self, starts: Integers, ends: Integers) -> tuple[Integers, Integers]:
        """(S,) and (S,): first and last unit of character spans; both -1 where a span begins or ends inside a unit."""
        first = np.searchsorted(self.starts, starts)
        last = np.searchsorted(self.ends, ends)
        fits = (first <= last) & (last < len(self))
        fits[fits] = (self.starts[first[fits]] == starts[fits]) & (self.ends[last[fits]] == ends[fits])
        return np.where(fits, first, -1), np.where(fits, last, -1)


def encode_units(tokenizer: Tokenizer, texts: Sequence[str], unit: UnitKind) -> list[LabelUnits]:
    """The tokens and units of each text, in order."""
    if unit == "character":
        return _encode_characters(tokenizer, texts)
    return [
        _group_tokens(text, tokens, unit) for text, tokens in zip(texts, tokenizer.encode_batch(texts), strict=True)
    ]


def _group_tokens(text: str, tokens: Tokens, unit: UnitKind) -> LabelUnits:
    """The tokens of a text grouped into words or pieces."""
    starts, ends = tokens.starts.astype(np.int64), tokens.ends.astype(np.int64)
    begins = tokens.word_starts
    if unit == "piece":  # the byte tokens of one character are one unit
        reached = np.maximum.accumulate(np.append(0, ends)[:-1])
        begins = starts >= reached
    # Whitespace tokens belong to no unit, even if the tokenizer starts a word with one.
    visible = (character_classes(code_points(text))[starts] & SPACE) == 0
    begins = visible & (begins | ~np.append(True, visible)[:-1])
    first = np.flatnonzero(begins)
    stops = np.append(np.flatnonzero(begins | ~visible), len(tokens))
    last = stops[np.searchsorted(stops, first, side="right")] - 1
    inside = inside_words(text)
    return LabelUnits(
        tokens=tokens,
        first_tokens=first,
        last_tokens=last,
        starts=starts[first],
        ends=ends[last],
        begins_inside=inside[starts[first]],
        ends_inside=inside[ends[last]],
    )


def _encode_characters(tokenizer: Tokenizer, texts: Sequence[str]) -> list[LabelUnits]:
    all_ends = [_character_ends(text) for text in texts]
    # A chunk is a character with the space before it, which some tokenizers keep.
    chunks = [
        text[start:end]
        for text, ends in zip(texts, all_ends, strict=True)
        for start, end in zip([0, *ends], ends, strict=False)
    ]
    encoded = iter(tokenizer.encode_batch(chunks))
    units = []
    for text, ends in zip(texts, all_ends, strict=True):
        tokens = _join_chunks([next(encoded) for _ in ends], [0, *ends])
        units.append(_group_tokens(text, tokens, "word"))
    return units


def _character_ends(text: str) -> list[int]:
    """The end of each character that is not whitespace, combining marks included."""
    classes = np.append(character_classes(code_points(text)), 0)
    visible = (classes[:-1] & SPACE) == 0
    return (np.flatnonzero(visible & ((classes[1:] & MARK) == 0)) + 1).tolist()


def _join_chunks(chunks: Sequence[Tokens], begins: Sequence[int]) -> Tokens:
    """The tokens of chunks that begin at these characters of a text, concatenated; each chunk is a word."""
    empty = Tokens(np.zeros(0, np.uint32), np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, bool))
    chunks = [*chunks, empty]  # as many as `begins`, and never an empty list
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


def unit_spans(text: str, unit: UnitKind) -> tuple[Integers, Integers]:
    """(U,) and (U,): starts and ends of the units of a text without a tokenizer; words in place of pieces."""
    if unit == "character":
        ends = np.array(_character_ends(text), dtype=np.int64)
        visible = np.flatnonzero((character_classes(code_points(text)) & SPACE) == 0)
        return visible[np.searchsorted(visible, np.append(0, ends)[:-1])], ends
    words = np.array(word_spans(text), dtype=np.int64).reshape(-1, 2)
    return words[:, 0], words[:, 1]


def choose_units(texts: Sequence[str], spans: Sequence[Sequence[tuple[int, int]]]) -> UnitKind:
    """Words if nearly all character spans begin and end at word boundaries, else characters; needs no tokenizer."""
    total = missed = 0
    for text, text_spans in zip(texts, spans, strict=True):
        words = word_spans(text) if text_spans else []
        starts, ends = {start for start, _ in words}, {end for _, end in words}
        total += len(text_spans)
        missed += sum(start not in starts or end not in ends for start, end in text_spans)
    return "word" if missed <= TOLERATED_SHARE * total else "character"


def widest_span(texts: Sequence[str], spans: Sequence[Sequence[tuple[int, int]]], unit: UnitKind) -> int:
    """The number of units of the widest character span, at least 1, without a tokenizer: an upper bound for pieces.

    For words it is the higher of two counts, since tokenizers split words at every punctuation mark.
    """
    covered = (text[start:end] for text, text_spans in zip(texts, spans, strict=True) for start, end in text_spans)
    if unit == "word":
        counts = (max(len(word_spans(part)), len(_MARKS_AND_WORDS.findall(part))) for part in covered)
    else:
        counts = (len(part) for part in covered)
    return max(counts, default=1)


def enumerate_spans(starts: Integers, lengths: Integers, max_width: int) -> tuple[Integers, Integers]:
    """(S,) and (S,): first and last position of every span of up to `max_width` positions inside one range.

    Args:
        starts: (R,) the first position of each range (a sentence, the text of a window).
        lengths: (R,) its number of positions.
        max_width: The widest span, in positions.

    Returns:
        Spans sorted by first, then by last position.
    """
    positions = concatenated_ranges(starts, lengths)
    stops = np.repeat(starts + lengths, lengths)
    widths = np.minimum(stops - positions, max_width)
    return np.repeat(positions, widths), concatenated_ranges(positions, widths)


def window_spans(
    units: LabelUnits, window: InputWindow, max_width: int, *, whole_words: bool
) -> tuple[Integers, Integers, Integers]:
    """(S,) first unit, last unit and middle token of every span of up to `max_width` units inside a window.

    With `whole_words` without those that begin or end inside a word.
    """
    begin = int(np.searchsorted(units.first_tokens, window.first.start))
    stop = int(np.searchsorted(units.last_tokens, window.first.end))
    first, last = enumerate_spans(np.array([begin]), np.array([max(0, stop - begin)]), max_width)
    if whole_words:
        whole = ~(units.begins_inside[first] | units.ends_inside[last])
        first, last = first[whole], last[whole]
    return first, last, (units.first_tokens[first] + units.last_tokens[last]) // 2


def tokens_over(starts: NDArray[np.integer], ends: NDArray[np.integer], begin: int, end: int) -> tuple[int, int] | None:
    """First and last token (those at `starts` to `ends`) that overlap the characters `begin` to `end`, if any."""
    first = int(np.searchsorted(ends, begin, side="right"))
    last = int(np.searchsorted(starts, end, side="left")) - 1
    return (first, last) if first <= last else None


def tokens_in_spans(tokens: Tokens, spans: Iterable[tuple[int, int]]) -> Flags:
    """(N,) the tokens that overlap one of the character spans."""
    flags = np.zeros(len(tokens), bool)
    for start, end in spans:
        covered = tokens_over(tokens.starts, tokens.ends, start, end)
        if covered is not None:
            flags[covered[0] : covered[1] + 1] = True
    return flags


@dataclass(frozen=True, eq=False, kw_only=True)
class GoldUnits:
    """The gold spans of a text that fit its units."""

    first: Integers
    """(S,) first unit."""
    last: Integers
    """(S,) last unit, inclusive."""
    labels: Integers
    """(S,) label index."""
    indices: Integers
    """(S,) index in the list of all gold spans."""


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
    """Gold spans in units; a span that does not fit the units is an error if `refuse`, else left out.

    Args:
        spans: Character spans of the row's text, in any order.
        row: Their row, for error messages.
        units: The units of the same text.
        labels: All labels, in the order of their indices.
        max_width: The widest span that can be predicted, in units; None: no limit.
        refuse: Whether a span that does not fit is an error.
        setting: The name of `max_width` in the task's settings.
    """
    starts, ends = (np.array([getattr(span, side) for span in spans], np.int64) for side in ("start", "end"))
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
            cause = f"an entity is {width} units wide, but {setting} is {max_width}"
            raise row.error(cause, f"use {setting}={width} or data.bad_rows=drop")
    kept = np.flatnonzero((first >= 0) & ~too_wide)
    label_indices = np.array([label_index[span.label] for span in spans], dtype=np.int64)
    return GoldUnits(first=first[kept], last=last[kept], labels=label_indices[kept], indices=kept)
