"""The head of `head=span`: logits of the labels of each candidate span.

Shapes: N tokens, D width, S candidate spans, L labels with "none" first, H inner width.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from typing_extensions import override

from spanlab.encoder import EncoderConfig
from spanlab.encoder.layers import ACTIVATIONS, Dropout, init_weights
from spanlab.objectives.objective import ObjectiveLoss
from spanlab.tasks.head import Encoded, Head
from spanlab.tasks.heads import balanced_weights, log_prior, on_host, one_label_loss
from spanlab.tasks.ner.span_classification import SpanLabels, best_labels
from spanlab.tasks.sample import SampleBatch
from spanlab.tasks.spans.config import SpanConfig
from spanlab.tasks.spans.representation import SpanRepresentation, packed_spans
from spanlab.tasks.tensor_batch import TensorBatch


class EntitySpanHead(Head):
    """A label, or none, for every candidate span."""

    features = ("first", "last", "widths")
    weight_L: Tensor | None

    def __init__(
        self,
        encoder: EncoderConfig,
        labels: int,
        config: SpanConfig,
        *,
        inner_width: int,
        smoothing: float = 0.0,
        counts: Sequence[int] = (),
        balanced: bool = False,
    ) -> None:
        """`counts`: candidates of each label in the training data, for the prior or, if `balanced`, the weights."""
        super().__init__()
        self.spans = SpanRepresentation(encoder.width, config, dropout=encoder.dropout, init_std=encoder.init_std)
        self.inner = nn.Linear(self.spans.features, inner_width)
        self.dropout = Dropout(encoder.dropout)
        self.classifier = nn.Linear(inner_width, labels)
        self.smoothing = smoothing
        self.register_buffer("weight_L", balanced_weights(counts) if balanced else None, persistent=False)
        for layer in (self.inner, self.classifier):
            init_weights(layer, encoder.init_std)
        if counts and not balanced:  # balanced labels are equally frequent
            with torch.no_grad():
                self.classifier.bias.copy_(log_prior(counts))

    @override
    def count(self, batch: SampleBatch) -> int:
        return sum(batch.feature_counts("first"))

    @override
    def forward(self, encoded: Encoded) -> Tensor:
        """(S, L) logits."""
        spans = packed_spans(encoded.batch)
        inner_SH = ACTIVATIONS["gelu"](self.spans.project(encoded.hidden_ND, spans, self.inner))
        return self.classifier(self.dropout(inner_SH))  # type: ignore[no-any-return]

    @override
    def loss(self, logits: Tensor, batch: TensorBatch) -> ObjectiveLoss:
        return one_label_loss(logits, batch.targets["labels"], weight_L=self.weight_L, smoothing=self.smoothing)

    @override
    def split(self, logits: Tensor, batch: TensorBatch) -> list[SpanLabels]:
        return best_labels(on_host(logits), batch.batch)
