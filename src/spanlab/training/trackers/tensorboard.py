"""TensorBoard: event files in `tensorboard/` of the run folder."""

from typing import TYPE_CHECKING

import yaml

from spanlab.training.records import Record
from spanlab.training.trackers.tracker import TrackedRun, numbers

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter


class TensorBoard:
    """Writes scalars with torch's own writer; a resumed run writes one more file into the same folder."""

    def __init__(self, run: TrackedRun) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._folder = run.folder / "tensorboard"
        self._config = yaml.safe_dump(dict(run.config), sort_keys=False)
        self._resumed = self._folder.is_dir()
        self._new_writer = SummaryWriter
        self._writer: SummaryWriter | None = None

    def log(self, record: Record) -> None:
        """One scalar a number."""
        if self._writer is None:
            self._writer = self._open(record.step)
        for name, value in numbers(record).items():
            self._writer.add_scalar(name, value, record.step)

    def close(self) -> None:
        """Write what is left."""
        if self._writer is not None:
            self._writer.close()

    def _open(self, first_step: int) -> "SummaryWriter":
        # What a killed run wrote beyond the checkpoint it is resumed from is purged from the curves.
        writer = self._new_writer(str(self._folder), purge_step=first_step if self._resumed else None)
        writer.add_text("config", f"```yaml\n{self._config}```")
        return writer
