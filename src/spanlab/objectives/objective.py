"""What objectives have in common: what they see of a model, what they return, and what a training loop sees of them.

An objective counts its terms before the forward pass, from the batch alone, and returns a sum, never a mean.
The training loop adds the counts of all micro-batches and processes of a step and divides by them (`mixture.weigh`),
so that accumulating gradients and spreading a batch over processes change nothing.

Shapes: B sequences, N tokens, D width, V vocabulary, E width of the word table.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from spanlab.corruption.examples import ExampleBatch
from spanlab.encoder import Encoder
from spanlab.objectives.batch import TensorBatch


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """What one forward pass of an encoder leaves for the objectives; any encoder can provide it."""

    hidden_ND: Tensor
    pooled_BD: Tensor | None
    word_table_VE: Tensor


def encode(encoder: Encoder, batch: TensorBatch, input_ids_N: Tensor | None = None) -> Encoded:
    """Run the encoder on a batch, or on other ids in its place."""
    output = encoder(
        batch.input_ids if input_ids_N is None else input_ids_N,
        token_type_ids=None if batch.pairs is None else batch.pairs.segment_ids,
        lengths=batch.lengths,
    )
    return Encoded(hidden_ND=output.hidden, pooled_BD=output.pooled, word_table_VE=encoder.word_table)


@dataclass(frozen=True, kw_only=True)
class ObjectiveLoss:
    """One objective on one batch, or on several once added up."""

    total: Tensor
    """() the sum over the terms; zero where there is none."""
    count: int
    """How many terms were summed."""
    tallies: Mapping[str, Tensor]
    """() whole numbers that metrics are made of; "correct" is always among them."""

    def __add__(self, other: "ObjectiveLoss") -> "ObjectiveLoss":
        return ObjectiveLoss(
            total=self.total + other.total,
            count=self.count + other.count,
            tallies={name: tally + other.tallies[name] for name, tally in self.tallies.items()},
        )

    def detached(self) -> "ObjectiveLoss":
        """The same numbers without the graph behind them, to be kept and added up."""
        return ObjectiveLoss(total=self.total.detach(), count=self.count, tallies=self.tallies)

    def nothing(self) -> "ObjectiveLoss":
        """A loss of the same kind without a term."""
        tallies = {name: torch.zeros_like(tally) for name, tally in self.tallies.items()}
        return ObjectiveLoss(total=torch.zeros_like(self.total), count=0, tallies=tallies)

    def share(self, part: str, whole: str | None = None) -> float:
        """A tally as a share of another, or of all terms; 0 where there is nothing to share."""
        denominator = self.count if whole is None else int(self.tallies[whole])
        return int(self.tallies[part]) / denominator if denominator else 0.0


class Objective(Protocol):
    """One loss on what an encoder returns; an `nn.Module` that holds its head."""

    name: str

    @property
    def head(self) -> nn.Module:
        """What is saved with the model."""

    def count(self, examples: ExampleBatch) -> int:
        """How many terms this batch has, known before the forward pass."""

    def require_targets(self, examples: ExampleBatch) -> None:
        """Refuse a batch of a kind that never has targets for this objective, with the reason."""

    def __call__(self, encoded: Encoded, batch: TensorBatch) -> ObjectiveLoss:
        """The sum over the batch's terms."""

    def metrics(self, loss: ObjectiveLoss) -> dict[str, float]:
        """What to report of added-up losses; empty if there was no term."""


@dataclass(frozen=True, kw_only=True)
class CriterionLoss:
    """What a training step needs: one number to differentiate, and its parts."""

    value: Tensor
    """() the weighted sum of normalised losses."""
    parts: Mapping[str, ObjectiveLoss]
    """By objective, as they were before weighting and normalising."""


class Criterion(Protocol):
    """A model with its objectives, as a training loop sees it: an `nn.Module` from batches to losses."""

    weights: dict[str, float]
    """λ by objective."""

    def counts(self, examples: ExampleBatch) -> dict[str, int]:
        """The terms of each objective in this batch, to be added up over everything that makes one step."""

    def require_targets(self, examples: ExampleBatch) -> None:
        """Refuse data that have no targets for one of the objectives; called once, with a run's first batch."""

    def __call__(self, batch: TensorBatch, counts: Mapping[str, int] | None = None) -> CriterionLoss:
        """The loss of this batch as a part of a step with `counts` terms; alone, its own counts."""

    def metrics(self, parts: Mapping[str, ObjectiveLoss]) -> dict[str, float]:
        """`loss.mlm`, `accuracy.mlm`, … of losses that were added up."""


def loss_and_accuracy(loss: ObjectiveLoss) -> dict[str, float]:
    """The mean loss and the share of correct terms."""
    if loss.count == 0:
        return {}
    return {"loss": loss.total.item() / loss.count, "accuracy": loss.share("correct")}


def token_metrics(loss: ObjectiveLoss) -> dict[str, float]:
    """The mean loss, the share of correct tokens, and the perplexity."""
    metrics = loss_and_accuracy(loss)
    # exp overflows to an error in Python; a perplexity that large is infinite for every purpose.
    return (
        {**metrics, "perplexity": math.exp(metrics["loss"]) if metrics["loss"] < 700 else math.inf} if metrics else {}
    )


def in_full_precision(x: Tensor) -> Tensor:
    """Half precision made single; single and double as they are. Losses are computed in this."""
    return x.float() if x.dtype in {torch.bfloat16, torch.float16} else x
