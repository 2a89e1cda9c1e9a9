"""Progress on stderr, of a run or over inputs: a bar on a terminal, otherwise a line from time to time.

Evaluations and notes are printed as lines that stay.
"""

import math
import os
import sys
import time
from collections import deque
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from spanlab.cli.output import note

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from spanlab.training.loop import Training
    from spanlab.training.records import Record

_LINE_SECONDS = 30.0
_LINE_SHARE = 0.05
"""Without a terminal, a line is printed after this time or this share of the steps, whichever comes first."""
_REFRESH_SECONDS = 0.1
_RECENT_SECONDS = 120.0
"""The time left follows from the steps of the last two minutes: long enough to include an evaluation."""


class TrainingProgress:
    """Shows the records of one run of `total` steps, of which `first` were done before (a resumed run)."""

    def __init__(self, total: int, first: int = 0) -> None:
        self._total, self._first = total, first
        self._display: _Display | None = None

    def __enter__(self) -> Self:
        from rich.console import Console

        console = Console(stderr=True)
        self._display = (_Bar if console.is_terminal else _Lines)(console, self._total, self._first)
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._display is not None:
            self._display.stop()
            self._display = None

    def log(self, record: "Record") -> None:
        """Show one record."""
        assert self._display is not None, "TrainingProgress is used within its context"
        if record.split == "train":
            self._display.step(record)
            for line in record.notes:
                self._display.say(f"step {record.step:,}: {line}")
        else:
            notes = f"  ({', '.join(record.notes)})" if record.notes else ""
            self._display.say(f"step {record.step:,}, held out: {describe(record.metrics)}{notes}")

    def say(self, line: str) -> None:
        """Print a line that stays."""
        assert self._display is not None, "TrainingProgress is used within its context"
        self._display.say(line)


class RunDisplay:
    """Callbacks of a run: `start` opens its progress display, `log` updates it, `close` ends it."""

    def __init__(self, *, quiet: bool = False) -> None:
        """With `quiet`, nothing is shown."""
        self._progress: TrainingProgress | None = None
        self._quiet = quiet

    def start(self, training: "Training[Any]", notes: tuple[str, ...]) -> None:
        """Show the start of a run and its notes."""
        if self._quiet:
            return
        self._progress = TrainingProgress(training.steps, training.progress.step).__enter__()
        for line in notes:
            self._progress.say(line)

    def log(self, record: "Record") -> None:
        """Show one record."""
        if self._quiet:
            return
        assert self._progress is not None, "records come after start"
        self._progress.log(record)

    def close(self) -> None:
        """End the display."""
        if self._progress is not None:
            self._progress.__exit__(None, None, None)


def describe(metrics: Mapping[str, float]) -> str:
    """`loss 6.1 (mlm 3.0, sbo 3.1)  accuracy (mlm 0.4, sbo 0.2)`: each metric with its parts by objective."""
    whole: dict[str, list[str]] = {}
    parts: dict[str, list[str]] = {}
    for name, value in metrics.items():
        metric, _, part = name.partition(".")
        whole.setdefault(metric, [])
        if part:
            parts.setdefault(metric, []).append(f"{part} {_format_value(value)}")
        else:
            whole[metric].append(_format_value(value))
    columns = []
    for metric, values in whole.items():
        bracket = [f"({', '.join(parts[metric])})"] if metric in parts else []
        columns.append(" ".join([metric.replace("_", " "), *values, *bracket]))
    return "  ".join(columns)


def _format_value(value: float) -> str:
    return f"{value:,.3f}" if abs(value) < 1000 else f"{value:,.0f}"


def _losses(record: "Record") -> str:
    return describe({name: value for name, value in record.metrics.items() if name.partition(".")[0] == "loss"})


def _rates(record: "Record") -> str:
    metrics = record.metrics
    columns = [f"lr {metrics['lr']:.2e}"] if "lr" in metrics else []
    if "tokens_per_second" in metrics:
        columns.append(f"{metrics['tokens_per_second']:,.0f} tokens/s")
    return "  ".join(columns)


class _Display(Protocol):
    def step(self, record: "Record") -> None: ...

    def say(self, line: str) -> None: ...

    def stop(self) -> None: ...


