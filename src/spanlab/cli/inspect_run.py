"""`spanlab inspect run`: the state and the metrics of a run."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spanlab.cli.output import print_json, print_table

if TYPE_CHECKING:
    from spanlab.report.run_history import Course, History, RunSummary

_HIGHLIGHTS = (
    *("system", "task", "model", "size", "seed", "objectives", "data.length", "masking.law", "masking.ratio"),
    *("training.batch_size", "training.lr", "training.schedule", "training.precision"),
)
"""The settings in which runs usually differ."""


def run(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="Run folder.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Show a run: state, steps and time, losses at the start, now and at their best, throughput, checkpoints, settings.

    Example: spanlab inspect run runs/novels
    """
    from spanlab.report.run_history import History, read_run, summarise

    files = read_run(folder)
    history = History(files.records)
    summary = summarise(files, history)
    settings = _highlights(files.config)
    if as_json:
        print_json({**summary.to_dict(), "settings": settings, "notes": [vars(note) for note in history.notes]})
        return
    _print(summary, history, settings)


def _highlights(config: Any) -> dict[str, Any]:  # noqa: ANN401 (parsed YAML)
    """The `_HIGHLIGHTS` that a config has, by dotted key."""
    settings = {}
    for key in _HIGHLIGHTS:
        value = config
        for part in key.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        if value is not None:
            settings[key] = value
    return settings


def _print(summary: "RunSummary", history: "History", settings: dict[str, Any]) -> None:
    from spanlab.report.number_format import duration, plain, share, size

    of = f" of {summary.steps:,} ({summary.step / summary.steps:.0%})" if summary.steps else ""
    rows = [
        ("run", f"{summary.folder}: {summary.title}"),
        ("state", f"{summary.state}{f': {summary.message}' if summary.message else ''}"),
        ("steps", f"{summary.step:,}{of}"),
    ]
    if summary.seconds is not None:
        rows.append(("time", duration(summary.seconds)))
    if summary.tokens_per_second is not None:
        peak = f", {share(summary.peak_share)} of the machine's peak" if summary.peak_share is not None else ""
        rows.append(("speed", f"{summary.tokens_per_second:,.0f} tokens per second{peak}"))
    if summary.memory_gb is not None:
        rows.append(("memory", size(round(summary.memory_gb * 1e9))))
    rows += _losses(history)
    rows += [(course.name, _course(course)) for course in summary.courses]
    if summary.best_step is not None:
        rows.append(("best model", f"of step {summary.best_step:,}"))
    rows += [("checkpoint", f"{checkpoint.name}, {size(checkpoint.bytes)}") for checkpoint in summary.checkpoints]
    rows += [(key, plain(value)) for key, value in settings.items()]
    rows += [("note", f"step {note.step:,}: {note.text}") for note in history.notes[-5:]]
    print_table(rows)


def _losses(history: "History") -> list[tuple[str, str]]:
    """The loss of each split as a sparkline."""
    from spanlab.report.run_history import sparkline

    losses = {"train": history.series("train", "loss"), "dev": history.series("dev", "loss")}
    return [(f"{split} loss", sparkline(series.values)) for split, series in losses.items() if len(series) > 1]


def _course(course: "Course") -> str:
    parts = []
    if course.train_first is not None and course.train_now is not None:
        parts.append(f"train {course.train_first:.4g} → {course.train_now:.4g}")
    if course.dev_first is not None and course.dev_now is not None:
        best = f", best {course.dev_best:.4g} at step {course.dev_best_step:,}"
        parts.append(f"held-out {course.dev_first:.4g} → {course.dev_now:.4g}{best}")
    return "; ".join(parts)
