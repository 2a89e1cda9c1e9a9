"""The weighted sum of objectives on one encoder: L = Σ λ · (sum over the terms) / (number of terms in the whole step).

Terms are counted over all micro-batches and processes of a step, so neither accumulation nor data parallelism changes
the loss or its gradient; a mean of means would give tokens of small batches a larger weight. Where a wrapper averages
gradients over processes, as DDP does, the caller multiplies the loss by the number of processes.
"""

import math
from collections.abc import Iterable, Mapping
from typing import cast

import torch
from torch import nn

from spanlab.corruption.examples import ExampleBatch
from spanlab.encoder import Encoder
from spanlab.errors import ConfigError, did_you_mean
from spanlab.objectives.batch import TensorBatch
from spanlab.objectives.objective import CriterionLoss, Objective, ObjectiveLoss, encode


class Mixture(nn.Module):
    """An encoder and the objectives it is trained with; the encoder runs once for all of them."""

    def __init__(self, encoder: Encoder, objectives: Iterable[Objective], weights: Mapping[str, float]) -> None:
        """`weights`: λ by objective; objectives without a weight, or with 0, are left out."""
        super().__init__()
        by_name = {objective.name: objective for objective in objectives}
        self.weights = active_weights(weights, by_name)
        self.encoder = encoder
        self.objectives = nn.ModuleDict({name: cast(nn.Module, by_name[name]) for name in self.weights})

    @property
    def heads(self) -> dict[str, nn.Module]:
        """The heads by objective, for `save_model`."""
        return {name: objective.head for name, objective in self._items()}

    def counts(self, examples: ExampleBatch) -> dict[str, int]:
        """The number of terms of each objective in a batch."""
        return {name: objective.count(examples) for name, objective in self._items()}

    def require_targets(self, examples: ExampleBatch) -> None:
        """Reject data without targets for one of the objectives."""
        for _, objective in self._items():
            objective.require_targets(examples)

    def forward(self, batch: TensorBatch, counts: Mapping[str, int] | None = None) -> CriterionLoss:
        """The loss of a batch, normalised by the `counts` of the whole step; None: by its own counts."""
        encoded = encode(self.encoder, batch)
        return weigh({name: objective(encoded, batch) for name, objective in self._items()}, self.weights, counts)

    def metrics(self, parts: Mapping[str, ObjectiveLoss]) -> dict[str, float]:
        """`loss.mlm`, `accuracy.mlm`, … of summed losses."""
        return {
            f"{metric}.{name}": value
            for name, objective in self._items()
            for metric, value in objective.metrics(parts[name]).items()
        }

    def _items(self) -> list[tuple[str, Objective]]:
        return [(name, cast(Objective, objective)) for name, objective in self.objectives.items()]


def weigh(
    parts: Mapping[str, ObjectiveLoss], weights: Mapping[str, float], counts: Mapping[str, int] | None = None
) -> CriterionLoss:
    """The weighted sum of the parts, each divided by its count in the whole step; parts without terms add zero."""
    if counts is None:
        counts = {name: part.count for name, part in parts.items()}
    terms = [weights[name] / max(1, counts[name]) * part.total for name, part in parts.items()]
    return CriterionLoss(value=torch.stack(terms).sum(), parts=parts)


def active_weights(weights: Mapping[str, float], known: Iterable[str]) -> dict[str, float]:
    """The weights that are not zero, in the order of `known`; an unknown name or a negative weight is an error."""
    known = list(known)
    for name, weight in weights.items():
        if name not in known:
            cause = f"unknown objective '{name}'{did_you_mean(name, known)}"
            raise ConfigError(cause, fix=f"use one of {', '.join(known)}")
        if not math.isfinite(weight) or weight < 0:
            raise ConfigError(f"the weight of '{name}' is {weight}; it must be 0 or more")
    active = {name: float(weights[name]) for name in known if weights.get(name)}
    if not active:
        fix = "give at least one of them a weight, such as objectives.mlm=1"
        raise ConfigError("every objective has weight 0, so there is nothing to train", fix=fix)
    return active
