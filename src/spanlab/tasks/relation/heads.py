"""Pairs of spans to relations: entities given, or found by the same head in the same pass.

A pair is scored from the vectors of its two spans, what lies between them, what the two entities are, and which comes
first. Each relation is decided by itself, so a pair may have several. Where entities are found, every candidate span
is labelled first; in training the pairs are those of the gold entities, in prediction those of the entities found.

Shapes: N tokens, D width, S spans, L entity labels with "none" first, P pairs, K spans that are in a pair, R relations,
H inner width.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from typing_extensions import override

from spanlab.arrays import Integers
from spanlab.encoder import EncoderConfig
from spanlab.encoder.layers import ACTIVATIONS, Dropout
from spanlab.encoder.model import init_weights
from spanlab.objectives.objective import ObjectiveLoss
from spanlab.tasks.base import Encoded, Head
from spanlab.tasks.losses import label_set_loss, one_label_loss
from spanlab.tasks.ner.heads import feature_counts, in_the_row
from spanlab.tasks.relation.span_pairs import all_pairs
from spanlab.tasks.sample import Sample, SampleBatch, TensorBatch
from spanlab.tasks.spans.pruning import Conflict, without_conflicts
from spanlab.tasks.spans.representation import SpanConfig, SpanRepresentation, Spans, pool

_RARE = 4.0
"""The logarithm of how many candidates there are, in the end, for each entity, about."""
_MOST_PAIRS = 100_000
"""Pairs that are scored at once in prediction, which bounds memory whatever a model takes for entities."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Pairs:
    """P pairs of a packed batch, by the rows of their spans."""

    heads_P: Tensor
    tails_P: Tensor
    types_S: Tensor
    """What each span is; 0 is unknown."""

    def part(self, first: int) -> "Pairs":
        """Some of the pairs."""
        here = slice(first, first + _MOST_PAIRS)
        return Pairs(heads_P=self.heads_P[here], tails_P=self.tails_P[here], types_S=self.types_S)


@dataclass(frozen=True, eq=False, kw_only=True)
class FoundEntities:
    """The entities of one sample."""

    spans: Integers
    """Their numbers among its spans."""
    labels: Integers
    scores: NDArray[np.float32]


