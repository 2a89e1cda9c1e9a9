"""The two heads of entity recognition: a tag for every unit, or a label for every candidate span.

Both read hidden states only where something is predicted: at the first token of each unit, or at the spans.

Shapes: N tokens, D width, U labelled units, C tags, S candidate spans, L labels with "none" first, H inner width.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from typing_extensions import override

from spanlab.arrays import Integers
from spanlab.encoder import EncoderConfig
from spanlab.encoder.heads import TokenHead
from spanlab.encoder.layers import ACTIVATIONS, Dropout
from spanlab.encoder.model import init_weights
from spanlab.objectives.objective import ObjectiveLoss
from spanlab.tasks.base import Encoded, Head, StandardHead
from spanlab.tasks.losses import one_label_loss
from spanlab.tasks.sample import SampleBatch, TensorBatch
from spanlab.tasks.spans.labelled import TextSpan
from spanlab.tasks.spans.representation import SpanConfig, SpanRepresentation, Spans
from spanlab.tasks.spans.units import UnitKind, unit_spans


def tag_counts(
    texts: Sequence[str], spans: Sequence[Sequence[TextSpan]], labels: Sequence[str], kind: UnitKind
) -> tuple[int, ...]:
    """(C,) of every tag, in the order of `tagging.tag_names`."""
    place = {label: number for number, label in enumerate(labels)}
    counts = np.zeros(1 + 2 * len(labels), dtype=np.int64)
    for text, own in zip(texts, spans, strict=True):
        starts, ends = unit_spans(text, kind)
        counts[0] += len(starts)
        for span in own:
            width = int(_touched(starts, ends, span))
            counts[1 + 2 * place[span.label]] += 1
            counts[2 + 2 * place[span.label]] += max(0, width - 1)
            counts[0] -= width
    return tuple(counts.clip(min=0).tolist())


def candidate_counts(
    texts: Sequence[str], spans: Sequence[Sequence[TextSpan]], labels: Sequence[str], kind: UnitKind, max_width: int
) -> tuple[int, ...]:
    """(L,) of candidate spans without a label, then of every label."""
    place = {label: number for number, label in enumerate(labels)}
    counts = np.zeros(1 + len(labels), dtype=np.int64)
    for text, own in zip(texts, spans, strict=True):
        units = len(unit_spans(text, kind)[0])
        widest = min(units, max_width)
        counts[0] += widest * units - widest * (widest - 1) // 2 - len(own)
        for span in own:
            counts[1 + place[span.label]] += 1
    return tuple(counts.clip(min=0).tolist())


def _touched(starts: Integers, ends: Integers, span: TextSpan) -> np.int64:
    """How many units share a character with a span."""
    return np.searchsorted(starts, span.end) - np.searchsorted(ends, span.start, side="right")


def feature_counts(batch: SampleBatch, name: str) -> list[int]:
    """How many entries of a feature each sample has."""
    return [len(sample.features[name]) for sample in batch.samples]


def in_the_row(batch: TensorBatch, name: str) -> Tensor:
    """A feature that holds places in each sample's one sequence, as places in the packed row."""
    counts = torch.tensor(feature_counts(batch.batch, name), device=batch.lengths_B.device)
    return batch.features[name] + torch.repeat_interleave(batch.starts, counts)


class TagHead(Head):
    """A tag for every unit, from its first token."""

    weight_C: Tensor | None

    def __init__(
        self,
        encoder: EncoderConfig,
        tags: tuple[str, ...],
        *,
        smoothing: float = 0.0,
        weight_C: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.tokens = TokenHead(encoder, len(tags))
        self.tags, self.smoothing = tags, smoothing
        self.register_buffer("weight_C", weight_C, persistent=False)

    @property
    @override
    def standard(self) -> StandardHead:
        return StandardHead(kind="token", layer=self.tokens, labels=self.tags)

    @override
    def count(self, batch: SampleBatch) -> int:
        """The units that have a tag."""
        return sum(len(sample.targets["tags"]) for sample in batch.samples)

    @override
    def forward(self, encoded: Encoded) -> Tensor:
        """(U, C) logits."""
        rows_U = in_the_row(encoded.batch, "places")
        return self.tokens(encoded.hidden_ND.index_select(0, rows_U))  # type: ignore[no-any-return]

    @override
    def loss(self, logits: Tensor, batch: TensorBatch) -> ObjectiveLoss:
        """The cross-entropy summed over the units."""
        return one_label_loss(logits, batch.targets["tags"], weight_L=self.weight_C, smoothing=self.smoothing)

    @override
    def split(self, logits: Tensor, batch: TensorBatch) -> list[NDArray[np.float32]]:
        """The logits of each sample's units."""
        counts = feature_counts(batch.batch, "places")
        return [part.numpy() for part in torch.split(logits.float().cpu(), counts)]


@dataclass(frozen=True, eq=False, kw_only=True)
class SpanLabels:
    """What the span head says about the candidates of one sample."""

    labels: Integers
    """(S,) the best label of each; 0 is none."""
    scores: NDArray[np.float32]
    """(S,) its probability."""


class EntitySpanHead(Head):
    """A label, or none, for every candidate span."""

    weight_L: Tensor | None

    def __init__(
        self,
        encoder: EncoderConfig,
        labels: int,
        config: SpanConfig,
        *,
        inner_width: int,
        smoothing: float = 0.0,
        weight_L: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.spans = SpanRepresentation(encoder.width, config, dropout=encoder.dropout, init_std=encoder.init_std)
        self.inner = nn.Linear(self.spans.features, inner_width)
        self.dropout = Dropout(encoder.dropout)
        self.classifier = nn.Linear(inner_width, labels)
        self.smoothing = smoothing
        self.register_buffer("weight_L", weight_L, persistent=False)
        for layer in (self.inner, self.classifier):
            init_weights(layer, encoder.init_std)

    @override
    def count(self, batch: SampleBatch) -> int:
        return sum(feature_counts(batch, "first"))

    @override
    def forward(self, encoded: Encoded) -> Tensor:
        """(S, L) logits."""
        batch = encoded.batch
        spans = Spans(
            first_S=in_the_row(batch, "first"), last_S=in_the_row(batch, "last"), widths_S=batch.features["widths"]
        )
        inner_SH = ACTIVATIONS["gelu"](self.spans.project(encoded.hidden_ND, spans, self.inner))
        return self.classifier(self.dropout(inner_SH))  # type: ignore[no-any-return]

    @override
    def loss(self, logits: Tensor, batch: TensorBatch) -> ObjectiveLoss:
        """The cross-entropy summed over the candidates."""
        return one_label_loss(logits, batch.targets["labels"], weight_L=self.weight_L, smoothing=self.smoothing)

    @override
    def split(self, logits: Tensor, batch: TensorBatch) -> list[SpanLabels]:
        """The best label of each candidate and its probability: all that decoding needs of a long document."""
        best = torch.softmax(logits.float(), dim=-1).max(dim=-1)
        counts = feature_counts(batch.batch, "first")
        parts = zip(torch.split(best.indices.cpu(), counts), torch.split(best.values.cpu(), counts), strict=True)
        return [SpanLabels(labels=labels.numpy(), scores=scores.numpy()) for labels, scores in parts]
