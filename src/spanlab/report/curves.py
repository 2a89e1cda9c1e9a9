"""The curves of a run as inline SVG: losses, scores, the optimiser and the speed; the page's style sheet colours them.

What enters is a `History`; what leaves are groups of charts as HTML. Hovering over a chart shows the values there, by
the browser's own tooltips. However long the run, few points are drawn (`thin`, `smooth`).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Literal, get_args

import numpy as np

from spanlab.report.number_format import scientific, share, short
from spanlab.report.run_history import MACHINE, History, Numbers, Series

Colour = Literal["train", "dev", "third", "fourth", "fifth", "sixth"]
"""A class of the style sheet."""
COLOURS: tuple[Colour, ...] = get_args(Colour)
MOST_POINTS = 600
"""Points of a line that are drawn, at most."""
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 20, 10, 34
"""Margins of a chart in pixels."""
_STRIPS = 80
"""Bins of steps with a tooltip, at most."""


@dataclass(frozen=True, kw_only=True)
class Axis:
    """A range of values and the range of pixels it is drawn on."""

    low: float
    high: float
    begin: float
    end: float
    """The pixels of `low` and `high`."""
    logarithmic: bool = False

    def to_pixels(self, values: Numbers) -> Numbers:
        """Where values are drawn."""
        low, high = (math.log(self.low), math.log(self.high)) if self.logarithmic else (self.low, self.high)
        shown = np.log(np.maximum(values, self.low / 1e3)) if self.logarithmic else values
        return self.begin + (shown - low) / (high - low) * (self.end - self.begin)

    def ticks(self, wanted: int = 5, *, whole: bool = False) -> list[tuple[float, str]]:
        """About `wanted` round values in the range with their labels; only integers if `whole`."""
        values = _powers(self.low, self.high) if self.logarithmic else _multiples(self.low, self.high, wanted)
        values = [value for value in values if not whole or value == round(value)]
        return list(zip(values, _labels(values), strict=True))


def value_axis(
    values: Sequence[Numbers], spread: Sequence[Numbers], *, begin: float, end: float, from_zero: bool
) -> Axis:
    """An axis for all of `values` and the middle 99 % of `spread`, so that one spike does not flatten a curve."""
    usual = [np.percentile(part, [0.5, 99.5]) for part in spread if len(part)]
    every = np.concatenate([np.zeros(0), *values, *usual])
    low, high = (float(every.min()), float(every.max())) if len(every) else (0.0, 1.0)
    if not from_zero and low > 0 and high / low > 50:
        return Axis(low=low / 1.1, high=high * 1.1, begin=begin, end=end, logarithmic=True)
    low = min(0.0, low) if from_zero else low
    margin = 0.06 * (high - low) or 0.06 * abs(high) or 1.0
    return Axis(low=low if from_zero else low - margin, high=high + margin, begin=begin, end=end)


def step_axis(steps: Sequence[Numbers], *, begin: float, end: float) -> Axis:
    """An axis from 0 to the last step."""
    return Axis(low=0.0, high=max((float(part[-1]) for part in steps if len(part)), default=1.0), begin=begin, end=end)


def _multiples(low: float, high: float, wanted: int) -> list[float]:
    rough = (high - low) / wanted
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [index * step for index in range(first, math.floor(high / step + 1e-9) + 1)]


def _powers(low: float, high: float) -> list[float]:
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    factors = (1, 2, 5) if math.log10(high / low) < 3 else (1,)
    values = [factor * 10.0**power for power in decades for factor in factors]
    return [value for value in values if low <= value <= high]


def _labels(values: list[float]) -> list[str]:
    """All in the notation of the largest: 2.5k beside 10k, 5e-4 beside 2e-3."""
    largest = max(map(abs, values), default=0.0)
    if largest >= 1e4:
        factor, unit = (1e6, "M") if largest >= 1e6 else (1e3, "k")
        return [f"{value / factor:.6g}{unit}" if value else "0" for value in values]
    if largest < 1e-2:
        return [scientific(value) for value in values]
    return [f"{value:,.6g}" for value in values]


def thin(series: Series, most: int = MOST_POINTS) -> Series:
    """The minimum and maximum of each bin of steps, so that no spike is lost; short series stay as they are."""
    if len(series) <= most:
        return series
    edges = np.linspace(0, len(series), most // 2).astype(np.int64)  # the first and the last point come on top
    chosen = {0, len(series) - 1}
    for first, last in pairwise(edges.tolist()):
        values = series.values[first:last]
        chosen |= {first + int(values.argmin()), first + int(values.argmax())}
    kept = np.array(sorted(chosen))
    return Series(series.steps[kept], series.values[kept])


def smooth(series: Series, most: int = MOST_POINTS) -> Series:
    """The centred mean over a fiftieth of the run around each point (less at the ends)."""
    count = len(series)
    kept = np.unique(np.linspace(0, count - 1, min(most, count)).astype(np.int64))
    first = np.maximum(kept - count // 100, 0)
    last = np.minimum(kept + count // 100 + 1, count)
    sums = np.concatenate([[0.0], np.cumsum(series.values)])
    return Series(series.steps[kept], (sums[last] - sums[first]) / (last - first))


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line of a chart."""

    name: str | None
    """In the legend and the tooltips; None to leave it out of both."""
    series: Series
    style: Literal["faint", "line", "dots", "level"] = "line"
    """Faint lines are drawn behind the others, and their outliers are clipped."""
    colour: Colour = "train"


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A titled chart of lines."""

    title: str
    lines: tuple[Line, ...]
    value_format: Callable[[float], str] = short
    """How tooltips write a value."""
    from_zero: bool = False
    wide: bool = False


def draw_chart(chart: Chart) -> str:
    """The chart as a `<figure>`."""
    width, height = (1120, 330) if chart.wide else (550, 260)
    across = step_axis([line.series.steps for line in chart.lines], begin=_LEFT, end=width - _RIGHT)
    up = value_axis(
        [line.series.values for line in chart.lines if line.style != "faint"],
        [line.series.values for line in chart.lines if line.style == "faint"],
        begin=height - _BOTTOM,
        end=_TOP,
        from_zero=chart.from_zero,
    )
    lines = "".join(_line(line, across, up) for line in sorted(chart.lines, key=lambda line: line.style != "faint"))
    parts = f"{_grid(across, up)}<g class='curves'>{lines}</g>{_strips(chart, across, up)}"
    classes = "chart wide" if chart.wide else "chart"
    return (
        f'<figure class="{classes}"><figcaption>{escape(chart.title)}{_legend(chart)}</figcaption>'
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(chart.title)}">{parts}</svg></figure>'
    )


def _legend(chart: Chart) -> str:
    named = [line for line in chart.lines if line.name is not None]
    items = (f'<span class="{line.colour} {line.style}">{escape(line.name or "")}</span>' for line in named)
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
    parts.append(f'<text class="axis" x="{across.end:g}" y="{up.begin + 30:g}">steps</text>')
    return "".join(parts)


def _line(line: Line, across: Axis, up: Axis) -> str:
    x, y = across.to_pixels(line.series.steps), up.to_pixels(line.series.values)
    # Outliers are drawn along the edge.
    y = np.clip(y, up.end, up.begin)
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x.tolist(), y.tolist(), strict=True))
    drawn = f'<polyline class="{line.colour} {line.style}" points="{points}"/>'
    if line.style != "dots" and len(x) > 1:
        return drawn
    radius = 3 if len(x) <= 100 else 1.5
    dots = (
        f'<circle class="{line.colour}" cx="{a:.1f}" cy="{b:.1f}" r="{radius}"/>' for a, b in zip(x, y, strict=True)
    )
    return drawn + "".join(dots)


def _strips(chart: Chart, across: Axis, up: Axis) -> str:
    """Invisible columns whose tooltips give the nearest value of every named line."""
    steps = np.unique(np.concatenate([line.series.steps for line in chart.lines]))
    if not len(steps):
        return ""
    chosen = steps[np.unique(np.linspace(0, len(steps) - 1, min(_STRIPS, len(steps))).astype(np.int64))]
    x = across.to_pixels(chosen)
    edges = np.concatenate([[across.begin], (x[1:] + x[:-1]) / 2, [across.end]])
    columns = []
    for step, left, right in zip(chosen, edges[:-1], edges[1:], strict=True):
        values = [_nearest(line, step, chart.value_format) for line in chart.lines if line.name is not None]
        title = escape("\n".join([f"step {step:,.0f}", *values]))
        area = f'x="{left:.1f}" y="{up.end:g}" width="{max(0.0, right - left):.1f}" height="{up.begin - up.end:g}"'
        columns.append(f"<rect {area}><title>{title}</title></rect>")
    return f'<g class="strips">{"".join(columns)}</g>'


def _nearest(line: Line, step: float, value_format: Callable[[float], str]) -> str:
    index = int(np.abs(line.series.steps - step).argmin())
    nearest = line.series.steps[index]
    where = "" if nearest == step else f" (step {nearest:,.0f})"
    return f"{line.name}: {value_format(float(line.series.values[index]))}{where}"


def _at(axis: Axis, value: float) -> float:
    return float(axis.to_pixels(np.array([value]))[0])


def draw_curves(history: History) -> dict[str, str]:
    """HTML by the title of each group of charts; a group without data is empty."""
    names = dict.fromkeys([*history.names("train"), *history.names("dev")])
    objectives = [name for name in names if name.startswith("loss.")]
    # Perplexity is the loss on another scale and gets no curve of its own.
    scores = [name for name in names if name.partition(".")[0] not in ("loss", "perplexity", "unigram", *MACHINE)]
    losses = [
        _learning_chart(history, "loss", wide=True),
        # The loss of a single objective is the total loss.
        *(_learning_chart(history, name) for name in objectives if len(objectives) > 1 or "loss" not in names),
    ]
    return {
        "Loss": _group(losses),
        "Accuracy and scores": _group([_learning_chart(history, name) for name in scores]),
        "Optimiser": _group(_optimiser_charts(history)),
        "Speed": _group(_speed_charts(history)),
    }


def metric_label(name: str) -> str:
    """`loss.mlm` as "loss, MLM"."""
    metric, _, objective = name.partition(".")
    words = metric.replace("_", " ")
    return f"{words}, {objective.upper()}" if objective else words


def _group(charts: Sequence[Chart]) -> str:
    drawn = "".join(draw_chart(chart) for chart in charts if chart.lines)
    return f'<div class="charts">{drawn}</div>' if drawn else ""


def _learning_chart(history: History, name: str, *, wide: bool = False) -> Chart:
    """Training, raw and smoothed; held-out as dots; and the loss of a unigram model as a level."""
    dev, unigram = history.series("dev", name), history.series("dev", name.replace("loss.", "unigram."))
    held_out = (Line(name="held-out", series=thin(dev), style="dots", colour="dev"),) if len(dev) else ()
    lines = (*_train_lines(history, name), *held_out)
    if name.startswith("loss.") and len(unigram):
        lines = (*lines, Line(name="unigram", series=_level(history, unigram), style="level", colour="dev"))
    return Chart(title=metric_label(name), lines=lines, wide=wide)


def _level(history: History, series: Series) -> Series:
    """The last value of a series, from the first step to the last."""
    return Series(np.array([1.0, max(2.0, history.last_step)]), np.repeat(series.values[-1:], 2))


def _optimiser_charts(history: History) -> list[Chart]:
    rate = history.series("train", "lr")
    lines = (Line(name="learning rate", series=thin(rate)),) if len(rate) else ()
    return [
        Chart(title="learning rate", lines=lines, from_zero=True),
        Chart(title="gradient norm", lines=_train_lines(history, "grad_norm")),
    ]


def _speed_charts(history: History) -> list[Chart]:
    peak = _train_lines(history, "peak_share")
    return [
        Chart(title="tokens per second", lines=_train_lines(history, "tokens_per_second"), from_zero=True),
        Chart(title="share of the machine's peak", lines=peak, value_format=share, from_zero=True),
    ]


def _train_lines(history: History, name: str) -> tuple[Line, ...]:
    series = history.series("train", name)
    if not len(series):
        return ()
    return (
        Line(name=None, series=thin(series), style="faint"),
        Line(name="training, smoothed", series=smooth(series)),
    )