@dataclass(frozen=True, eq=False, kw_only=True)
class RelationLogits:
    """What a head says about a batch."""

    relations_PR: Tensor
    entities_SL: Tensor | None = None
    found: tuple[FoundEntities, ...] = ()
    """In prediction, where entities are found: those of each sample, whose pairs were scored."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ScoredPairs:
    """What a head says about one sample."""

    heads: Integers
    """(P,) by their numbers among its spans."""
    tails: Integers
    scores: NDArray[np.float32]
    """(P, R) the probability of each relation."""
    found: FoundEntities | None = None


class PairScorer(nn.Module):
    """The relations of pairs of spans."""

    def __init__(
        self, encoder: EncoderConfig, spans: SpanRepresentation, labels: int, relations: int, inner: int
    ) -> None:
        """`labels` are those of entities, "none" included."""
        super().__init__()
        self.head, self.tail = nn.Linear(spans.features, inner), nn.Linear(spans.features, inner, bias=False)
        self.between = nn.Linear(encoder.width, inner, bias=False)
        self.head_types, self.tail_types = nn.Embedding(labels, inner), nn.Embedding(labels, inner)
        self.order = nn.Embedding(2, inner)
        self.dropout = Dropout(encoder.dropout)
        self.classifier = nn.Linear(inner, relations)
        for module in self.modules():
            init_weights(module, encoder.init_std)

    def forward(self, hidden_ND: Tensor, representation: SpanRepresentation, spans: Spans, pairs: Pairs) -> Tensor:
        """(P, R) logits."""
        used_K, place_2P = torch.unique(torch.cat([pairs.heads_P, pairs.tails_P]), return_inverse=True)
        head_P, tail_P = place_2P.chunk(2)
        used, types_K = spans.select(used_K), pairs.types_S[used_K]
        head_KH = representation.project(hidden_ND, used, self.head) + self.head_types(types_K)
        tail_KH = representation.project(hidden_ND, used, self.tail) + self.tail_types(types_K)
        first, second = used.select(head_P), used.select(tail_P)
        forward_P = first.first_S <= second.first_S
        between_PD = pool(hidden_ND, _between(first, second, forward_P), maximum=True)
        inner_PH = head_KH[head_P] + tail_KH[tail_P] + self.between(between_PD) + self.order(forward_P.long())
        return self.classifier(self.dropout(ACTIVATIONS["gelu"](inner_PH)))  # type: ignore[no-any-return]


def _between(head: Spans, tail: Spans, forward_P: Tensor) -> Spans:
    """From the end of the one span to the start of the other, both included, so that it is never empty."""
    end_P = torch.where(forward_P, head.last_S, tail.last_S)
    start_P = torch.where(forward_P, tail.first_S, head.first_S)
    first_P, last_P = torch.minimum(end_P, start_P), torch.maximum(end_P, start_P)
    return Spans(first_S=first_P, last_S=last_P, widths_S=last_P - first_P + 1)


class RelationSpanHead(Head):
    """Relations of given entities; with `finds`, the entities too."""

    def __init__(
        self,
        encoder: EncoderConfig,
        config: SpanConfig,
        *,
        labels: int,
        relations: int,
        inner_width: int,
        finds: bool,
        conflict: Conflict = "overlapping",
    ) -> None:
        """`labels` are those of entities, "none" included; `conflict` is what entities found may not do."""
        super().__init__()
        self.spans = SpanRepresentation(encoder.width, config, dropout=encoder.dropout, init_std=encoder.init_std)
        self.inner = nn.Linear(self.spans.features, inner_width) if finds else None
        self.classifier = nn.Linear(inner_width, labels) if finds else None
        self.dropout = Dropout(encoder.dropout)
        self.pairs = PairScorer(encoder, self.spans, labels, relations, inner_width)
        self.conflict: Conflict = conflict
        for layer in (self.inner, self.classifier):
            if layer is not None:
                init_weights(layer, encoder.init_std)
        # Nearly every candidate is nothing and nearly every pair unrelated: a head that begins with saying so need not
        # learn it first.
        nn.init.constant_(self.pairs.classifier.bias, -_RARE / 2)
        if self.classifier is not None:
            nn.init.constant_(self.classifier.bias[:1], _RARE)

    @override
    def count(self, batch: SampleBatch) -> int:
        """The decisions: a term for each pair, and for each candidate where entities are found."""
        pairs = sum(len(sample.targets["relations"]) for sample in batch.samples)
        return pairs if self.inner is None else pairs + sum(feature_counts(batch, "first"))

    @override
    def forward(self, encoded: Encoded) -> RelationLogits:
        """Logits of pairs, and of candidates where entities are found."""
        batch, hidden_ND = encoded.batch, encoded.hidden_ND
        spans = Spans(
            first_S=in_the_row(batch, "first"), last_S=in_the_row(batch, "last"), widths_S=batch.features["widths"]
        )
        if self.inner is None or self.classifier is None:
            pairs = _given_pairs(batch)
            return RelationLogits(relations_PR=self._score(hidden_ND, spans, pairs))
        inner_SH = ACTIVATIONS["gelu"](self.spans.project(hidden_ND, spans, self.inner))
        entities_SL = self.classifier(self.dropout(inner_SH))
        if batch.targets:
            pairs = _gold_pairs(batch)
            return RelationLogits(relations_PR=self._score(hidden_ND, spans, pairs), entities_SL=entities_SL)
        found = self._find(entities_SL, batch)
        relations_PR = self._score(hidden_ND, spans, _found_pairs(batch, found))
        return RelationLogits(relations_PR=relations_PR, entities_SL=entities_SL, found=found)

    def _score(self, hidden_ND: Tensor, spans: Spans, pairs: Pairs) -> Tensor:
        """(P, R) logits; in prediction, many pairs are scored in turn."""
        if torch.is_grad_enabled() or len(pairs.heads_P) <= _MOST_PAIRS:
            return self.pairs(hidden_ND, self.spans, spans, pairs)  # type: ignore[no-any-return]
        parts = range(0, len(pairs.heads_P), _MOST_PAIRS)
        return torch.cat([self.pairs(hidden_ND, self.spans, spans, pairs.part(first)) for first in parts])

    def _find(self, entities_SL: Tensor, batch: TensorBatch) -> tuple[FoundEntities, ...]:
        """The surest labelled candidates of each sample, none in conflict with a surer one."""
        best = torch.softmax(entities_SL.float(), dim=-1).max(dim=-1)
        counts = feature_counts(batch.batch, "first")
        parts = zip(torch.split(best.indices.cpu(), counts), torch.split(best.values.cpu(), counts), strict=True)
        found = []
        for sample, (labels, scores) in zip(batch.batch.samples, parts, strict=True):
            chosen = np.flatnonzero(labels.numpy() > 0)
            starts, ends = (sample.features[name].astype(np.int64)[chosen] for name in ("starts", "ends"))
            kept = without_conflicts(starts, ends - 1, scores.numpy()[chosen], conflict=self.conflict)
            spans = chosen[kept]
            found.append(FoundEntities(spans=spans, labels=labels.numpy()[spans], scores=scores.numpy()[spans]))
        return tuple(found)

    @override
    def loss(self, logits: RelationLogits, batch: TensorBatch) -> ObjectiveLoss:
        """Binary cross-entropy of every relation of every pair, and the cross-entropy of the candidates."""
        pairs = label_set_loss(logits.relations_PR, batch.targets["relations"])
        total, correct = pairs.total * logits.relations_PR.shape[1], pairs.tallies["correct"]
        if logits.entities_SL is None:
            return ObjectiveLoss(total=total, count=pairs.count, tallies={"correct": correct})
        entities = one_label_loss(logits.entities_SL, batch.targets["labels"])
        return ObjectiveLoss(
            total=total + entities.total,
            count=pairs.count + entities.count,
            tallies={"correct": correct + entities.tallies["correct"]},
        )

    @override
    def split(self, logits: RelationLogits, batch: TensorBatch) -> list[ScoredPairs]:
        """The pairs of each sample with their scores, and the entities found."""
        samples = batch.batch.samples
        found: tuple[FoundEntities | None, ...] = logits.found or (None,) * len(samples)
        ends = [_ends(sample, entities) for sample, entities in zip(samples, found, strict=True)]
        scores_PR = torch.sigmoid(logits.relations_PR.float()).cpu()
        parts = torch.split(scores_PR, [len(heads) for heads, _ in ends])
        return [
            ScoredPairs(heads=heads, tails=tails, scores=scores.numpy(), found=entities)
            for (heads, tails), scores, entities in zip(ends, parts, found, strict=True)
        ]


def _ends(sample: Sample, found: FoundEntities | None) -> tuple[Integers, Integers]:
    """(P,) and (P,): heads and tails of a sample's pairs, by the numbers of their spans."""
    if found is None:
        return sample.features["heads"].astype(np.int64), sample.features["tails"].astype(np.int64)
    heads, tails = all_pairs(len(found.spans))
    return found.spans[heads], found.spans[tails]


