"""Records of a run, one for each step or evaluation, and `metrics.jsonl`, the file that keeps them."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TextIO

from spanlab.atomic_io import write_atomically
from spanlab.errors import InputError
from spanlab.strict_parsing import parse_json

Split = Literal["train", "dev"]


@dataclass(frozen=True, kw_only=True)
class Record:
    """The metrics of one training step (`train`), or of an evaluation after it (`dev`)."""

    step: int
    """Steps done, from 1."""
    epoch: float
    """Passes over the training samples done, with the fraction of the current one."""
    split: Split
    metrics: Mapping[str, float] = field(default_factory=dict)
    """`loss`, `loss.mlm`, …; of a training step also `lr`, `grad_norm`, `tokens_per_second`, `peak_share` (of the
    machine's measured matrix product rate, 0 to 1) and `memory_gb`."""
    notes: tuple[str, ...] = ()
    """Notes for the user: a loss spike, a new best model."""

    def to_dict(self) -> dict[str, Any]:
        """A flat mapping, as in `metrics.jsonl`."""
        notes = {"notes": list(self.notes)} if self.notes else {}
        return {"step": self.step, "epoch": round(self.epoch, 6), "split": self.split, **self.metrics, **notes}


class MetricsFile:
    """Appends records to a file; first drops an incomplete line that a killed run left."""

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
        """Drop steps after `step` and evaluations after `evaluated`, which a run resumed there will repeat."""
        self.close()
        if self._path.exists():
            self._keep(step, step if evaluated is None else evaluated)

    def close(self) -> None:
        """Close the file; a later `log` opens it again."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _keep(self, step: float, evaluated: float) -> None:
        """Rewrite the file atomically if it has lines beyond these steps, or an incomplete last line."""
        content = b"".join(
            line
            for line, entry in _complete_lines(self._path)
            if entry["step"] <= (evaluated if entry["split"] == "dev" else step)
        )
        if len(content) < self._path.stat().st_size:
            write_atomically(self._path, content)


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The records of a metrics file; an incomplete last line, which is being written, is left out."""
    return [entry for _, entry in _complete_lines(Path(path))]


def _complete_lines(path: Path) -> list[tuple[bytes, dict[str, Any]]]:
    try:
        lines = path.read_bytes().splitlines(keepends=True)
    except OSError as error:
        raise InputError(error.strerror or str(error), path=path) from None
    if lines and not lines[-1].endswith(b"\n"):
        lines.pop()
    return [(line, _parse(path, line, line_number)) for line_number, line in enumerate(lines, start=1)]


def _parse(path: Path, line: bytes, line_number: int) -> dict[str, Any]:
    try:
        entry = parse_json(line, non_finite="null")
        if isinstance(entry["step"], int) and isinstance(entry["split"], str):
            assert isinstance(entry, dict)
            return entry
    except (ValueError, TypeError, KeyError):
        pass
    raise InputError("not a record of a run", path=path, line=line_number, fix="remove the line")


def _strict(entry: dict[str, Any]) -> dict[str, Any]:
    """Replace NaN and infinity, which JSON does not have, by null."""
    return {
        key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in entry.items()
    }
