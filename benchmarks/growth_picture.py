"""Curves of growth as a picture: every line from 1, on logarithmic axes, so that its slope is its exponent."""

from collections.abc import Mapping, Sequence

import numpy as np

from spanlab.report.curves import Axis
from spanlab.report.run_history import Numbers
from spanlab.report.svg import BLUE, FAINT, GREEN, PALE, RED, YELLOW, picture, words

_COLOURS = (BLUE, RED, GREEN, YELLOW, "#7a4fa3", "#3a8f8f", "#9c2f6e", "#6b6b6b")
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 760.0, 420.0, 60.0, 500.0, 56.0, 360.0
_LABEL = 20.0
Line = tuple[Sequence[float], Sequence[float]]


def draw_growth(title: str, lines: Mapping[str, Line]) -> str:
    """How many times as much of y for how many times as much of x; the dashed line is what linear growth would be."""
    grown = {name: (np.array(x) / x[0], np.maximum(np.array(y) / y[0], 1e-3)) for name, (x, y) in lines.items()}
    most = max(float(x.max()) for x, _ in grown.values())
    low = min(1.0, *(float(y.min()) for _, y in grown.values()))
    high = max(2.0, *(float(y.max()) for _, y in grown.values()))
    across = Axis(low=1.0, high=most, begin=_LEFT, end=_RIGHT, logarithmic=True)
    up = Axis(low=low, high=high, begin=_BOTTOM, end=_TOP, logarithmic=True)
    parts = [words(20, 28, f"{title}, times the first point; behind each name its exponent", size=15)]
    parts += _grid(across, up)
    reach = min(most, high)
    parts.append(_path(across, up, np.array([1.0, reach]), np.array([1.0, reach]), FAINT, dashed=True))
    for name, colour in zip(grown, _COLOURS, strict=False):
        parts.append(_path(across, up, *grown[name], colour))
    return picture(_WIDTH, _HEIGHT, [*parts, *_names(up, grown)], title=title)


def _grid(across: Axis, up: Axis) -> list[str]:
    parts = []
    for value, label in up.ticks():
        y = float(up.to_pixels(np.array([value]))[0])
        parts.append(f'<line x1="{_LEFT}" x2="{_RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="{PALE}" stroke-width="1.5"/>')
        parts.append(words(_LEFT - 8, y + 4, label, size=12, colour=FAINT, anchor="end"))
    for value, label in across.ticks():
        x = float(across.to_pixels(np.array([value]))[0])
        parts.append(words(x, _BOTTOM + 20, label, size=12, colour=FAINT, anchor="middle"))
    parts.append(
        words((_LEFT + _RIGHT) / 2, _BOTTOM + 44, "times the smallest", size=12, colour=FAINT, anchor="middle")
    )
    return parts


def _path(
    across: Axis,
    up: Axis,
    x: Numbers,
    y: Numbers,
    colour: str,
    *,
    dashed: bool = False,
) -> str:
    places = list(zip(across.to_pixels(x).tolist(), up.to_pixels(y).tolist(), strict=True))
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in places)
    style = ' stroke-dasharray="5 5" stroke-width="1.5"' if dashed else ' stroke-width="2.5"'
    dots = "" if dashed else "".join(f'<circle cx="{a:.1f}" cy="{b:.1f}" r="4" fill="{colour}"/>' for a, b in places)
    return f'<polyline points="{points}" fill="none" stroke="{colour}"{style}/>{dots}'


def _names(up: Axis, grown: Mapping[str, tuple[Numbers, Numbers]]) -> list[str]:
    """Each line's name to the right, at the height of its end or as near as the other names leave room."""
    ends = sorted(
        (float(up.to_pixels(np.array([y[-1]]))[0]), name, colour)
        for (name, (_, y)), colour in zip(grown.items(), _COLOURS, strict=False)
    )
    parts, lowest = [], _TOP - _LABEL
    for height, name, colour in ends:
        lowest = max(height, lowest + _LABEL)
        parts.append(words(_RIGHT + 14, lowest + 4, name, size=13, colour=colour))
    return parts
