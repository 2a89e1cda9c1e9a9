"""Display of a quickstart: progress on stderr, a line for each step and a bar for each run; results on stdout.

Whatever colour shows, words show too, so that the output can be piped to a file.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.table import Table
from rich.text import Text
from typing_extensions import override

from spanlab.cli.progress import RunDisplay
from spanlab.quickstart.folder import QuickstartEvents

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spanlab.quickstart.results import Continuation, QuickstartResults, Reading
    from spanlab.training.loop import Training
    from spanlab.training.records import Record

_MARGIN = "  "


class QuickstartDisplay(QuickstartEvents):
    """Shows the events of a quickstart, on terminals and in log files."""

    def __init__(self, *, with_results: bool, quiet: bool = False) -> None:
        """`with_results`: show the results of a part as soon as it is done; `quiet`: show nothing else."""
        self._quiet = quiet
        self._console = Console(stderr=True, highlight=False, quiet=quiet)
        self._results = Console(highlight=False, quiet=not with_results)
        self._run: RunDisplay | None = None
        self._bar: Progress | None = None

    @override
    def part(self, number: int, total: int, title: str) -> None:
        self._stop_bar()
        self._console.print(f"[{number}/{total}] {title}", style="bold", markup=False)

    @override
    def say(self, line: str) -> None:
        self._stop_bar()
        self._console.print(f"{_MARGIN}{line}", markup=False, soft_wrap=True)

    @override
    def progress(self, description: str, done: int, total: int | None) -> None:
        if self._bar is None:
            columns = (
                TextColumn("  {task.description}"),
                BarColumn(bar_width=12),
                DownloadColumn(),
                TransferSpeedColumn(),
                TimeRemainingColumn(),
            )
            terminal = self._console.is_terminal
            self._bar = Progress(*columns, console=self._console, transient=True, disable=self._quiet or not terminal)
            self._bar.add_task(description)
            self._bar.start()
        self._bar.update(self._bar.task_ids[0], completed=done, total=total)

    @override
    def read(self, reading: "Reading") -> None:
        self._stop_bar()
        print_reading(self._results, reading)

    @override
    def run_begins(self, training: "Training[Any]", notes: tuple[str, ...]) -> None:
        self._stop_bar()
        self._run = RunDisplay(quiet=self._quiet)
        self._run.start(training, notes)

    @override
    def record(self, record: "Record") -> None:
        assert self._run is not None, "records come after run_begins"
        self._run.log(record)

    @override
    def run_ends(self) -> None:
        if self._run is not None:
            self._run.close()
            self._run = None

    @override
    def continued(self, continuation: "Continuation") -> None:
        self._stop_bar()
        print_continuation(self._results, continuation)

    def close(self) -> None:
        """Stop all bars."""
        self.run_ends()
        self._stop_bar()

    def _stop_bar(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def print_reading(console: Console, reading: "Reading") -> None:
    """The text with its entities and the numbers of its clusters below the words, the clusters, and the answers."""
    from spanlab.samples import Mention
    from spanlab.samples.terminal import cluster_colour, draw_mentions

    numbers = {
        (span.start, span.end): number for number, cluster in enumerate(reading.clusters, start=1) for span in cluster
    }
    labels = {(span.start, span.end): span.label for span in reading.entities}
    mentions = [
        Mention(start=start, end=end, label=labels.get((start, end)), entity=numbers.get((start, end)))
        for start, end in sorted({*numbers, *labels})
    ]
    console.print()
    for line in draw_mentions(reading.text, 0, len(reading.text), mentions, console.width, Text(_MARGIN)):
        console.print(line, soft_wrap=True)
    _print_heading(console, "coreference: the same number, the same person or thing" if reading.clusters else "")
    for number, cluster in enumerate(reading.clusters, start=1):
        words = " · ".join(reading.text[span.start : span.end] for span in cluster)
        console.print(
            Text(f"{_MARGIN}{number:>2}  ", style=f"bold {cluster_colour(number)}") + Text(words, "not bold default")
        )
    _print_heading(console, "questions" if reading.answers else "")
    for answer in reading.answers:
        console.print(Text(f"{_MARGIN}{answer.question}  ") + Text(answer.text or "(no answer)", style="bold cyan"))
    console.print()


def print_continuation(console: Console, continuation: "Continuation") -> None:
    """Held-out losses before and after, and the filled spans."""
    from spanlab.quickstart.page import LOSS_HEADER, LOSS_MEANING, loss_rows

    _print_table(console, LOSS_HEADER, loss_rows(continuation))
    console.print(f"{_MARGIN}{LOSS_MEANING}", style="dim")
    for filled in continuation.filled:
        console.print()
        lines = Table.grid(padding=(0, 2))
        for name, words in (("text", filled.gold), ("before", filled.before), ("after", filled.after)):
            sentence = Text(f"{filled.left} ") + Text(f"[{words}]", style="bold cyan") + Text(f" {filled.right}")
            lines.add_row(Text(f"{_MARGIN}{name}", style="dim"), sentence)
        console.print(lines)
    console.print()


def print_results(out: Path, results: "QuickstartResults") -> None:
    """Print the table, entities in an unseen passage, and the commands to try next."""
    from spanlab.quickstart.page import HEADER, next_commands, remarks, rows

    console = Console(highlight=False)
    if results.rows:
        _print_table(console, HEADER, rows(results))
    for line in remarks(results):
        console.print(line, markup=False)
    _print_sample(console, results)
    _print_heading(console, "What to try next, with these models and with your own files")
    for purpose, command in next_commands(str(out), results):
        console.print(f"{_MARGIN}# {purpose}", style="dim", markup=False)
        console.print(f"{_MARGIN}{command}", markup=False, soft_wrap=True)


def _print_sample(console: Console, results: "QuickstartResults") -> None:
    """Print the first test passage with the entities that the best model predicts."""
    from spanlab.samples import Mention
    from spanlab.samples.terminal import draw_mentions

    if results.best is None:
        return
    _print_heading(console, f"Entities in unseen text, by the best model (from {results.best.title})")
    sample = results.samples[0]
    spans = sample.predicted[results.best.initial_weights]
    mentions = [Mention(start=span.start, end=span.end, label=span.label) for span in spans]
    for line in draw_mentions(sample.text, 0, len(sample.text), mentions, console.width, Text(_MARGIN)):
        console.print(line, soft_wrap=True)


def _print_heading(console: Console, title: str) -> None:
    if title:
        console.print(f"\n{title}", style="bold", markup=False)


def _print_table(console: Console, header: "Sequence[str]", rows: "Sequence[Sequence[str]]") -> None:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for index, title in enumerate(header):
        table.add_column(title, justify="left" if index == 0 else "right")
    for row in rows:
        table.add_row(*row)
    console.print(table)
