"""What a run tells of itself: one record a step or an evaluation, for consoles, files and trackers alike."""

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TextIO

from spanlab.errors import InputError

Split = Literal["train", "dev"]


@dataclass(frozen=True, kw_only=True)
class Record:
    """The findings of one training step (`train`), or of an evaluation after it (`dev`)."""

    step: int
    """Steps done, from 1."""
    epoch: float
    """Passes over the training samples done, with their fraction."""
    split: Split
    metrics: Mapping[str, float] = field(default_factory=dict)
    """`loss`, `loss.mlm` and the like; of a training step also `lr`, `grad_norm`, `tokens_per_second`, `peak_share` (of
    the machine's measured rate of matrix products, 0 to 1) and `memory_gb`."""
    notes: tuple[str, ...] = ()
    """What a person should know: a loss spike, a new best model, a checkpoint skipped."""

    def to_dict(self) -> dict[str, Any]:
        """One flat mapping, as `metrics.jsonl` holds it."""
        notes = {"notes": list(self.notes)} if self.notes else {}
        return {"step": self.step, "epoch": round(self.epoch, 6), "split": self.split, **self.metrics, **notes}


class MetricsFile:
    """Appends records to a file; what a killed run left half-written is dropped first."""

    def __init__(self, path: Path) -> None:
        self._path = Path(path)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file: TextIO | None = None
        if self._path.exists():
            self._keep(math.inf, math.inf)

    def log(self, record: Record) -> None:
        """Append one line."""
        if self._file is None:
            self._file = self._path.open("a", encoding="utf-8")
        self._file.write(json.dumps(_strict(record.to_dict()), ensure_ascii=False, allow_nan=False) + "\n")
        self._file.flush()

    def rewind(self, step: int, evaluated: int | None = None) -> None:
        """Drop steps after `step` and evaluations after `evaluated`, so that a run resumed there reads as one run."""
        self.close()
        if self._path.exists():
            self._keep(step, step if evaluated is None else evaluated)

    def close(self) -> None:
        """Close the file; a later record opens it again."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _keep(self, step: float, evaluated: float) -> None:
        """Rewrite the file if it has more than whole lines so far; it is the old one or the new one, whole."""
        lines = _whole_lines(self._path)
        kept = [line for line, entry in lines if entry["step"] <= (evaluated if entry.get("split") == "dev" else step)]
        content = b"".join(kept)
        if len(content) == self._path.stat().st_size:
            return
        unfinished = self._path.with_name(self._path.name + ".unfinished")
        with unfinished.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(self._path)


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The records of a metrics file; a last line that is still being written is left out."""
    return [entry for _, entry in _whole_lines(Path(path))]


def _whole_lines(path: Path) -> list[tuple[bytes, dict[str, Any]]]:
    try:
        lines = path.read_bytes().splitlines(keepends=True)
    except OSError as error:
        raise InputError(error.strerror or str(error), path=path) from None
    if lines and not lines[-1].endswith(b"\n"):
        lines.pop()
    return [(line, _read_line(path, number, line)) for number, line in enumerate(lines, start=1)]


def _read_line(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        entry = json.loads(line)
    except ValueError:
        entry = None
    if not isinstance(entry, dict) or not isinstance(entry.get("step"), int):
        raise InputError("not a record of a run", path=path, line=number, fix="remove the line")
    return entry


def _strict(entry: dict[str, Any]) -> dict[str, Any]:
    return {
        key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in entry.items()
    }
