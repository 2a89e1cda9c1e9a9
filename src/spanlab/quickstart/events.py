"""What a quickstart tells while it works, for whoever shows it: the library itself prints nothing."""

from typing import Any, Protocol

from spanlab.training.loop import Training
from spanlab.training.records import Record


class QuickstartEvents(Protocol):
    """Is told everything as it happens."""

    def part(self, number: int, of: int, title: str) -> None:
        """One of the large parts begins."""

    def say(self, line: str) -> None:
        """Something a person wants to know."""

    def progress(self, words: str, done: int, total: int | None) -> None:
        """How far a step without training has come, in bytes."""

    def run_begins(self, training: Training[Any], notes: tuple[str, ...]) -> None:
        """A training run begins, or goes on."""

    def record(self, record: Record) -> None:
        """A training step, or an evaluation, is done."""

    def run_ends(self) -> None:
        """The run is done, or was interrupted."""


class NoEvents:
    """Nobody looks."""

    def part(self, number: int, of: int, title: str) -> None:
        """Nothing is shown."""

    def say(self, line: str) -> None:
        """Nothing is shown."""

    def progress(self, words: str, done: int, total: int | None) -> None:
        """Nothing is shown."""

    def run_begins(self, training: Training[Any], notes: tuple[str, ...]) -> None:
        """Nothing is shown."""

    def record(self, record: Record) -> None:
        """Nothing is shown."""

    def run_ends(self) -> None:
        """Nothing is shown."""