def _span_rows(batch: TensorBatch, numbers: Tensor, counts: list[int]) -> Tensor:
    """Numbers of spans within their sample, `counts` of each sample, as rows of the whole batch."""
    spans = torch.tensor(feature_counts(batch.batch, "first"), device=numbers.device)
    begins = torch.cumsum(spans, 0) - spans
    return numbers + torch.repeat_interleave(begins, torch.tensor(counts, device=numbers.device))


def _given_pairs(batch: TensorBatch) -> Pairs:
    counts = feature_counts(batch.batch, "heads")
    heads_P, tails_P = (_span_rows(batch, batch.features[name], counts) for name in ("heads", "tails"))
    return Pairs(heads_P=heads_P, tails_P=tails_P, types_S=batch.features["types"])


def _gold_pairs(batch: TensorBatch) -> Pairs:
    counts = [len(sample.targets["heads"]) for sample in batch.batch.samples]
    heads_P, tails_P = (_span_rows(batch, batch.targets[name], counts) for name in ("heads", "tails"))
    return Pairs(heads_P=heads_P, tails_P=tails_P, types_S=batch.targets["labels"])


def _found_pairs(batch: TensorBatch, found: tuple[FoundEntities, ...]) -> Pairs:
    device = batch.lengths_B.device
    ends = [_ends(sample, entities) for sample, entities in zip(batch.batch.samples, found, strict=True)]
    counts = [len(heads) for heads, _ in ends]
    joined = (torch.from_numpy(np.concatenate(each)).to(device) for each in zip(*ends, strict=True))
    heads_P, tails_P = (_span_rows(batch, each, counts) for each in joined)
    types_S = torch.zeros(sum(feature_counts(batch.batch, "first")), dtype=torch.long, device=device)
    rows = [torch.from_numpy(entities.spans).to(device) for entities in found]
    labels = [torch.from_numpy(entities.labels).to(device) for entities in found]
    types_S[_span_rows(batch, torch.cat(rows), [len(each) for each in rows])] = torch.cat(labels)
    return Pairs(heads_P=heads_P, tails_P=tails_P, types_S=types_S)
