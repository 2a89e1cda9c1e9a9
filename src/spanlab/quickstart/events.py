"""Events of a quickstart, for a display: the library itself prints nothing."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spanlab.training.loop import Training
    from spanlab.training.records import Record


class QuickstartEvents:
    """Receives the events of a quickstart; this base class ignores them."""

    def part(self, number: int, total: int, title: str) -> None:
        """Part `number`, from 1, of `total` starts."""

    def say(self, line: str) -> None:
        """A line for the user."""

    def progress(self, description: str, done: int, total: int | None) -> None:
        """Progress of a step without training, in bytes."""

    def run_begins(self, training: "Training[Any]", notes: tuple[str, ...]) -> None:
        """A training run starts or is resumed."""

    def record(self, record: "Record") -> None:
        """A training step or an evaluation is done."""

    def run_ends(self) -> None:
        """The run is finished or was interrupted."""
