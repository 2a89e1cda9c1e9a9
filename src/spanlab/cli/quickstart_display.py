"""Display of a quickstart on stderr: a line for each step, a bar for each run."""

from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn
from typing_extensions import override

from spanlab.cli.progress import RunDisplay
from spanlab.quickstart.events import QuickstartEvents

if TYPE_CHECKING:
    from spanlab.training.loop import Training
    from spanlab.training.records import Record


class QuickstartDisplay(QuickstartEvents):
    """Shows the events of a quickstart, on terminals and in log files."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._run: RunDisplay | None = None
        self._bar: Progress | None = None

    @override
    def part(self, number: int, total: int, title: str) -> None:
        self._stop_bar()
        self._console.print(f"[{number}/{total}] {title}", style="bold", markup=False)

    @override
    def say(self, line: str) -> None:
        self._stop_bar()
        self._console.print(f"  {line}", markup=False, soft_wrap=True)

    @override
    def progress(self, description: str, done: int, total: int | None) -> None:
        if self._bar is None:
            columns = (TextColumn("  {task.description}"), BarColumn(bar_width=12), DownloadColumn())
            terminal = self._console.is_terminal
            self._bar = Progress(*columns, console=self._console, transient=True, disable=not terminal)
            self._bar.add_task(description)
            self._bar.start()
        self._bar.update(self._bar.task_ids[0], completed=done, total=total)

    @override
    def run_begins(self, training: "Training[Any]", notes: tuple[str, ...]) -> None:
        self._stop_bar()
        self._run = RunDisplay()
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

    def close(self) -> None:
        """Stop all bars."""
        self.run_ends()
        self._stop_bar()

    def _stop_bar(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
