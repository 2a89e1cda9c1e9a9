"""Labelled spans of a text as written in files, and the validation of spans for all tasks.

A row with a `text` and a list of `{"start", "end", "label"}` enters; problems, or spans, leave. Offsets count
characters of the text, the end is exclusive. Space at the edges of a span, and an edge that is one letter off a word's
edge, have one obvious repair; everything else is left to the user.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from spanlab.errors import clip_repr
from spanlab.tasks.formats.row import Row
from spanlab.tasks.validation import REPAIRABLE, Problem

_LATIN_END = 0x250
"""The first code point after the Latin letters; in other scripts an entity may end inside a word."""


@dataclass(frozen=True, kw_only=True, order=True)
class TextSpan:
    """Characters `start` to `end` (exclusive) of a text, and their label."""

    start: int
    end: int
    label: str


def read_spans(values: Sequence[Mapping[str, Any]]) -> tuple[TextSpan, ...]:
    """The spans of a row without problems, sorted, duplicates removed."""
    return tuple(sorted({TextSpan(start=v["start"], end=v["end"], label=v["label"]) for v in values}))


def span_problems(row: Row, field: str = "spans") -> Iterator[Problem]:
    """Problems of the spans of a row whose text is valid; `repaired` has all repairs of the row at once."""
    text, values = str(row.values["text"]), row.values.get(field)
    if not isinstance(values, list):
        cause = (
            f"the field '{field}' is missing"
            if values is None
            else f"'{field}' is {clip_repr(values)}; it must be a list"
        )
        yield Problem(kind=f"no {field}", cause=cause, fix=f'write "{field}": [] for a text without any')
        return
    malformed = [problem for index, value in enumerate(values) for problem in _shape_problems(index, value)]
    if malformed:
        yield from malformed
        return
    spans = [TextSpan(start=v["start"], end=v["end"], label=v["label"]) for v in values]
    repairs = [_repair(text, span) for span in spans]
    new_values = [{**value, "start": span.start, "end": span.end} for value, span in zip(values, repairs, strict=True)]
    repaired = {**row.values, field: new_values}
    for span, repair in zip(spans, repairs, strict=True):
        where = f"the span {span.start} to {span.end} ({span.label})"
        problems = list(offset_problems(text, span.start, span.end, where, repaired))
        yield from problems
        if not problems and repair != span:
            covered, whole = text[span.start : span.end], text[repair.start : repair.end]
            cause = f"{where} misses one letter of a word: {covered!r} of {whole!r}"
            yield Problem(kind="misaligned span", cause=cause, fix=REPAIRABLE, repaired=repaired)
    inside = sorted({span for span in spans if 0 <= span.start < span.end <= len(text)})
    yield from crossing_problems([(span.start, span.end) for span in inside])


def _shape_problems(index: int, value: Any) -> Iterator[Problem]:  # noqa: ANN401 (anything JSON holds)
    if not isinstance(value, Mapping) or not {"start", "end", "label"} <= value.keys():
        cause = f"span {index} is {clip_repr(value)}"
        yield Problem(kind="incomplete span", cause=cause, fix="give start, end and label")
        return
    for name in ("start", "end"):
        if type(value[name]) is not int:
            cause = f"'{name}' of span {index} is {clip_repr(value[name])}; it must be a whole number"
            yield Problem(kind="offset is not a number", cause=cause)
    if not isinstance(value["label"], str) or not value["label"].strip():
        cause = f"'label' of span {index} is {clip_repr(value['label'])}; it must be text"
        yield Problem(kind="empty label", cause=cause)


def offset_problems(
    text: str, start: int, end: int, where: str, repaired: Mapping[str, Any] | None
) -> Iterator[Problem]:
    """Problems of a character range, named `where` in messages; space at an edge is one only if `repaired` is given."""
    covered = text[start:end]
    if not 0 <= start <= end <= len(text):
        fix = "offsets count characters (not bytes or words) from 0, the end exclusive"
        cause = f"{where} is outside the text of {len(text)} characters"
        yield Problem(kind="span outside the text", cause=cause, fix=fix)
    elif not covered.strip():
        yield Problem(kind="empty span", cause=f"{where} has no visible character", fix="remove it")
    elif repaired is not None and covered != covered.strip():
        cause = f"{where} begins or ends with space: {clip_repr(covered)}"
        yield Problem(kind="space at a span's edge", cause=cause, fix=REPAIRABLE, repaired=repaired)


def crossing_problems(spans: Sequence[tuple[int, int]], where: str = "") -> Iterator[Problem]:
    """Pairs of sorted ranges that overlap without nesting; `where` follows them in messages."""
    open_spans: list[tuple[int, int]] = []
    for start, end in spans:
        open_spans = [span for span in open_spans if span[1] > start]
        for other_start, other_end in open_spans:
            if other_start < start < other_end < end:
                cause = f"the spans {other_start} to {other_end} and {start} to {end}{where} cross"
                yield Problem(kind="crossing spans", cause=cause, fix="make one contain the other, or separate them")
        open_spans.append((start, end))


def strip_span(text: str, start: int, end: int) -> tuple[int, int]:
    """The range without space at its edges; unchanged if it is outside the text or has no visible character."""
    covered = text[start:end] if 0 <= start <= end <= len(text) else ""
    if not covered.strip():
        return start, end
    return start + len(covered) - len(covered.lstrip()), end - (len(covered) - len(covered.rstrip()))


def _repair(text: str, span: TextSpan) -> TextSpan:
    """The span without space at its edges, or with the one letter of a word that it misses at an edge."""
    if not 0 <= span.start < span.end <= len(text) or not text[span.start : span.end].strip():
        return span
    start, end = strip_span(text, span.start, span.end)
    if (start, end) == (span.start, span.end) and _is_letter(text, start) and _is_letter(text, start - 1):
        start -= not _is_letter(text, start - 2)
    if (start, end) == (span.start, span.end) and _is_letter(text, end - 1) and _is_letter(text, end):
        end += not _is_letter(text, end + 1)
    return replace(span, start=start, end=end)


def _is_letter(text: str, position: int) -> bool:
    return 0 <= position < len(text) and text[position].isalpha() and ord(text[position]) < _LATIN_END


def are_nested(spans: Sequence[TextSpan]) -> bool:
    """Whether two of the sorted spans share a character."""
    return any(before.end > span.start for before, span in pairwise(spans))
