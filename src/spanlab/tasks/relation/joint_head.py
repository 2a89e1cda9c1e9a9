"""The head of `head=joint`: labels of all candidate spans, and relations of those that are entities.

Shapes: N tokens, D width, S candidate spans, L labels with "none" first, P pairs, R relations, H inner width.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from typing_extensions import override

from spanlab.arrays import Integers
from spanlab.encoder import EncoderConfig
from spanlab.encoder.layers import ACTIVATIONS, Dropout, init_weights
from spanlab.objectives.objective import ObjectiveLoss
from spanlab.tasks.head import Encoded, Head
from spanlab.tasks.heads import label_set_loss, one_label_loss
from spanlab.tasks.relation.decode import PredictedEntities, ScoredPairs
from spanlab.tasks.relation.method import all_pairs
from spanlab.tasks.relation.pair_scorer import RARE, PairScorer, span_rows
from spanlab.tasks.sample import SampleBatch
from spanlab.tasks.spans.config import SpanConfig
from spanlab.tasks.spans.pruning import Conflict, without_conflicts
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
    def forward(self, encoded: Encoded) -> JointLogits:
        batch, hidden_ND = encoded.batch, encoded.hidden_ND
        spans = packed_spans(batch)
        inner_SH = ACTIVATIONS["gelu"](self.spans.project(hidden_ND, spans, self.inner))
        entities_SL = self.classifier(self.dropout(inner_SH))
        if batch.targets:
            counts = [len(sample.targets["heads"]) for sample in batch.batch.samples]
            heads_P, tails_P = (span_rows(batch, batch.targets[name], counts) for name in ("heads", "tails"))
            relations_PR = self.pairs(hidden_ND, self.spans, spans, batch.targets["labels"], heads_P, tails_P)
            return JointLogits(entities_SL=entities_SL, relations_PR=relations_PR)
        predicted = self._predict_entities(entities_SL, batch)
        relations_PR = self.pairs(hidden_ND, self.spans, spans, *_predicted_pairs(batch, predicted))
        return JointLogits(entities_SL=entities_SL, relations_PR=relations_PR, predicted=predicted)

    def _predict_entities(self, entities_SL: Tensor, batch: TensorBatch) -> tuple[PredictedEntities, ...]:
        """The labelled candidates of each sample, none in conflict with one of a higher score."""
        best = torch.softmax(entities_SL.float(), dim=-1).max(dim=-1)
        counts = batch.batch.feature_counts("first")
        parts = zip(torch.split(best.indices.cpu(), counts), torch.split(best.values.cpu(), counts), strict=True)
        predicted = []
        for sample, (label_S, score_S) in zip(batch.batch.samples, parts, strict=True):
            labels, scores = label_S.numpy(), score_S.numpy()
            labelled = np.flatnonzero(labels > 0)
            starts, ends = (sample.features[name].astype(np.int64)[labelled] for name in ("starts", "ends"))
            spans = labelled[without_conflicts(starts, ends - 1, scores[labelled], conflict=self.conflict)]
            predicted.append(PredictedEntities(spans=spans, labels=labels[spans], scores=scores[spans]))
        return tuple(predicted)

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
        pairs = [_entity_pairs(entities) for entities in logits.predicted]
        score_PR = torch.sigmoid(logits.relations_PR.float()).cpu()
        scores = torch.split(score_PR, [len(heads) for heads, _ in pairs])
        return [
            ScoredPairs(heads=heads, tails=tails, scores=part.numpy(), entities=entities)
            for (heads, tails), part, entities in zip(pairs, scores, logits.predicted, strict=True)
        ]


def _entity_pairs(entities: PredictedEntities) -> tuple[Integers, Integers]:
    """(P,) and (P,): heads and tails of all pairs of a sample's entities, by the index of their spans."""
    heads, tails = all_pairs(len(entities.spans))
    return entities.spans[heads], entities.spans[tails]


def _predicted_pairs(batch: TensorBatch, predicted: Sequence[PredictedEntities]) -> tuple[Tensor, Tensor, Tensor]:
    """(S,) the predicted label of each span; (P,) and (P,) the rows of all pairs' heads and tails among the spans."""
    device = batch.lengths_B.device
    pairs = [_entity_pairs(entities) for entities in predicted]
    counts = [len(heads) for heads, _ in pairs]
    heads_P, tails_P = (
        span_rows(batch, torch.from_numpy(np.concatenate(ends)).to(device), counts) for ends in zip(*pairs, strict=True)
    )
    types_S = torch.zeros(sum(batch.batch.feature_counts("first")), dtype=torch.long, device=device)
    spans = torch.from_numpy(np.concatenate([entities.spans for entities in predicted])).to(device)
    labels = torch.from_numpy(np.concatenate([entities.labels for entities in predicted])).to(device)
    types_S[span_rows(batch, spans, [len(entities.spans) for entities in predicted])] = labels
    return types_S, heads_P, tails_P
