"""`head=joint`: entities and relations in one pass, from the text alone.

Every candidate span is labelled first. Then pairs are scored: of the gold entities in training, of the predicted
entities in prediction. A window has all candidates inside it; whether a candidate is an entity is decided in the window
that gives its middle most context (`is_best`).

Shapes: S spans, L entity labels with "none" first, P pairs, R relations, H inner width.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from spanlab.arrays import Integers
from spanlab.tasks.host_head import HostHead
from spanlab.tasks.ner.data import Entity
from spanlab.tasks.relation.data import RelationExample, ScoredRelation, TextRelation
from spanlab.tasks.relation.decode import ScoredPairs, merge_pairs
from spanlab.tasks.relation.host_pairs import joint_pairs
from spanlab.tasks.relation.method import RelationMethod, all_pairs, entity_tokens, relation_targets
from spanlab.tasks.sample import Sample
from spanlab.tasks.spans.pruning import Conflict, without_conflicts
from spanlab.tasks.spans.units import GoldUnits, LabelUnits, encode_units, find_gold, window_spans
from spanlab.tasks.windows import Windower
from spanlab.text.windows import best_windows

if TYPE_CHECKING:
    from spanlab.encoder import Encoder
    from spanlab.tasks.relation.joint_head import JointHead


class JointExtraction(RelationMethod):
    """A sample a window, with all candidate spans in it and, if labelled, the pairs of its gold entities."""

    predicts_entities = True

    @property
    def _conflict(self) -> Conflict:
        """Two predicted entities must not be in this conflict."""
        return "crossing" if self.config.nested else "overlapping"

    @override
    def encode(self, examples: Sequence[RelationExample], windower: Windower, *, labelled: bool) -> Iterator[Sample]:
        config = self.config
        assert config.units != "auto", "decided by `fit`"
        assert config.max_width is not None, "decided by `fit`"
        all_units = encode_units(windower.tokenizer, [example.text for example in examples], config.units)
        for index, (example, units) in enumerate(zip(examples, all_units, strict=True)):
            gold = None
            if labelled:
                gold = find_gold(
                    example.entities or (),
                    example.row,
                    units,
                    self.fitted.entity_labels,
                    max_width=config.max_width,
                    refuse=config.data.bad_rows == "refuse",
                    setting="max_width",
                )
            yield from self._encode_windows(index, example, units, windower, gold)

    def _encode_windows(
        self,
        index: int,
        example: RelationExample,
        units: LabelUnits,
        windower: Windower,
        gold: GoldUnits | None,
    ) -> Iterator[Sample]:
        assert self.config.max_width is not None, "decided by `fit`"
        is_entity_N = entity_tokens(units.tokens, example)
        windows = windower.single(units.tokens)
        best_N = best_windows([window.first for window in windows], windows[-1].first.end)
        for window_index, window in enumerate(windows):
            first, last, middle = window_spans(
                units, window, self.config.max_width, whole_words=self.config.whole_words is not False
            )
            shift = window.first_start - window.first.start
            first_tokens, last_tokens = units.first_tokens[first] + shift, units.last_tokens[last] + shift
            targets: dict[str, NDArray[np.generic]] = {}
            if gold is not None:
                keys, gold_keys = (first * len(units) + last, gold.first * len(units) + gold.last)
                targets = self._targets(keys, gold_keys, gold, example.relations)
            yield Sample(
                example=index,
                sequences=(window.sequence,),
                features={
                    "first": first_tokens,
                    "last": last_tokens,
                    "widths": last - first + 1,
                    "starts": units.starts[first],
                    "ends": units.ends[last],
                    "is_best": best_N[middle] == window_index,
                },
                targets=targets,
                fixed=window.flags(first=is_entity_N),
                truncated=window.truncated,
            )

    def _targets(
        self, keys: Integers, gold_keys: Integers, gold: GoldUnits, relations: Sequence[TextRelation]
    ) -> dict[str, NDArray[np.generic]]:
        """Labels of the candidates, pairs of gold entities and their relations.

        `keys` are the ascending keys of the candidates, `gold_keys` those of the gold entities.
        """
        inside = np.isin(gold_keys, keys)
        candidates = np.searchsorted(keys, gold_keys[inside])
        labels = np.zeros(len(keys), np.int64)
        labels[candidates] = gold.labels[inside] + 1
        entities, kept = np.unique(candidates, return_index=True)
        heads, tails = all_pairs(len(entities))
        # Two gold entities of one span are one candidate: relations of either are relations of it.
        indices = gold.indices[inside]
        kept_indices = indices[kept]
        merged = dict(zip(indices.tolist(), kept_indices[np.searchsorted(entities, candidates)].tolist(), strict=True))
        inside_relations = [
            TextRelation(head=merged[relation.head], tail=merged[relation.tail], label=relation.label)
            for relation in relations
            if relation.head in merged and relation.tail in merged
        ]
        return {
            "labels": labels,
            "heads": entities[heads],
            "tails": entities[tails],
            "relations": relation_targets(
                kept_indices[heads], kept_indices[tails], inside_relations, self.fitted.labels
            ),
        }

    @override
    def layers(self, encoder: "Encoder") -> "JointHead":
        from spanlab.tasks.relation.joint_head import JointHead

        return JointHead(
            encoder.config,
            self.config.span,
            labels=len(self.fitted.entity_labels) + 1,
            relations=len(self.fitted.labels),
            inner_width=self.config.inner_width,
            conflict=self._conflict,
        )

    @property
    @override
    def host_head(self) -> HostHead:
        return joint_pairs(len(self.fitted.labels), self._conflict)

    @override
    def decode(
        self, example: RelationExample, samples: Sequence[Sample], outputs: Sequence[ScoredPairs]
    ) -> tuple[tuple[Entity, ...], tuple[ScoredRelation, ...]]:
        """The entities of all windows together, and the relations of pairs whose ends are both among them."""
        candidates = [
            candidate
            for sample, output in zip(samples, outputs, strict=True)
            for candidate in _entities_of_window(sample, output)
        ]
        starts, ends = (np.array([candidate[edge] for candidate in candidates], np.int64) for edge in (0, 1))
        scores = np.array([candidate[3] for candidate in candidates], np.float64)
        kept = without_conflicts(starts, ends - 1, scores, conflict=self._conflict)
        entities = tuple(
            Entity(
                start=start,
                end=end,
                label=self.fitted.entity_labels[label - 1],
                text=example.text[start:end],
                score=round(score, 6),
            )
            for start, end, label, score in sorted(candidates[index] for index in kept.tolist())
        )
        index = {(entity.start, entity.end): index for index, entity in enumerate(entities)}
        windows = (_pairs_of_window(sample, output, index) for sample, output in zip(samples, outputs, strict=True))
        return entities, merge_pairs(windows, self.fitted.labels)


def _entities_of_window(sample: Sample, output: ScoredPairs) -> Iterator[tuple[int, int, int, float]]:
    """Start, end, label and score of the entities that no other window gives more context."""
    assert output.entities is not None
    predicted = zip(output.entities.spans, output.entities.labels, output.entities.scores, strict=True)
    for span, label, score in predicted:
        if sample.features["is_best"][span]:
            yield int(sample.features["starts"][span]), int(sample.features["ends"][span]), int(label), float(score)


def _pairs_of_window(
    sample: Sample, output: ScoredPairs, index: dict[tuple[int, int], int]
) -> tuple[Integers, Integers, NDArray[np.float32]]:
    """The pairs whose ends are both entities, by the index of these."""
    starts, ends = sample.features["starts"], sample.features["ends"]
    assert output.entities is not None
    entity_of_span = np.full(len(starts), -1, np.int64)
    for span in output.entities.spans.tolist():
        entity_of_span[span] = index.get((int(starts[span]), int(ends[span])), -1)
    heads, tails = entity_of_span[output.heads], entity_of_span[output.tails]
    known = (heads >= 0) & (tails >= 0)
    return heads[known], tails[known], output.scores[known]
