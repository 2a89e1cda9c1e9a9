"""`head=pairs`: given entities, the text encoded once, and all ordered pairs scored by their span vectors.

Shapes: S spans, P pairs, R relations.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor
from typing_extensions import override

from spanlab.encoder import Encoder, EncoderConfig
from spanlab.objectives.objective import ObjectiveLoss
from spanlab.tasks.base import Encoded, Head
from spanlab.tasks.heads import label_set_loss
from spanlab.tasks.ner.data import Entity
from spanlab.tasks.relation.data import RelationExample, ScoredRelation
from spanlab.tasks.relation.decode import ScoredPairs, merge_pairs
from spanlab.tasks.relation.heads import (
    PairScorer,
    RelationMethod,
    all_pairs,
    check_entity_label,
    entity_tokens,
    given_entities,
    relation_targets,
    span_rows,
)
from spanlab.tasks.sample import Sample, SampleBatch, TensorBatch
from spanlab.tasks.spans.representation import SpanConfig, SpanRepresentation, feature_counts, packed_spans
from spanlab.tasks.spans.units import tokens_over
from spanlab.tasks.windows import InputWindow, Windower
from spanlab.text.tokens import Tokens


class GivenPairs(RelationMethod):
    """A sample a window, with the entities that lie in it and all their pairs."""

    @override
    def encode(self, examples: Sequence[RelationExample], windower: Windower, *, labelled: bool) -> Iterator[Sample]:
        all_tokens = windower.tokenize([example.text for example in examples])
        for index, (example, tokens) in enumerate(zip(examples, all_tokens, strict=True)):
            for entity in example.entities or ():
                check_entity_label(entity.label, self.fitted.entity_labels)
            for window in windower.single(tokens):
                yield self._encode_window(index, example, tokens, window, labelled=labelled)

    def _encode_window(
        self, index: int, example: RelationExample, tokens: Tokens, window: InputWindow, *, labelled: bool
    ) -> Sample:
        covered = [tokens_over(tokens.starts, tokens.ends, e.start, e.end) for e in example.entities or ()]
        inside = [
            (entity, *span)
            for entity, span in enumerate(covered)
            if span is not None and window.first.start <= span[0] and span[1] < window.first.end
        ]
        entities, first, last = np.array(inside, np.int64).reshape(-1, 3).T
        shift = window.first_start - window.first.start
        heads, tails = all_pairs(len(entities))
        types = {label: index for index, label in enumerate(self.fitted.entity_labels, 1)}
        targets = {}
        if labelled:
            labels = self.fitted.labels
            targets["relations"] = relation_targets(entities[heads], entities[tails], example.relations, labels)
        return Sample(
            example=index,
            sequences=(window.sequence,),
            features={
                "first": first + shift,
                "last": last + shift,
                "widths": last - first + 1,
                "types": np.array([types[(example.entities or ())[entity].label] for entity in entities], np.int64),
                "entities": entities,
                "heads": heads,
                "tails": tails,
            },
            targets=targets,
            fixed=window.flags(first=entity_tokens(tokens, example)),
            truncated=window.truncated,
        )

    @override
    def layers(self, encoder: Encoder) -> "PairHead":
        return PairHead(
            encoder.config,
            self.config.span,
            labels=len(self.fitted.entity_labels) + 1,
            relations=len(self.fitted.labels),
            inner_width=self.config.inner_width,
        )

    @override
    def decode(
        self, example: RelationExample, samples: Sequence[Sample], outputs: Sequence[ScoredPairs]
    ) -> tuple[tuple[Entity, ...], tuple[ScoredRelation, ...]]:
        windows = []
        for sample, output in zip(samples, outputs, strict=True):
            entities = sample.features["entities"].astype(np.int64)
            windows.append((entities[output.heads], entities[output.tails], output.scores))
        return given_entities(example), merge_pairs(windows, self.fitted.labels)


class PairHead(Head):
    """Relations of given entities."""

    def __init__(
        self, encoder: EncoderConfig, config: SpanConfig, *, labels: int, relations: int, inner_width: int
    ) -> None:
        """`labels` are those of entities, "none" included."""
        super().__init__()
        self.spans = SpanRepresentation(encoder.width, config, dropout=encoder.dropout, init_std=encoder.init_std)
        self.pairs = PairScorer(encoder, self.spans, labels, relations, inner_width)

    @override
    def count(self, batch: SampleBatch) -> int:
        """A term for each pair."""
        return sum(len(sample.targets["relations"]) for sample in batch.samples)

    @override
    def forward(self, encoded: Encoded) -> Tensor:
        """(P, R) logits."""
        batch = encoded.batch
        counts = feature_counts(batch.batch, "heads")
        heads_P, tails_P = (span_rows(batch, batch.features[name], counts) for name in ("heads", "tails"))
        spans, types_S = packed_spans(batch), batch.features["types"]
        return self.pairs(encoded.hidden_ND, self.spans, spans, types_S, heads_P, tails_P)  # type: ignore[no-any-return]

    @override
    def loss(self, logits: Tensor, batch: TensorBatch) -> ObjectiveLoss:
        """Binary cross-entropy of every relation of every pair."""
        loss = label_set_loss(logits, batch.targets["relations"])
        return ObjectiveLoss(total=loss.total * logits.shape[1], count=loss.count, tallies=loss.tallies)

    @override
    def split(self, logits: Tensor, batch: TensorBatch) -> list[ScoredPairs]:
        """The pairs of each sample with their scores."""
        scores = torch.split(torch.sigmoid(logits.float()).cpu(), feature_counts(batch.batch, "heads"))
        return [
            ScoredPairs(
                heads=sample.features["heads"].astype(np.int64),
                tails=sample.features["tails"].astype(np.int64),
                scores=scores_PR.numpy(),
            )
            for sample, scores_PR in zip(batch.batch.samples, scores, strict=True)
        ]
