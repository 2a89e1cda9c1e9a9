"""The records of a run as series of numbers over its steps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Split = Literal["train", "dev"]
MACHINE = ("lr", "grad_norm", "tokens_per_second", "peak_share", "memory_gb")
"""What a record tells of the machine and the optimiser; everything else it tells is about the model."""
_NO_METRIC = ("step", "epoch", "split", "notes")


@dataclass(frozen=True)
class Series:
    """One number over the steps; only finite ones."""

    steps: Numbers
    values: Numbers

    def __len__(self) -> int:
        return len(self.steps)


@dataclass(frozen=True)
class Note:
    """What a person should know, and when it was so."""

    step: int
    text: str


class History:
    """What a run has told so far."""

    def __init__(self, records: Sequence[Mapping[str, Any]]) -> None:
        # A run that went back to a checkpoint does some steps twice: what counts is the later one.
        latest = {(record["split"], record["step"]): record for record in records}
        self._records = sorted(latest.values(), key=lambda record: int(record["step"]))
        self._series: dict[tuple[Split, str], Series] = {}
        self.notes = tuple(Note(int(r["step"]), str(text)) for r in records for text in r.get("notes") or ())

    def names(self, split: Split) -> list[str]:
        """The metrics of a split, in the order in which they were first told."""
        told = (name for record in self._records if record["split"] == split for name in record)
        return [name for name in dict.fromkeys(told) if name not in _NO_METRIC]

    def series(self, split: Split, name: str) -> Series:
        """A metric over the steps; empty if it was never told."""
        if (split, name) not in self._series:
            self._series[split, name] = self._find(split, name)
        return self._series[split, name]

    def _find(self, split: Split, name: str) -> Series:
        told = [(r["step"], r[name]) for r in self._records if r["split"] == split and _is_number(r.get(name))]
        steps, values = np.array(told, np.float64).reshape(-1, 2).T
        finite = np.isfinite(values)
        return Series(steps[finite], values[finite])

    @property
    def last_step(self) -> int:
        """Steps done."""
        return int(self._records[-1]["step"]) if self._records else 0


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
