"""Line charts as inline SVG: nothing beside the page is needed, and its style sheet decides the colours.

A chart has lines over the steps of a run. Every stretch of steps answers a pointer with its numbers, by the browser's
own title; the points that are drawn are few (`curve_points`), whatever the length of the run.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Literal

import numpy as np

from spanlab.report.number_format import scientific, short
from spanlab.report.run_history import Numbers, Series


@dataclass(frozen=True, kw_only=True)
class Axis:
    """A stretch of numbers laid on a stretch of paper."""

    low: float
    high: float
    begin: float
    end: float
    """Where `low` and `high` are drawn."""
    logarithmic: bool = False

    def place(self, values: Numbers) -> Numbers:
        """Where numbers are drawn."""
        low, high = (math.log(self.low), math.log(self.high)) if self.logarithmic else (self.low, self.high)
        shown = np.log(np.maximum(values, self.low / 1e3)) if self.logarithmic else values
        return self.begin + (shown - low) / (high - low) * (self.end - self.begin)

    def ticks(self, wanted: int = 5, *, whole: bool = False) -> list[tuple[float, str]]:
        """Round numbers within, about as many as wanted, each with its label; on request, only `whole` ones."""
        values = _powers(self.low, self.high) if self.logarithmic else _multiples(self.low, self.high, wanted)
        values = [value for value in values if not whole or value == round(value)]
        return list(zip(values, _labels(values), strict=True))


def value_axis(
    values: Sequence[Numbers], spread: Sequence[Numbers], *, begin: float, end: float, from_zero: bool
) -> Axis:
    """An axis for all of `values`, and for `spread` but its rarest hundredths: one spike must not flatten a curve."""
    usual = [np.percentile(part, [0.5, 99.5]) for part in spread if len(part)]
    every = np.concatenate([np.zeros(0), *values, *usual])
    low, high = (float(every.min()), float(every.max())) if len(every) else (0.0, 1.0)
    if not from_zero and low > 0 and high / low > 50:
        return Axis(low=low / 1.1, high=high * 1.1, begin=begin, end=end, logarithmic=True)
    low = min(0.0, low) if from_zero else low
    room = 0.06 * (high - low) or 0.06 * abs(high) or 1.0
    return Axis(low=low if from_zero else low - room, high=high + room, begin=begin, end=end)


def step_axis(steps: Sequence[Numbers], *, begin: float, end: float) -> Axis:
    """An axis from 0 to the last step."""
    return Axis(low=0.0, high=max((float(part[-1]) for part in steps if len(part)), default=1.0), begin=begin, end=end)


def _multiples(low: float, high: float, wanted: int) -> list[float]:
    rough = (high - low) / wanted
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [number * step for number in range(first, math.floor(high / step + 1e-9) + 1)]


def _powers(low: float, high: float) -> list[float]:
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    factors = (1, 2, 5) if math.log10(high / low) < 3 else (1,)
    found = [factor * 10.0**power for power in decades for factor in factors]
    return [value for value in found if low <= value <= high]


def _labels(values: list[float]) -> list[str]:
    """All in one notation, that of the largest: 2.5k beside 10k, 5e-4 beside 2e-3."""
    largest = max(map(abs, values), default=0.0)
    if largest >= 1e4:
        factor, unit = (1e6, "M") if largest >= 1e6 else (1e3, "k")
        return [f"{value / factor:.6g}{unit}" if value else "0" for value in values]
    if largest < 1e-2:
        return [scientific(value) for value in values]
    return [f"{value:,.6g}" for value in values]


MOST_POINTS = 600


def thin(series: Series, most: int = MOST_POINTS) -> Series:
    """The lowest and the highest point of each stretch of steps: no spike is lost. Short series stay as they are."""
    if len(series) <= most:
        return series
    edges = np.linspace(0, len(series), most // 2).astype(np.int64)  # room for the first and the last point
    chosen = {0, len(series) - 1}
    for first, last in pairwise(edges.tolist()):
        stretch = series.values[first:last]
        chosen |= {first + int(stretch.argmin()), first + int(stretch.argmax())}
    kept = np.array(sorted(chosen))
    return Series(series.steps[kept], series.values[kept])


def smooth(series: Series, most: int = MOST_POINTS) -> Series:
    """The mean over a fiftieth of the run around each point (less at the ends), which lags behind nothing."""
    count = len(series)
    kept = np.unique(np.linspace(0, count - 1, min(most, count)).astype(np.int64))
    first = np.maximum(kept - count // 100, 0)
    last = np.minimum(kept + count // 100 + 1, count)
    sums = np.concatenate([[0.0], np.cumsum(series.values)])
    return Series(series.steps[kept], (sums[last] - sums[first]) / (last - first))


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
