"""SpanBERT's two objectives on a masked block: what is seen, what is predicted, and from where.

What enters are the tokens of a block as `spanlab inspect masks` shows them; what leaves is an SVG. Every masked token
is predicted from its own place by the masked language model, and every token of a span also from the two tokens just
outside it and its place in it, which is drawn for the longest span.
"""

from collections.abc import Sequence
from itertools import pairwise

from spanlab.report.masks import ShownToken
from spanlab.report.svg import BLUE, FAINT, GREEN, INK, PALE, RED, YELLOW, arrow, box, picture, width_of, words

_FILLS = {"masked": BLUE, "replaced": RED, "kept": GREEN}
_MARGIN, _GAP, _ROW = 20.0, 6.0, 34.0


def draw_objectives(tokens: Sequence[ShownToken]) -> str:
    """Three rows: the targets above, what the encoder sees below them, and the span boundary objective under that."""
    edges = [_MARGIN]
    for token in tokens:
        edges.append(edges[-1] + max(width_of(token.text), width_of(token.seen)) + 14 + _GAP)
    places = [(left, right - _GAP) for left, right in pairwise(edges)]
    parts = [
        words(_MARGIN, 22, "MLM: each masked token from its own place", colour=BLUE, size=12),
        *(part for token, place in zip(tokens, places, strict=True) for part in _token(token, place)),
        *_boundary_objective(tokens, places),
    ]
    return picture(edges[-1] + _MARGIN - _GAP, 258, parts, title="The objectives of SpanBERT on a block")


def _token(token: ShownToken, place: tuple[float, float]) -> list[str]:
    left, right = place
    middle = (left + right) / 2
    fill = _FILLS.get(token.fate, PALE)
    line = YELLOW if token.boundary else "none"
    ink = "#ffffff" if token.fate in _FILLS else FAINT if token.fate == "special" else INK
    parts = [box(left, 90, right - left, _ROW, fill=fill, line=line)]
    parts.append(words(middle, 112, token.seen, colour=ink, anchor="middle"))
    if token.fate in _FILLS:
        parts += [arrow(middle, 88, middle, 56, colour=fill), words(middle, 50, token.text, anchor="middle")]
    return parts


def _boundary_objective(tokens: Sequence[ShownToken], places: Sequence[tuple[float, float]]) -> list[str]:
    span = longest_span(tokens)
    if span is None:
        return []
    first, last = span
    outside = [(places[number][0] + places[number][1]) / 2 for number in (first - 1, last + 1)]
    parts = []
    for number in range(first, last + 1):
        middle = sum(places[number]) / 2
        parts += [arrow(x, 126, middle, 196, colour=YELLOW) for x in outside]
        parts.append(words(middle, 214, tokens[number].text, anchor="middle"))
        parts.append(words(middle, 232, f"p{number - first + 1}", size=11, colour=FAINT, anchor="middle"))
    told = "SBO: each token of a span from the two tokens outside it and its place p"
    return [*parts, words(_MARGIN, 250, told, colour=YELLOW, size=12)]


def longest_span(tokens: Sequence[ShownToken]) -> tuple[int, int] | None:
    """The first and the last token of the longest span that has a token on both sides."""
    found: list[tuple[int, int]] = []
    begin = 0
    for number, token in enumerate(tokens):
        begin = number if token.begins_span else begin
        if token.ends_span and begin > 0 and number + 1 < len(tokens):
            found.append((begin, number))
    return max(found, key=lambda span: span[1] - span[0], default=None)
