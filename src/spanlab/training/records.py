"""What a run tells of itself: one record a step or an evaluation, for consoles, files and trackers alike."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

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
