"""The interfaces `Objective` (one loss) and `Criterion` (a model with its losses), and the types they exchange.

An objective counts its terms before the forward pass, from the batch alone, and returns a sum, not a mean. The sum is
divided by the count over all micro-batches and processes of a step (`mixture.weigh`), so the loss does not depend on
how a step is split.

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
    """The outputs of an encoder that objectives use."""

    hidden_ND: Tensor
    pooled_BD: Tensor | None
    word_table_VE: Tensor


def encode(encoder: Encoder, batch: TensorBatch, input_ids_N: Tensor | None = None) -> Encoded:
    """Run the encoder on a batch; `input_ids_N` replaces the ids of the batch.

    An encoder without segments (RoBERTa has one, ModernBERT none) tells a pair apart by its separator alone.
    """
    output = encoder(
        batch.input_ids if input_ids_N is None else input_ids_N,
        token_type_ids=None if batch.pairs is None or encoder.config.segments < 2 else batch.pairs.segment_ids,
        lengths=batch.lengths,
    )
    return Encoded(hidden_ND=output.hidden, pooled_BD=output.pooled, word_table_VE=encoder.word_table)


@dataclass(frozen=True, kw_only=True)
class ObjectiveLoss:
    """The loss of one objective, on one batch or summed over several."""

    total: Tensor
    """() the sum over the terms; zero without terms."""
    count: int
    """The number of terms."""
    tallies: Mapping[str, Tensor]
    """() integer counts for the metrics, always including "correct"."""

    def __add__(self, other: "ObjectiveLoss") -> "ObjectiveLoss":
        return ObjectiveLoss(
            total=self.total + other.total,
            count=self.count + other.count,
            tallies={name: tally + other.tallies[name] for name, tally in self.tallies.items()},
        )

    def detached(self) -> "ObjectiveLoss":
        """The same loss without its autograd graph."""
        return ObjectiveLoss(total=self.total.detach(), count=self.count, tallies=self.tallies)

    def nothing(self) -> "ObjectiveLoss":
        """A loss with the same tallies and no terms."""
        tallies = {name: torch.zeros_like(tally) for name, tally in self.tallies.items()}
        return ObjectiveLoss(total=torch.zeros_like(self.total), count=0, tallies=tallies)

    def share(self, part: str, whole: str | None = None) -> float:
        """The tally `part` divided by the tally `whole`, or by the number of terms; 0 if that is 0."""
        denominator = self.count if whole is None else int(self.tallies[whole])
        return int(self.tallies[part]) / denominator if denominator else 0.0


class Objective(Protocol):
    """One loss on the outputs of an encoder: an `nn.Module` with its head."""

    name: str

    @property
    def head(self) -> nn.Module:
        """The module that is saved with the model."""

    def count(self, examples: ExampleBatch) -> int:
        """The number of terms in a batch, known before the forward pass."""

    def require_targets(self, examples: ExampleBatch) -> None:
        """Raise an InputError if such batches never have targets for this objective."""

    def __call__(self, encoded: Encoded, batch: TensorBatch) -> ObjectiveLoss:
        """The loss summed over the terms of a batch."""

    def metrics(self, loss: ObjectiveLoss) -> dict[str, float]:
        """`loss`, `accuracy`, … of summed losses; empty without terms."""


@dataclass(frozen=True, kw_only=True)
class CriterionLoss:
    """The loss of a training step: one number to differentiate, and its parts."""

    value: Tensor
    """() the weighted sum of normalised losses."""
    parts: Mapping[str, ObjectiveLoss]
    """By objective, before weighting and normalisation."""


class Criterion(Protocol):
    """A model with its objectives: an `nn.Module` from batches to losses, as the training loop runs it."""

    weights: dict[str, float]
    """λ by objective."""

    def counts(self, examples: ExampleBatch) -> dict[str, int]:
        """The number of terms of each objective in a batch."""

    def require_targets(self, examples: ExampleBatch) -> None:
        """Reject data without targets for one of the objectives; called with the first batch of a run."""

    def __call__(self, batch: TensorBatch, counts: Mapping[str, int] | None = None) -> CriterionLoss:
        """The loss of a batch, normalised by the `counts` of the whole step; None: by its own counts."""

    def metrics(self, parts: Mapping[str, ObjectiveLoss]) -> dict[str, float]:
        """`loss.mlm`, `accuracy.mlm`, … of summed losses."""


def loss_and_accuracy(loss: ObjectiveLoss) -> dict[str, float]:
    """The mean loss and the share of correct terms."""
    if loss.count == 0:
        return {}
    return {"loss": loss.total.item() / loss.count, "accuracy": loss.share("correct")}


def token_metrics(loss: ObjectiveLoss) -> dict[str, float]:
    """The mean loss, the share of correct tokens, and the perplexity."""
    metrics = loss_and_accuracy(loss)
    if metrics:
        metrics["perplexity"] = math.exp(metrics["loss"]) if metrics["loss"] < 700 else math.inf  # exp(710) overflows
    return metrics


def in_full_precision(x: Tensor) -> Tensor:
    """The tensor as float32 if it is bfloat16 or float16, else unchanged; losses are computed in this precision."""
    return x.float() if x.dtype in {torch.bfloat16, torch.float16} else x
