"""SVG shapes as strings, and the picture that contains them; colours and fonts in one place."""

from collections.abc import Iterable
from html import escape
from typing import Literal

BLUE, RED, GREEN, YELLOW = "#2456a6", "#c4561b", "#2e7d4f", "#d9a400"
INK, PALE, FAINT = "#1c2733", "#eef1f5", "#8a95a3"
_FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"


def picture(width: float, height: float, parts: Iterable[str], *, title: str) -> str:
    """An SVG document with a white background, so that it is readable on a dark page, too."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'height="{height:g}" font-family="{_FONT}" role="img"><title>{escape(title)}</title>'
        f'<rect width="{width:g}" height="{height:g}" fill="#ffffff"/>{"".join(parts)}</svg>\n'
    )


def box(x: float, y: float, width: float, height: float, *, fill: str = PALE, line: str = "none") -> str:
    """A rectangle with slightly rounded corners."""
    area = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return f'<rect {area} rx="3" fill="{fill}" stroke="{line}" stroke-width="2"/>'


def words(
    x: float,
    y: float,
    text: str,
    *,
    size: float = 13,
    colour: str = INK,
    anchor: Literal["start", "middle", "end"] = "start",
    turned: bool = False,
) -> str:
    """A line of text that starts at, is centred on, or ends at a point of its baseline; `turned` runs upwards."""
    turn = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if turned else ""
    attributes = f'x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" fill="{colour}" text-anchor="{anchor}"{turn}'
    return f"<text {attributes}>{escape(text)}</text>"


def arrow(x1: float, y1: float, x2: float, y2: float, *, colour: str = INK) -> str:
    """A curved line from one point down or up to another, with a head at its end."""
    middle = (y1 + y2) / 2
    tip = 6 if y2 > y1 else -6
    path = f"M{x1:.1f} {y1:.1f} C{x1:.1f} {middle:.1f} {x2:.1f} {middle:.1f} {x2:.1f} {y2 - tip:.1f}"
    head = f"M{x2:.1f} {y2:.1f} l-4 {-tip} h8 z"
    return f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="1.6"/><path d="{head}" fill="{colour}"/>'


def width_of(text: str, *, size: float = 13) -> float:
    """The approximate width of a line of text in pixels, rounded up since there are no font metrics."""
    return sum(1.0 if ord(character) > 0x2E80 else 0.62 for character in text) * size
