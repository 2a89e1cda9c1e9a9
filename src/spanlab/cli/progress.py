"""Progress on stderr, of a run or over inputs: a bar on a terminal, otherwise a line from time to time.

Evaluations and notes are printed as lines that stay.
"""

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

    def __init__(self) -> None:
        self._progress: TrainingProgress | None = None

    def start(self, training: "Training[Any]", notes: tuple[str, ...]) -> None:
        """Show the start of a run and its notes."""
        self._progress = TrainingProgress(training.steps, training.progress.step).__enter__()
        for line in notes:
            self._progress.say(line)

    def log(self, record: "Record") -> None:
        """Show one record."""
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
    """Progress of predictions over `total` inputs (None: unknown), of which `first` were done before.

    Without a terminal a line is printed every half minute, so short work prints none.
    """

    def __init__(self, verb: str, total: int | None, first: int = 0) -> None:
        self._verb, self._total, self._first = verb, total, first
        self._done = float(first)
        self._bar: Progress | None = None

    def __enter__(self) -> Self:
        from rich.console import Console

        self._start = self._printed_at = time.monotonic()
        console = Console(stderr=True)
        if console.is_terminal:
            self._bar = self._new_bar(console)
        return self

    def _new_bar(self, console: "Console") -> "Progress":
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (MofNCompleteColumn(), BarColumn(bar_width=24), TextColumn("{task.fields[rate]}"))
        # Transient, so that results printed to the same terminal do not have bars between them.
        bar = Progress(*columns, TimeRemainingColumn(), console=console, transient=True, redirect_stdout=False)
        self._task = bar.add_task(self._verb, total=self._total, completed=self._first, rate="")
        bar.start()
        return bar

    def advance(self, count: float) -> None:
        """Show that so many more inputs are computed."""
        self._done += count
        now = time.monotonic()
        rate = (self._done - self._first) / max(1e-9, now - self._start)
        if self._bar is not None:
            self._bar.start()
            self._bar.update(self._task, completed=self._done, rate=f"{rate:,.1f} inputs/s")
        elif now - self._printed_at >= _LINE_SECONDS:
            self._printed_at = now
            note(f"{self._verb}: {self._describe(rate)}")

    def _describe(self, rate: float) -> str:
        done = round(self._done)
        if self._total is None:
            return f"{done:,} inputs  {rate:,.1f} inputs/s"
        seconds = round(max(0.0, self._total - self._done) / max(1e-9, rate))
        left = f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02} left"
        return f"{done:,}/{self._total:,} ({self._done / max(1, self._total):.0%})  {rate:,.1f} inputs/s  {left}"

    def hide(self) -> None:
        """Take the bar away until the next `advance`: something is printed."""
        if self._bar is not None:
            self._bar.stop()

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.hide()
