"""What the loop is given: a model with its losses, the batches of every step, and what to do with the model.

Pre-training and every task hand over a `Work`; the loop asks for no more. Batches are a pure function of the step, so a
run that was stopped goes on with the batches it would have seen, on however many processes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import torch
from torch import nn

from spanlab.training.place import Place

Batch = TypeVar("Batch")


class StepData(Protocol[Batch]):
    """The batches of a run, by step, as they are on the host."""

    steps_per_epoch: float
    """How many steps go through the training samples once."""

    def step(self, number: int, *, part: int, parts: int) -> Sequence[Batch]:
        """The micro-batches of step `number` (from 0) that process `part` of `parts` works on.

        All parts together are the same samples whatever `parts` is. Every part has the same number of micro-batches;
        one may be empty of targets, but not of samples.
        """

    def epoch(self, number: int) -> float:
        """Passes over the samples done before step `number`."""

    def tokens(self, batch: Batch) -> int:
        """Tokens of text in a batch, for the count of tokens a second."""

    def to_device(self, batch: Batch, device: torch.device) -> Any:  # noqa: ANN401 (what the criterion takes)
        """What the model takes, on the device."""

    def describe(self, batch: Batch) -> Mapping[str, Any]:
        """Arrays and lists that tell what the batch was, for the file that is left when a step goes wrong."""


@dataclass(frozen=True, kw_only=True)
class Work(Generic[Batch]):
    """One run's work."""

    criterion: nn.Module
    """A model with its losses, shaped as `objectives.Criterion`: counts(batch), forward(tensors, counts), metrics(parts)."""
    data: StepData[Batch]
    export: Callable[[Path], None]
    """Writes the model as it is now into a folder, which is new; called on one process."""
    evaluate: Callable[[Place], dict[str, float]] | None = None
    """Scores of the model as it is now on held-out data; called on all processes, which share the samples."""
    primary: str = "loss"
    """The score by which the best model is kept."""
    higher_is_better: bool = False
    flops_per_token: float | None = None
    """Multiplications and additions of a training step for one token, for the share of the machine's peak."""
