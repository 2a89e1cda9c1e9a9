"""The interface of the relation extraction heads, and the pair scorer of those that score pairs of spans.

A pair is scored from the vectors of its two spans, the text between them, the types of the two entities, and their
order. Each relation is an independent binary decision, so a pair may have several.

A window has all spans inside it, so two entities are scored as a pair in every window that contains both.

Shapes: N tokens, D width, S spans, P pairs, K spans that are in a pair, R relations, H inner width.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from spanlab.arrays import Flags, Integers
from spanlab.encoder import Encoder, EncoderConfig
from spanlab.encoder.layers import ACTIVATIONS, Dropout, init_weights
from spanlab.errors import InputError, did_you_mean
from spanlab.tasks.base import FittedState, Head
from spanlab.tasks.ner.data import Entity
from spanlab.tasks.relation.config import RelationConfig
from spanlab.tasks.relation.data import RelationExample, ScoredRelation, TextRelation
from spanlab.tasks.sample import Sample, TensorBatch
from spanlab.tasks.spans.representation import SpanRepresentation, Spans, feature_counts, pool
from spanlab.tasks.spans.units import tokens_in_spans
from spanlab.tasks.windows import Windower
from spanlab.text.tokens import Tokens

RARE = 4.0
"""Initial bias: about the logarithm of candidates per entity, so that "none" need not be learned first."""
_MAX_PAIRS = 100_000
"""Pairs scored at once in prediction, which bounds memory however many entities are predicted."""


class RelationMethod(ABC):
    """Encoding, layers and decoding of one head; a row of `HEADS` in `task.py`."""

    predicts_entities: ClassVar[bool] = False
    """If false, entities come with the text."""
    has_threshold: ClassVar[bool] = True
    """Whether each relation is decided by itself, above a threshold tuned on dev."""

    def __init__(self, config: RelationConfig, fitted: FittedState) -> None:
        self.config, self.fitted = config, fitted

    @abstractmethod
    def encode(self, examples: Sequence[RelationExample], windower: Windower, *, labelled: bool) -> Iterator[Sample]:
        """The samples of the examples."""

    @abstractmethod
    def layers(self, encoder: Encoder) -> Head:
        """Newly initialised layers."""

    @abstractmethod
    def decode(
        self, example: RelationExample, samples: Sequence[Sample], outputs: Sequence[Any]
    ) -> tuple[tuple[Entity, ...], tuple[ScoredRelation, ...]]:
        """The entities of a text, and every relation that some threshold would keep."""


def given_entities(example: RelationExample) -> tuple[Entity, ...]:
    """The entities that came with the text, in their order."""
    return tuple(
        Entity(
            start=entity.start,
            end=entity.end,
            label=entity.label,
            text=example.text[entity.start : entity.end],
            score=1.0,
        )
        for entity in example.entities or ()
    )


def check_entity_label(label: str, known: Sequence[str]) -> None:
    """Reject a label of a given entity that is not in the training data."""
    if label not in known:
        cause = f"unknown entity label '{label}'{did_you_mean(label, known)}"
        raise InputError(cause, fix=f"use one of {', '.join(known)}")


def all_pairs(count: int) -> tuple[Integers, Integers]:
    """(P,) and (P,): heads and tails of all ordered pairs of different indices below `count`."""
    heads, tails = np.divmod(np.arange(count * count, dtype=np.int64), max(1, count))
    different = heads != tails
    return heads[different], tails[different]


def relation_targets(
    heads: Integers, tails: Integers, relations: Sequence[TextRelation], labels: Sequence[str]
) -> NDArray[np.float32]:
    """(P, R) which relations hold for pairs of entity indices."""
    targets = np.zeros((len(heads), len(labels)), np.float32)
    index = {pair: index for index, pair in enumerate(zip(heads.tolist(), tails.tolist(), strict=True))}
    for relation in relations:
        pair = (relation.head, relation.tail)
        if pair in index:
            targets[index[pair], labels.index(relation.label)] = 1.0
    return targets


def entity_tokens(tokens: Tokens, example: RelationExample) -> Flags:
    """(N,) the tokens of the entities that came with a text."""
    return tokens_in_spans(tokens, ((entity.start, entity.end) for entity in example.entities or ()))


def span_rows(batch: TensorBatch, indices: Tensor, counts: Sequence[int]) -> Tensor:
    """Indices of spans within their sample, `counts` of each sample, as rows of the spans of the whole batch."""
    spans = torch.tensor(feature_counts(batch.batch, "first"), device=indices.device)
    begins = torch.cumsum(spans, 0) - spans
    return indices + torch.repeat_interleave(begins, torch.tensor(counts, device=indices.device))


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
        nn.init.constant_(self.classifier.bias, -RARE / 2)

    def forward(
        self,
        hidden_ND: Tensor,
        representation: SpanRepresentation,
        spans: Spans,
        types_S: Tensor,
        heads_P: Tensor,
        tails_P: Tensor,
    ) -> Tensor:
        """(P, R) logits; in prediction, many pairs are scored in turn.

        Args:
            hidden_ND: Hidden states of a packed row.
            representation: The vectors of spans.
            spans: The spans of the batch.
            types_S: The entity label of each span; 0 is none.
            heads_P: The rows of the pairs' heads among the spans.
            tails_P: Those of their tails.
        """
        size = max(1, len(heads_P)) if torch.is_grad_enabled() else _MAX_PAIRS
        parts = [
            self._score(hidden_ND, representation, spans, types_S, heads_P[i : i + size], tails_P[i : i + size])
            for i in range(0, max(1, len(heads_P)), size)
        ]
        return torch.cat(parts) if len(parts) > 1 else parts[0]

    def _score(
        self,
        hidden_ND: Tensor,
        representation: SpanRepresentation,
        spans: Spans,
        types_S: Tensor,
        heads_P: Tensor,
        tails_P: Tensor,
    ) -> Tensor:
        used_K, index_2P = torch.unique(torch.cat([heads_P, tails_P]), return_inverse=True)
        head_P, tail_P = index_2P.chunk(2)
        used, types_K = spans.select(used_K), types_S[used_K]
        head_KH = representation.project(hidden_ND, used, self.head) + self.head_types(types_K)
        tail_KH = representation.project(hidden_ND, used, self.tail) + self.tail_types(types_K)
        head, tail = used.select(head_P), used.select(tail_P)
        head_first_P = head.first_S <= tail.first_S
        between_PD = pool(hidden_ND, _between(head, tail, head_first_P), maximum=True)
        inner_PH = head_KH[head_P] + tail_KH[tail_P] + self.between(between_PD) + self.order(head_first_P.long())
        return self.classifier(self.dropout(ACTIVATIONS["gelu"](inner_PH)))  # type: ignore[no-any-return]


def _between(head: Spans, tail: Spans, head_first_P: Tensor) -> Spans:
    """The tokens from the end of one span to the start of the other, both included, so that it is never empty."""
    end_P = torch.where(head_first_P, head.last_S, tail.last_S)
    start_P = torch.where(head_first_P, tail.first_S, head.first_S)
    first_P, last_P = torch.minimum(end_P, start_P), torch.maximum(end_P, start_P)
    return Spans(first_S=first_P, last_S=last_P, widths_S=last_P - first_P + 1)
