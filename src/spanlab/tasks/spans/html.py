"""Spans drawn into their text as HTML: bars in lanes under the words, so that nested and crossing spans all show.

What enters is a text and spans of its characters; what leaves is one `<div>` with its styles inside, everything
escaped. A bar is drawn piece by piece under the words it covers, so lines may break anywhere between them.
"""

import re
from collections import deque
from collections.abc import Iterator, Sequence
from html import escape
from itertools import pairwise
from typing import NamedTuple

_COLOURS = ("#4a90d9", "#d9774a", "#5aa469", "#a45ab5", "#c9a227", "#3aa6a6", "#d94a78", "#7a7a7a")
_PIECE = "position:relative;display:inline-block;white-space:pre-wrap;line-height:1.2em"
_LANE = 0.95  # em: a bar and the label under it


class DrawnSpan(NamedTuple):
    """Characters `start` to `end` (exclusive) and what is written under them."""

    start: int
    end: int
    label: str


def draw_spans(text: str, spans: Sequence[tuple[int, int, str]], labels: Sequence[str] = ()) -> str:
    """The text with a bar and a label for every span; texts drawn with the same `labels` have the same colours."""
    drawn = sorted((DrawnSpan(*span) for span in spans), key=lambda span: (span.start, -span.end))
    lanes = _lanes(drawn)
    known = sorted({*labels, *(span.label for span in drawn)})
    colours = {label: _COLOURS[n % len(_COLOURS)] for n, label in enumerate(known)}
    edges = {0, len(text), *(edge for span in drawn for edge in (span.start, span.end))}
    edges |= {match.end() for match in re.finditer(r"\s+", text)}
    places = sorted(edges)
    pieces = [_piece(text, start, end, here, colours) for start, end, here in _covered(places, drawn, lanes)]
    height = 1.5 + _LANE * (1 + max(lanes, default=-1))
    return f"<div class='spans' style='line-height:{height:.2f}em'>{''.join(pieces)}</div>"


def _lanes(spans: Sequence[DrawnSpan]) -> list[int]:
    """For each span, in order of their starts, the first lane that is free where it begins."""
    free_from: list[int] = []
    lanes = []
    for span in spans:
        lane = next((n for n, end in enumerate(free_from) if end <= span.start), len(free_from))
        free_from[lane : lane + 1] = [span.end]
        lanes.append(lane)
    return lanes


def _covered(
    places: Sequence[int], spans: Sequence[DrawnSpan], lanes: Sequence[int]
) -> Iterator[tuple[int, int, list[tuple[DrawnSpan, int]]]]:
    """Each piece between two places, with the spans over it and their lanes; one walk, whatever their number."""
    coming = deque(zip(spans, lanes, strict=True))
    here: list[tuple[DrawnSpan, int]] = []
    for start, end in pairwise(places):
        while coming and coming[0][0].start <= start:
            here.append(coming.popleft())
        here = [(span, lane) for span, lane in here if span.end >= end]
        yield start, end, here


def _piece(text: str, start: int, end: int, here: Sequence[tuple[DrawnSpan, int]], colours: dict[str, str]) -> str:
    words = escape(text[start:end])
    if not here:
        return words
    bars = "".join(_bar(span, lane, colours[span.label], first=span.start == start) for span, lane in here)
    return f"<span style='{_PIECE}'>{words}{bars}</span>"


def _bar(span: DrawnSpan, lane: int, colour: str, *, first: bool) -> str:
    place = f"position:absolute;left:0;top:{1.2 + lane * _LANE:.2f}em"
    bar = f"<span style='{place};width:100%;height:.18em;background:{colour}'></span>"
    if not first:
        return bar
    style = f"{place};padding-top:.2em;font-size:.6em;line-height:1em;white-space:nowrap;color:{colour}"
    # The label is smaller than the text, and its place is told in its own size.
    style = style.replace(f"top:{1.2 + lane * _LANE:.2f}em", f"top:{(1.2 + lane * _LANE) / 0.6:.2f}em")
    return f"{bar}<span style='{style}'>{escape(span.label)}</span>"
