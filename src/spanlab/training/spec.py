"""What the loop is given: a model with its losses, the batches of every step, and what to do with the model.

Pre-training and every task hand over a `TrainingSpec`; the loop asks for no more. Batches are a pure function of the
step, so a run that was stopped goes on with the batches it would have seen, on however many processes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor, nn

from spanlab.objectives.objective import CriterionLoss, ObjectiveLoss
from spanlab.training.distributed import ProcessContext

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


class Trainable(Protocol):
    """What the loop asks of a model: an `nn.Module` from batches to losses."""

    def counts(self, batch: Any) -> Mapping[str, int]:  # noqa: ANN401 (what the data give)
        """The terms of each loss in a batch, to be added up over everything that makes one step."""

    def __call__(self, tensors: Any, counts: Mapping[str, int] | None = None) -> CriterionLoss:  # noqa: ANN401
        """The loss of a batch as a part of a step with `counts` terms; alone, its own counts."""

    def metrics(self, parts: Mapping[str, ObjectiveLoss]) -> dict[str, float]:
        """`loss.mlm`, `accuracy.mlm`, … of losses that were added up."""


@runtime_checkable
class Carrier(Protocol):
    """A model that hands tensors from one step to the next (a memory): they are part of every checkpoint."""

    def recurrent_state(self) -> Mapping[str, Tensor]:
        """The tensors of this process, by names that no other process has."""

    def load_recurrent_state(self, state: Mapping[str, Tensor]) -> None:
        """Take up what `recurrent_state` gave in all processes, which may have been more or fewer."""


@dataclass(frozen=True, kw_only=True)
class TrainingSpec(Generic[Batch]):
    """One run's work."""

    criterion: nn.Module
    """A model with its losses: a `Trainable`, and perhaps a `Carrier`."""
    data: StepData[Batch]
    export: Callable[[nn.Module, Path], None]
    """Writes a model (the criterion, or a whole copy of a sharded one) into a new folder; called on one process."""
    evaluate: Callable[[ProcessContext], dict[str, float]] | None = None
    """Scores of the model as it is now on held-out data; called on all processes, which share the samples."""
    primary: str = "loss"
    """The score by which the best model is kept."""
    higher_is_better: bool = False
    shard_layers: type[nn.Module] | None = None
    """The modules that are sharded one by one when a model is spread over processes by shards."""
    idle_weights: bool = False
    """Whether a step may leave some weights without a gradient, such as the heads of tasks whose turn it is not."""
    flops_per_token: float | None = None
    """Multiplications and additions of a training step for one token, for the share of the machine's peak."""
