"""The input of the training loop, for pre-training and fine-tuning: a model with its losses, batches, an export.

Batches are a pure function of the step, so a resumed run sees the batches it would have seen, on any number of
processes.
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
EVALUATIONS = 20
"""Evaluations of a run without `training.eval_every`, at most."""
EVALUATION_SHARE = 0.2
"""The share of a run's time that evaluations may take."""
_NEGLIGIBLE_TOKENS = 50_000
"""Evaluations that read fewer tokens than this in a whole run are not worth saving."""


class StepData(Protocol[Batch]):
    """The batches of a run, by step, on the host."""

    steps_per_epoch: float
    """Steps in one pass over the training samples."""

    def step(self, step: int, *, rank: int, world_size: int) -> Sequence[Batch]:
        """The micro-batches of step `step` (from 0) for process `rank` of `world_size`.

        All processes together see the same samples whatever `world_size` is. Every process gets the same number of
        micro-batches, each with at least one sample, though perhaps without targets.
        """

    def epoch(self, step: int) -> float:
        """Passes over the samples done before step `step`."""

    def tokens(self, batch: Batch) -> int:
        """Tokens of text in a batch, for the throughput in tokens per second."""

    def to_device(self, batch: Batch, device: torch.device) -> Any:  # noqa: ANN401 (what the criterion takes)
        """The input of the model, on the device."""

    def describe(self, batch: Batch) -> Mapping[str, Any]:
        """Arrays and lists that identify the batch, for the file that is written when a loss is not finite."""


class Trainable(Protocol):
    """The interface of a model in the loop: an `nn.Module` from batches to losses."""

    def counts(self, batch: Any) -> Mapping[str, int]:  # noqa: ANN401 (a batch of the data)
        """The number of terms of each loss in a batch, summed over all micro-batches of a step."""

    def __call__(self, tensors: Any, counts: Mapping[str, int] | None = None) -> CriterionLoss:  # noqa: ANN401
        """The loss of a batch, normalised by the `counts` of the whole step; None: by the batch's own counts."""

    def metrics(self, parts: Mapping[str, ObjectiveLoss]) -> dict[str, float]:
        """`loss.mlm`, `accuracy.mlm`, … of summed losses."""


@runtime_checkable
class RecurrentModel(Protocol):
    """A model that carries state from step to step; the state is part of every checkpoint."""

    def recurrent_state(self) -> Mapping[str, Tensor]:
        """The tensors of this process, by names that are unique over all processes."""

    def load_recurrent_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore the `recurrent_state` of all processes, whose number may have changed."""


@dataclass(frozen=True, kw_only=True)
class TrainingSpec(Generic[Batch]):
    """The model and batches of a run, and how the model is evaluated and exported."""

    criterion: nn.Module
    """A model with its losses: a `Trainable`, optionally a `RecurrentModel`."""
    data: StepData[Batch]
    export: Callable[[nn.Module, Path], None]
    """Writes the criterion (with FSDP2 an unsharded copy of it) into a new folder; called on the main process."""
    evaluate: Callable[[ProcessContext], dict[str, float]] | None = None
    """Scores of the current model on held-out data; called on all processes, which share the samples."""
    primary: str = "loss"
    """The score by which the best model is selected."""
    higher_is_better: bool = False
    shard_layers: type[nn.Module] | None = None
    """The class of modules that FSDP2 shards one by one."""
    find_unused_parameters: bool = False
    """Whether a step may leave some parameters without a gradient, such as the heads of tasks not in the batch."""
    flops_per_token: float | None = None
    """FLOPs of a training step for one token, for the share of the machine's peak."""
    evaluation_cost: float = 0.0
    """The cost of an evaluation in training steps; 0 if it is negligible."""


def evaluation_cost(held_out_tokens: int, step_tokens: float, passes: float = 3.0) -> float:
    """The cost of an evaluation in training steps, by the tokens that both read; 0 if it is a matter of seconds.

    Counted, not timed: the steps at which a run is evaluated must not depend on the machine.

    Args:
        held_out_tokens: read by one evaluation.
        step_tokens: the mean of a training step.
        passes: the cost of a training step in forward passes.
    """
    if EVALUATIONS * held_out_tokens <= _NEGLIGIBLE_TOKENS:
        return 0.0
    return held_out_tokens / (passes * step_tokens)


def evaluation_interval(steps: int, cost: float) -> int:
    """Steps between evaluations of `cost` steps each: twenty in a run, fewer if they took over a fifth of its time."""
    affordable = EVALUATIONS if not cost else int(steps * EVALUATION_SHARE / (1 - EVALUATION_SHARE) / cost)
    if affordable >= EVALUATIONS:
        return max(1, steps // EVALUATIONS)
    return -(-steps // max(1, affordable))
