"""The head of `head=joint`: labels of all candidate spans, and relations of those that are entities.

Shapes: N tokens, D width, S candidate spans, L labels with "none" first, P pairs, R relations, H inner width.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from typing_extensions import override

from spanlab.encoder import EncoderConfig
from spanlab.encoder.layers import ACTIVATIONS, Dropout, init_weights
from spanlab.objectives.objective import ObjectiveLoss
from spanlab.tasks.head import Encoded, Head
from spanlab.tasks.head_graphs import HeadGraph, indices
from spanlab.tasks.heads import label_set_loss, on_host, one_label_loss
from spanlab.tasks.relation.decode import PredictedEntities, ScoredPairs
from spanlab.tasks.relation.host_pairs import (
    ENTITIES,
    RELATIONS,
    entity_pairs,
    predict_entities,
    scored_entity_pairs,
)
from spanlab.tasks.relation.pair_scorer import RARE, PairScorer, pair_graph, span_rows
from spanlab.tasks.sample import SampleBatch
from spanlab.tasks.spans.config import SpanConfig
from spanlab.tasks.spans.pruning import Conflict
from spanlab.tasks.spans.representation import SpanRepresentation, packed_spans
from spanlab.tasks.tensor_batch import TensorBatch


@dataclass(frozen=True, eq=False, kw_only=True)
class JointLogits:
    """Logits of a batch."""

    entities_SL: Tensor
    relations_PR: Tensor
    predicted: tuple[PredictedEntities, ...] = ()
    """In prediction: the entities of each sample, whose pairs were scored."""


class JointHead(Head):
    """A label, or none, for every candidate span, and relations of the entities."""

    def __init__(
        self,
        encoder: EncoderConfig,
        config: SpanConfig,
        *,
        labels: int,
        relations: int,
        inner_width: int,
        conflict: Conflict = "overlapping",
    ) -> None:
        """`labels`: entity labels, "none" included; `conflict`: predicted entities are not in this conflict."""
        super().__init__()
        self.spans = SpanRepresentation(encoder.width, config, dropout=encoder.dropout, init_std=encoder.init_std)
        self.inner = nn.Linear(self.spans.features, inner_width)
        self.classifier = nn.Linear(inner_width, labels)
        self.dropout = Dropout(encoder.dropout)
        self.pairs = PairScorer(encoder, self.spans, labels, relations, inner_width)
        self.conflict: Conflict = conflict
        for layer in (self.inner, self.classifier):
            init_weights(layer, encoder.init_std)
        nn.init.constant_(self.classifier.bias[:1], RARE)

    @override
    def count(self, batch: SampleBatch) -> int:
        """A term for each pair and for each candidate."""
        pairs = sum(len(sample.targets["relations"]) for sample in batch.samples)
        return pairs + sum(batch.feature_counts("first"))

    @override
    def graphs(self) -> dict[str, HeadGraph]:
        """The labels of spans; and, once the host has chosen entities, their relations."""
        labels = HeadGraph(compute=self._label, examples=indices("first", "last", "widths"))
        return {ENTITIES: labels, RELATIONS: pair_graph(self.pairs, self.spans)}

    def _label(self, encoded: Encoded) -> Tensor:
        """(S, L) logits of the candidates' labels."""
        inner_SH = ACTIVATIONS["gelu"](self.spans.project(encoded.hidden_ND, packed_spans(encoded.batch), self.inner))
        return self.classifier(self.dropout(inner_SH))  # type: ignore[no-any-return]

    @override
    def forward(self, encoded: Encoded) -> JointLogits:
        batch, hidden_ND = encoded.batch, encoded.hidden_ND
        spans, entities_SL = packed_spans(batch), self._label(encoded)
        if batch.targets:
            counts = [len(sample.targets["heads"]) for sample in batch.batch.samples]
            heads_P, tails_P = (span_rows(batch, batch.targets[name], counts) for name in ("heads", "tails"))
            relations_PR = self.pairs(hidden_ND, self.spans, spans, batch.targets["labels"], heads_P, tails_P)
            return JointLogits(entities_SL=entities_SL, relations_PR=relations_PR)
        predicted = predict_entities(on_host(entities_SL), batch.batch, self.conflict)
        relations_PR = self.pairs(hidden_ND, self.spans, spans, *_predicted_pairs(batch, predicted))
        return JointLogits(entities_SL=entities_SL, relations_PR=relations_PR, predicted=predicted)

    @override
    def loss(self, logits: JointLogits, batch: TensorBatch) -> ObjectiveLoss:
        """Binary cross-entropy of every relation of every pair, and the cross-entropy of the candidates."""
        pairs = label_set_loss(logits.relations_PR, batch.targets["relations"])
        entities = one_label_loss(logits.entities_SL, batch.targets["labels"])
        return ObjectiveLoss(
            total=pairs.total * logits.relations_PR.shape[1] + entities.total,
            count=pairs.count + entities.count,
            tallies={"correct": pairs.tallies["correct"] + entities.tallies["correct"]},
        )

    @override
    def split(self, logits: JointLogits, batch: TensorBatch) -> list[ScoredPairs]:
        """The pairs of each sample with their scores, and the predicted entities."""
        return scored_entity_pairs(on_host(logits.relations_PR), logits.predicted)


def _predicted_pairs(batch: TensorBatch, predicted: Sequence[PredictedEntities]) -> tuple[Tensor, Tensor, Tensor]:
    """(S,) the predicted label of each span; (P,) and (P,) the rows of all pairs' heads and tails among the spans."""
    device = batch.lengths_B.device
    pairs = [entity_pairs(entities) for entities in predicted]
    counts = [len(heads) for heads, _ in pairs]
    heads_P, tails_P = (
        span_rows(batch, torch.from_numpy(np.concatenate(ends)).to(device), counts) for ends in zip(*pairs, strict=True)
    )
    types_S = torch.zeros(sum(batch.batch.feature_counts("first")), dtype=torch.long, device=device)
    spans = torch.from_numpy(np.concatenate([entities.spans for entities in predicted])).to(device)
    labels = torch.from_numpy(np.concatenate([entities.labels for entities in predicted])).to(device)
    types_S[span_rows(batch, spans, [len(entities.spans) for entities in predicted])] = labels
    return types_S, heads_P, tails_P
