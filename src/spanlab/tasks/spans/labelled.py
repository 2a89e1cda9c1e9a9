"""Labelled spans of a text as users write them: what can be wrong with them, and what can be mended.

What enters is a row with a `text` and a list of `{"start", "end", "label"}`; what leaves are problems, or spans.
Offsets count characters of the text, the end is exclusive. Space at the edges of a span and an edge that misses a
word's own by one letter are mended without guessing; everything else is for the user to decide.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from spanlab.tasks.formats.row import Row
from spanlab.tasks.validation import Problem, clip_repr

_LATIN = 0x250
"""The first character behind the Latin letters: only their words are sure to be whole in an entity."""


@dataclass(frozen=True, kw_only=True, order=True)
class TextSpan:
    """Characters `start` to `end` (exclusive) of a text, and what they are."""

    start: int
    end: int
    label: str

    def crosses(self, other: "TextSpan") -> bool:
        """Whether each holds one end of the other."""
        return self.start < other.start < self.end < other.end or other.start < self.start < other.end < self.end


def read_spans(values: Sequence[Mapping[str, Any]]) -> tuple[TextSpan, ...]:
    """The spans of a row that has no problems, in the order of the text; one written twice is one."""
    return tuple(sorted({TextSpan(start=v["start"], end=v["end"], label=v["label"]) for v in values}))


def span_problems(row: Row, field: str = "spans") -> Iterator[Problem]:
    """What is wrong with the spans of a row whose text is right; `repaired` mends all that can be mended at once."""
    text, values = str(row.values["text"]), row.values.get(field)
    if not isinstance(values, list):
        cause = f"there is no '{field}'" if values is None else f"'{field}' is {clip_repr(values)}; it must be a list"
        yield Problem(kind=f"no {field}", cause=cause, fix=f'a text without any has "{field}": []')
        return
    shapeless = [problem for number, value in enumerate(values) for problem in _shape_problems(number, value)]
    if shapeless:
        yield from shapeless
        return
    spans = [TextSpan(start=v["start"], end=v["end"], label=v["label"]) for v in values]
    mended = [_mend(text, span) for span in spans]
    written = [{**value, "start": span.start, "end": span.end} for value, span in zip(values, mended, strict=True)]
    repaired = {**row.values, field: written}
    for span, better in zip(spans, mended, strict=True):
        yield from _place_problems(text, span, better, repaired)
    yield from _crossing(text, spans)


def _shape_problems(number: int, value: Any) -> Iterator[Problem]:  # noqa: ANN401 (anything JSON holds)
    if not isinstance(value, Mapping) or not {"start", "end", "label"} <= value.keys():
        yield Problem(
            kind="incomplete span", cause=f"span {number} is {clip_repr(value)}", fix="give start, end and label"
        )
        return
    for name in ("start", "end"):
        if type(value[name]) is not int:
            yield Problem(
                kind="offset is no number",
                cause=f"'{name}' of span {number} is {clip_repr(value[name])}; it must be a whole number",
            )
    if not isinstance(value["label"], str) or not value["label"].strip():
        yield Problem(
            kind="empty label", cause=f"'label' of span {number} is {clip_repr(value['label'])}; it must be text"
        )


def _place_problems(text: str, span: TextSpan, mended: TextSpan, repaired: Mapping[str, Any]) -> Iterator[Problem]:
    where = f"the span {span.start} to {span.end} ({span.label})"
    if not 0 <= span.start <= span.end <= len(text):
        fix = "offsets count characters (not bytes or words) from 0, the end exclusive"
        yield Problem(kind="span outside the text", cause=f"{where} leaves the text of {len(text)} characters", fix=fix)
        return
    covered = text[span.start : span.end]
    if not covered.strip():
        yield Problem(kind="empty span", cause=f"{where} holds no visible character", fix="leave it out")
    elif covered != covered.strip():
        cause = f"{where} begins or ends with space: {covered!r}"
        yield Problem(kind="space at a span's edge", cause=cause, fix="mend it with --fix", repaired=repaired)
    elif mended != span:
        cause = f"{where} cuts a word by one letter: {covered!r} of {text[mended.start : mended.end]!r}"
        yield Problem(kind="misaligned span", cause=cause, fix="mend it with --fix", repaired=repaired)


def _mend(text: str, span: TextSpan) -> TextSpan:
    """The span without space at its edges, and with the one letter of a word that it misses at an edge."""
    if not 0 <= span.start < span.end <= len(text) or not text[span.start : span.end].strip():
        return span
    covered = text[span.start : span.end]
    start = span.start + len(covered) - len(covered.lstrip())
    end = span.end - (len(covered) - len(covered.rstrip()))
    if (start, end) == (span.start, span.end) and _is_letter(text, start) and _is_letter(text, start - 1):
        start -= not _is_letter(text, start - 2)
    if (start, end) == (span.start, span.end) and _is_letter(text, end - 1) and _is_letter(text, end):
        end += not _is_letter(text, end + 1)
    return replace(span, start=start, end=end)


def _is_letter(text: str, place: int) -> bool:
    return 0 <= place < len(text) and text[place].isalpha() and ord(text[place]) < _LATIN


def _crossing(text: str, spans: Sequence[TextSpan]) -> Iterator[Problem]:
    inside = sorted({span for span in spans if 0 <= span.start < span.end <= len(text)})
    open_spans: list[TextSpan] = []
    for span in inside:
        open_spans = [other for other in open_spans if other.end > span.start]
        for other in open_spans:
            if span.crosses(other):
                cause = f"the spans {other.start} to {other.end} and {span.start} to {span.end} cross"
                yield Problem(kind="crossing spans", cause=cause, fix="one must lie inside the other, or apart from it")
        open_spans.append(span)


def are_nested(spans: Sequence[TextSpan]) -> bool:
    """Whether two of the spans, in the order of the text, share a character."""
    return any(before.end > span.start for before, span in pairwise(spans))