class _Bar:
    """A bar on the last line of the terminal; lines that stay are printed above it."""

    def __init__(self, console: "Console", total: int, first: int) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
        from rich.table import Column

        self._console = console
        self._bar = Progress(
            MofNCompleteColumn(),
            BarColumn(bar_width=12),
            TimeRemainingColumn(),
            # On a narrow terminal this column gets the width that the others leave.
            TextColumn("{task.fields[metrics]}", markup=False, table_column=Column(ratio=1, no_wrap=True)),
            console=console,
            expand=True,
            refresh_per_second=4,
            speed_estimate_period=_RECENT_SECONDS,
            redirect_stdout=False,  # stdout is for results
        )
        self._task = self._bar.add_task("training", total=total, completed=first, metrics="")
        self._bar.start()

    def step(self, record: "Record") -> None:
        self._bar.update(self._task, completed=record.step, metrics=f"{_losses(record)}  {_rates(record)}")

    def say(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def stop(self) -> None:
        self._bar.stop()


class _Lines:
    """Plain lines for a log file."""

    def __init__(self, console: "Console", total: int, first: int) -> None:
        self._total, self._first = total, first
        self._printed_at, self._printed_step = time.monotonic(), first
        self._recent = deque([(self._printed_at, first)])

    def step(self, record: "Record") -> None:
        now, step = time.monotonic(), record.step
        self._recent.append((now, step))
        while len(self._recent) > 2 and now - self._recent[1][0] >= _RECENT_SECONDS:
            self._recent.popleft()
        due = step - self._printed_step >= _LINE_SHARE * self._total or now - self._printed_at >= _LINE_SECONDS
        if due or step == self._first + 1 or step >= self._total:
            self._printed_at, self._printed_step = now, step
            share = f"{step:,}/{self._total:,} ({step / self._total:.0%})"
            self.say("  ".join([f"step {share}", _losses(record), _rates(record), self._remaining()]))

    def say(self, line: str) -> None:
        note(line)

    def stop(self) -> None:
        """Nothing to stop."""

    def _remaining(self) -> str:
        (began, first), (now, step) = self._recent[0], self._recent[-1]
        seconds = round((now - began) / (step - first) * (self._total - step))
        return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02} left"


class InputProgress:
    """Progress over `total` inputs, or other units (None: unknown), of which `first` were done before.

    Without a terminal a line is printed every half minute, so short work prints none; with `quiet` nothing is.
    """

    def __init__(
        self, verb: str, total: float | None, first: int = 0, *, unit: str = "inputs", quiet: bool = False
    ) -> None:
        self._verb, self._total, self._first, self._unit, self._quiet = verb, total, first, unit, quiet
        self._stage = ""
        self._done = float(first)
        self._bar: Progress | None = None

    def __enter__(self) -> Self:
        self._start = self._printed_at = time.monotonic()
        self._shown_at = -math.inf
        # `rich` is loaded for a terminal alone: it takes longer than many a command.
        if not self._quiet and (sys.stderr.isatty() or os.environ.get("TTY_COMPATIBLE") == "1"):
            from rich.console import Console

            console = Console(stderr=True)
            self._bar = self._new_bar(console) if console.is_terminal else None
        return self

    def _new_bar(self, console: "Console") -> "Progress":
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.fields[count]}"), BarColumn(bar_width=24), TextColumn("{task.fields[rate]}"))
        # Transient, so that results printed to the same terminal do not have bars between them.
        bar = Progress(*columns, TimeRemainingColumn(), console=console, transient=True, redirect_stdout=False)
        self._task = bar.add_task(self._verb, total=self._total, completed=self._first, rate="", count=self._verb)
        bar.start()
        return bar

    def begin(self, stage: str, total: float | None = None, *, unit: str | None = None) -> None:
        """Start a stage of the work, with a count of its own; without a total it only says what is done."""
        self._stage, self._total, self._first, self._done = stage, total, 0, 0.0
        self._unit = unit or self._unit
        self._start = time.monotonic()
        self._shown_at = -math.inf
        if self._bar is not None:
            self._bar.update(self._task, description=stage, total=total, completed=0)
        self._show()

    def advance(self, count: float) -> None:
        """Show that so many more are done."""
        self._done += count
        self._show()

    def _show(self) -> None:
        now = time.monotonic()
        if self._bar is not None and now - self._shown_at >= _REFRESH_SECONDS:
            self._shown_at = now
            self._bar.start()
            self._update(now)
        elif self._bar is None and not self._quiet and now - self._printed_at >= _LINE_SECONDS:
            self._printed_at = now
            note(f"{self._verb}: {self._describe(self._rate(now))}")

    def _rate(self, now: float) -> float:
        return (self._done - self._first) / max(1e-9, now - self._start)

    def _update(self, now: float) -> None:
        assert self._bar is not None
        total = "" if self._total is None else f"/{self._total:,.0f}"
        count = f"{self._done:,.0f}{total}" if self._done or self._total is not None else ""
        rate = f"{self._rate(now):,.1f} {self._unit}/s" if self._done else ""
        shown = " ".join(part for part in (self._stage, count) if part)
        self._bar.update(self._task, completed=self._done, count=shown or self._verb, rate=rate)

    def _describe(self, rate: float) -> str:
        done, stage = round(self._done), f"{self._stage}  " if self._stage else ""
        if self._total is None:
            return f"{stage}{done:,} {self._unit}  {rate:,.1f} {self._unit}/s" if done or not stage else stage.strip()
        seconds = round(max(0.0, self._total - self._done) / max(1e-9, rate))
        left = f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02} left" if done else "just begun"
        share = self._done / max(1, self._total)
        return f"{stage}{done:,}/{self._total:,.0f} ({share:.0%})  {rate:,.1f} {self._unit}/s  {left}"

    def hide(self) -> None:
        """Take the bar away until the next `advance`: something is printed."""
        if self._bar is not None:
            self._update(time.monotonic())
            self._bar.stop()
            self._shown_at = -math.inf

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.hide()
