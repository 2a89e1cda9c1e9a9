"""Spans as HTML: bars in lanes under the words, so that nested and crossing spans are all visible.

A text and its character spans enter; one self-contained `<div>` with inline styles leaves, everything escaped. Each
word has its own piece of a bar, so lines can break between words.
"""

import re
from collections import deque
from collections.abc import Iterator, Sequence
from html import escape
from itertools import pairwise
from typing import NamedTuple

_COLOURS = ("#2f7fd1", "#c9622f", "#3f8f57", "#9a55b0", "#957411", "#2a8585", "#cf4173", "#7a7a7a")
"""Readable as labels on white and on the dark grey of a notebook's night theme."""
_PIECE = "position:relative;display:inline-block;white-space:pre-wrap;line-height:1.2em"
_LANE = 0.95  # em: a bar and the label under it


class _Span(NamedTuple):
    start: int
    end: int
    label: str


def draw_spans(text: str, spans: Sequence[tuple[int, int, str]], labels: Sequence[str] = ()) -> str:
    """The text with a bar and a label under every span (start, end, label); the same `labels` give the same colours."""
    ordered = sorted((_Span(*span) for span in spans), key=lambda span: (span.start, -span.end))
    lanes = _lanes(ordered)
    all_labels = sorted({*labels, *(span.label for span in ordered)})
    colours = {label: _COLOURS[index % len(_COLOURS)] for index, label in enumerate(all_labels)}
    edges = {0, len(text), *(edge for span in ordered for edge in (span.start, span.end))}
    edges |= {match.end() for match in re.finditer(r"\s+", text)}
    pieces = [
        _piece(text[start:end], start, covering, colours)
        for start, end, covering in _covered_pieces(sorted(edges), ordered, lanes)
    ]
    height = 1.5 + _LANE * (1 + max(lanes, default=-1))
    return f"<div class='spans' style='line-height:{height:.2f}em'>{''.join(pieces)}</div>"


def _lanes(spans: Sequence[_Span]) -> list[int]:
    """For each span, in order of starts, the lowest lane that is free where it begins."""
    free_from: list[int] = []
    lanes = []
    for span in spans:
        lane = next((index for index, end in enumerate(free_from) if end <= span.start), len(free_from))
        free_from[lane : lane + 1] = [span.end]
        lanes.append(lane)
    return lanes


def _covered_pieces(
    edges: Sequence[int], spans: Sequence[_Span], lanes: Sequence[int]
) -> Iterator[tuple[int, int, list[tuple[_Span, int]]]]:
    """(start, end, spans over it with their lanes) of each piece between two edges, in one pass over the spans."""
    coming = deque(zip(spans, lanes, strict=True))
    covering: list[tuple[_Span, int]] = []
    for start, end in pairwise(edges):
        while coming and coming[0][0].start <= start:
            covering.append(coming.popleft())
        covering = [(span, lane) for span, lane in covering if span.end >= end]
        yield start, end, covering


def _piece(words: str, start: int, covering: Sequence[tuple[_Span, int]], colours: dict[str, str]) -> str:
    if not covering:
        return escape(words)
    bars = "".join(_bar(span, lane, colours[span.label], labelled=span.start == start) for span, lane in covering)
    return f"<span style='{_PIECE}'>{escape(words)}{bars}</span>"


def _bar(span: _Span, lane: int, colour: str, *, labelled: bool) -> str:
    top = 1.2 + lane * _LANE
    style = f"position:absolute;left:0;top:{top:.2f}em;width:100%;height:.18em;background:{colour}"
    bar = f"<span style='{style}'></span>"
    if not labelled:
        return bar
    # `top` counts in the font size of the label, which is 0.6 of the text's.
    style = (
        f"position:absolute;left:0;top:{top / 0.6:.2f}em;padding-top:.2em;font-size:.6em;line-height:1em;"
        f"white-space:nowrap;color:{colour}"
    )
    return f"{bar}<span style='{style}'>{escape(span.label)}</span>"
