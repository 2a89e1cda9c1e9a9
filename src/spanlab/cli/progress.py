"""A training run on the terminal: a bar with the loss on stderr, and a line for every evaluation and every note."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spanlab.training.records import Record


class StepProgress:
    """Told of every record; without a terminal only evaluations and notes are written."""

    def __init__(self, steps: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        console = Console(stderr=True)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._task = self._bar.add_task("training", total=steps)
        self._console = console

    def __enter__(self) -> "StepProgress":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def tell(self, record: "Record") -> None:
        """One step or one evaluation."""
        if record.split == "train":
            loss, speed = record.metrics["loss"], record.metrics["tokens_per_second"]
            self._bar.update(self._task, completed=record.step, description=f"loss {loss:.3f}, {speed:,.0f} tokens/s")
        else:
            scores = ", ".join(f"{name} {value:.2f}" for name, value in record.metrics.items())
            self._say(f"step {record.step}, epoch {record.epoch:.2f}: {scores}")
        for line in record.notes:
            self._say(f"step {record.step}: {line}")

    def _say(self, line: str) -> None:
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)
