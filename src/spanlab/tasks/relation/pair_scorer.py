"""The scores of pairs of spans, for the heads that have them.

A pair is scored from the vectors of its two spans, the text between them, the types of the two entities, and their
order. Each relation is an independent binary decision, so a pair may have several.

Shapes: N tokens, D width, S spans, P pairs, K spans that are in a pair, R relations, H inner width.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from spanlab.encoder import EncoderConfig
from spanlab.encoder.layers import ACTIVATIONS, Dropout, init_weights
from spanlab.tasks.head import Encoded
from spanlab.tasks.head_graphs import HeadGraph, indices
from spanlab.tasks.spans.representation import SpanRepresentation, Spans, packed_spans, pool
from spanlab.tasks.tensor_batch import TensorBatch

RARE = 4.0
"""Initial bias: about the logarithm of candidates per entity, so that "none" need not be learned first."""
_MAX_PAIRS = 100_000
"""Pairs scored at once in prediction, which bounds memory however many entities are predicted."""


def span_rows(batch: TensorBatch, indices: Tensor, counts: Sequence[int]) -> Tensor:
    """Indices of spans within their sample, `counts` of each sample, as rows of the spans of the whole batch."""
    spans = torch.tensor(batch.batch.feature_counts("first"), device=indices.device)
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
            self.score(hidden_ND, representation, spans, types_S, heads_P[i : i + size], tails_P[i : i + size])
            for i in range(0, max(1, len(heads_P)), size)
        ]
        return torch.cat(parts) if len(parts) > 1 else parts[0]

    def score(
        self,
        hidden_ND: Tensor,
        representation: SpanRepresentation,
        spans: Spans,
        types_S: Tensor,
        heads_P: Tensor,
        tails_P: Tensor,
    ) -> Tensor:
        """The same for pairs that are scored at once."""
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


def pair_graph(pairs: PairScorer, representation: SpanRepresentation) -> HeadGraph:
    """The logits of pairs as an exported graph, from the spans and types of one sample."""

    def compute(encoded: Encoded) -> Tensor:
        batch = encoded.batch
        types_S, heads_P, tails_P = (batch.features[name] for name in ("types", "heads", "tails"))
        return pairs.score(encoded.hidden_ND, representation, packed_spans(batch), types_S, heads_P, tails_P)

    examples = indices("first", "last", "widths", "types", "heads", "tails")
    return HeadGraph(compute=compute, examples=examples | {"types": torch.zeros(3, dtype=torch.long)})


def _between(head: Spans, tail: Spans, head_first_P: Tensor) -> Spans:
    """The tokens from the end of one span to the start of the other, both included, so that it is never empty."""
    end_P = torch.where(head_first_P, head.last_S, tail.last_S)
    start_P = torch.where(head_first_P, tail.first_S, head.first_S)
    first_P, last_P = torch.minimum(end_P, start_P), torch.maximum(end_P, start_P)
    return Spans(first_S=first_P, last_S=last_P, widths_S=last_P - first_P + 1)
