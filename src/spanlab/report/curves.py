"""Line charts as inline SVG: nothing beside the page is needed, and its style sheet decides the colours.

A chart has lines over the steps of a run. Every stretch of steps answers a pointer with its numbers, by the browser's
own title; the points that are drawn are few (`curve_points`), whatever the length of the run.
"""

from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import Literal

import numpy as np

from spanlab.report.axes import Axis, step_axis, value_axis
from spanlab.report.number_format import short
from spanlab.report.run_history import Series

_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 20, 10, 34
_STRIPS = 80
"""Stretches of steps that answer a pointer, at the most."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line of a chart."""

    name: str | None
    """In the legend; None for one that is not named there."""
    series: Series
    kind: Literal["faint", "line", "dots", "level"] = "line"
    """Faint lines are drawn behind, and a few outliers of theirs may leave the chart."""
    colour: Literal["train", "dev", "third"] = "train"


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A titled chart of lines."""

    title: str
    lines: tuple[Line, ...]
    figure: Callable[[float], str] = short
    """How a value is written where a pointer asks for it."""
    from_zero: bool = False
    wide: bool = False


def draw_chart(chart: Chart) -> str:
    """The chart as a `<figure>`."""
    width, height = (1120, 330) if chart.wide else (550, 260)
    across = step_axis([line.series.steps for line in chart.lines], begin=_LEFT, end=width - _RIGHT)
    up = value_axis(
        [line.series.values for line in chart.lines if line.kind != "faint"],
        [line.series.values for line in chart.lines if line.kind == "faint"],
        begin=height - _BOTTOM,
        end=_TOP,
        from_zero=chart.from_zero,
    )
    lines = "".join(_line(line, across, up) for line in sorted(chart.lines, key=lambda line: line.kind != "faint"))
    parts = f"{_grid(across, up)}<g class='curves'>{lines}</g>{_strips(chart, across, up)}"
    kind = "chart wide" if chart.wide else "chart"
    return (
        f'<figure class="{kind}"><figcaption>{escape(chart.title)}{_legend(chart)}</figcaption>'
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(chart.title)}">{parts}</svg></figure>'
    )


def _legend(chart: Chart) -> str:
    named = [line for line in chart.lines if line.name is not None]
    items = (f'<span class="{line.colour} {line.kind}">{escape(line.name or "")}</span>' for line in named)
    return f'<span class="legend">{"".join(items)}</span>' if len(named) > 1 else ""


def _grid(across: Axis, up: Axis) -> str:
    parts = []
    for value, label in up.ticks():
        y = _at(up, value)
        parts.append(f'<line class="grid" x1="{across.begin:g}" x2="{across.end:g}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="up" x="{across.begin - 8:g}" y="{y + 4:.1f}">{label}</text>')
    for value, label in across.ticks(6, whole=True):
        x = _at(across, value)
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{up.end:g}" y2="{up.begin:g}"/>')
        parts.append(f'<text class="across" x="{x:.1f}" y="{up.begin + 18:g}">{label}</text>')
    # Beside the numbers rather than below them: a chart needs no third line of text.
    parts.append(f'<text class="axis" x="{across.end:g}" y="{up.begin + 30:g}">steps</text>')
    return "".join(parts)


def _line(line: Line, across: Axis, up: Axis) -> str:
    x, y = across.place(line.series.steps), up.place(line.series.values)
    # What leaves the chart runs along its edge.
    y = np.clip(y, up.end, up.begin)
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x.tolist(), y.tolist(), strict=True))
    drawn = f'<polyline class="{line.colour} {line.kind}" points="{points}"/>'
    if line.kind != "dots" and len(x) > 1:
        return drawn
    radius = 3 if len(x) <= 100 else 1.5
    dots = (
        f'<circle class="{line.colour}" cx="{a:.1f}" cy="{b:.1f}" r="{radius}"/>' for a, b in zip(x, y, strict=True)
    )
    return drawn + "".join(dots)


def _strips(chart: Chart, across: Axis, up: Axis) -> str:
    """Invisible columns that tell the nearest values of every named line."""
    steps = np.unique(np.concatenate([line.series.steps for line in chart.lines]))
    if not len(steps):
        return ""
    chosen = steps[np.unique(np.linspace(0, len(steps) - 1, min(_STRIPS, len(steps))).astype(np.int64))]
    x = across.place(chosen)
    edges = np.concatenate([[across.begin], (x[1:] + x[:-1]) / 2, [across.end]])
    columns = []
    for step, left, right in zip(chosen, edges[:-1], edges[1:], strict=True):
        told = [_nearest(line, step, chart.figure) for line in chart.lines if line.name is not None]
        title = escape("\n".join([f"step {step:,.0f}", *told]))
        place = f'x="{left:.1f}" y="{up.end:g}" width="{max(0.0, right - left):.1f}" height="{up.begin - up.end:g}"'
        columns.append(f"<rect {place}><title>{title}</title></rect>")
    return f'<g class="strips">{"".join(columns)}</g>'


def _nearest(line: Line, step: float, figure: Callable[[float], str]) -> str:
    number = int(np.abs(line.series.steps - step).argmin())
    found = line.series.steps[number]
    where = "" if found == step else f" (step {found:,.0f})"
    return f"{line.name}: {figure(float(line.series.values[number]))}{where}"


def _at(axis: Axis, value: float) -> float:
    return float(axis.place(np.array([value]))[0])
