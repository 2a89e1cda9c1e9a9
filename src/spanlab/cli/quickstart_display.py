"""How a quickstart is shown to the person who waits for it: on stderr, a line a step and a bar a run."""

from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

from spanlab.cli.progress import ShownRun

if TYPE_CHECKING:
    from spanlab.training.loop import Training
    from spanlab.training.records import Record


class QuickstartDisplay:
    """A watcher of a quickstart, for terminals and log files."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._run: ShownRun | None = None
        self._bar: Progress | None = None

    def part(self, number: int, of: int, title: str) -> None:
        """A heading."""
        self._stop_bar()
        self._console.print(f"[{number}/{of}] {title}", style="bold", markup=False)

    def say(self, line: str) -> None:
        """A line that stays."""
        self._stop_bar()
        self._console.print(f"  {line}", markup=False, soft_wrap=True)

    def progress(self, words: str, done: int, total: int | None) -> None:
        """A bar, on a terminal alone, until the next line."""
        if self._bar is None:
            columns = (TextColumn("  {task.description}"), BarColumn(bar_width=12), DownloadColumn())
            terminal = self._console.is_terminal
            self._bar = Progress(*columns, console=self._console, transient=True, disable=not terminal)
            self._bar.add_task(words)
            self._bar.start()
        self._bar.update(self._bar.task_ids[0], completed=done, total=total)

    def run_begins(self, training: "Training[Any]", notes: tuple[str, ...]) -> None:
        """A bar for its steps."""
        self._stop_bar()
        self._run = ShownRun()
        self._run.start(training, notes)

    def record(self, record: "Record") -> None:
        """The bar moves."""
        assert self._run is not None, "a run tells of itself once it has begun"
        self._run.log(record)

    def run_ends(self) -> None:
        """No more bar."""
        if self._run is not None:
            self._run.close()
            self._run = None

    def close(self) -> None:
        """Nothing more is shown."""
        self.run_ends()
        self._stop_bar()

    def _stop_bar(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
