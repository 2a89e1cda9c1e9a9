"""The curves of a run: losses by objective, scores, the optimiser and the machine's speed, as groups of charts."""

from collections.abc import Sequence

import numpy as np

from spanlab.report.curves import Chart, Line, draw_chart, smooth, thin
from spanlab.report.number_format import share
from spanlab.report.run_history import MACHINE, History, Series


def draw_curves(history: History) -> dict[str, str]:
    """HTML by the title of each group; a group of which nothing was told is empty."""
    names = dict.fromkeys([*history.names("train"), *history.names("dev")])
    objectives = [name for name in names if name.startswith("loss.")]
    # The perplexity is the loss on another scale: a figure, but no curve of its own.
    scores = [name for name in names if name.partition(".")[0] not in ("loss", "perplexity", "unigram", *MACHINE)]
    losses = [
        _learning_chart(history, "loss", wide=True),
        # One objective alone is the loss.
        *(_learning_chart(history, name) for name in objectives if len(objectives) > 1 or "loss" not in names),
    ]
    return {
        "Loss": _group(losses),
        "Accuracy and scores": _group([_learning_chart(history, name) for name in scores]),
        "Optimiser": _group(_optimiser_charts(history)),
        "Speed": _group(_speed_charts(history)),
    }


def label(name: str) -> str:
    """`loss.mlm` as a person reads it."""
    metric, _, objective = name.partition(".")
    words = metric.replace("_", " ")
    return f"{words}, {objective.upper()}" if objective else words


def _group(charts: Sequence[Chart]) -> str:
    drawn = "".join(draw_chart(chart) for chart in charts if chart.lines)
    return f'<div class="charts">{drawn}</div>' if drawn else ""


def _learning_chart(history: History, name: str, *, wide: bool = False) -> Chart:
    """Training, faint as it was and smoothed, held-out as dots, and what token frequencies alone would lose."""
    dev, unigram = history.series("dev", name), history.series("dev", name.replace("loss.", "unigram."))
    held_out = (Line(name="held-out", series=thin(dev), kind="dots", colour="dev"),) if len(dev) else ()
    lines = (*_train_lines(history, name), *held_out)
    if name.startswith("loss.") and len(unigram):
        lines = (*lines, Line(name="unigram", series=_level(history, unigram), kind="level", colour="dev"))
    return Chart(title=label(name), lines=lines, wide=wide)


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
        Chart(title="tokens a second", lines=_train_lines(history, "tokens_per_second"), from_zero=True),
        Chart(title="share of the machine's peak", lines=peak, figure=share, from_zero=True),
    ]


def _train_lines(history: History, name: str) -> tuple[Line, ...]:
    series = history.series("train", name)
    if not len(series):
        return ()
    return (
        Line(name=None, series=thin(series), kind="faint"),
        Line(name="training, smoothed", series=smooth(series)),
    )
