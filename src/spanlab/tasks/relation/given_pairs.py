"""`head=pairs`: given entities, the text encoded once, and all ordered pairs scored by their span vectors."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from typing_extensions import override

from spanlab.tasks.host_head import HostHead
from spanlab.tasks.ner.data import Entity
from spanlab.tasks.relation.data import RelationExample, ScoredRelation
from spanlab.tasks.relation.decode import ScoredPairs, merge_pairs
from spanlab.tasks.relation.host_pairs import given_pairs
from spanlab.tasks.relation.method import (
    RelationMethod,
    all_pairs,
    check_entity_label,
    entity_tokens,
    given_entities,
    relation_targets,
)
from spanlab.tasks.sample import Sample
from spanlab.tasks.spans.units import tokens_over
from spanlab.tasks.windows import InputWindow, Windower
from spanlab.text.tokens import Tokens

if TYPE_CHECKING:
    from spanlab.encoder import Encoder
    from spanlab.tasks.relation.pairs_head import PairHead


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
    def layers(self, encoder: "Encoder") -> "PairHead":
        from spanlab.tasks.relation.pairs_head import PairHead

        return PairHead(
            encoder.config,
            self.config.span,
            labels=len(self.fitted.entity_labels) + 1,
            relations=len(self.fitted.labels),
            inner_width=self.config.inner_width,
        )

    @property
    @override
    def host_head(self) -> HostHead:
        return given_pairs(len(self.fitted.labels))

    @override
    def decode(
        self, example: RelationExample, samples: Sequence[Sample], outputs: Sequence[ScoredPairs]
    ) -> tuple[tuple[Entity, ...], tuple[ScoredRelation, ...]]:
        windows = []
        for sample, output in zip(samples, outputs, strict=True):
            entities = sample.features["entities"].astype(np.int64)
            windows.append((entities[output.heads], entities[output.tails], output.scores))
        return given_entities(example), merge_pairs(windows, self.fitted.labels)
