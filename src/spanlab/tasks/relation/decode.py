"""Scored pairs to relations: windows merged, entities put together, and the threshold above which a relation holds.

A pair that several windows hold has the highest of its scores. Where entities are found, each is told by the window
that sees it best, and a pair counts only if both of its ends are among them.

Shapes: P pairs, R relations.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spanlab.arrays import Integers
from spanlab.metrics.relations import EntityRelations, by_boundaries, by_boundaries_and_types
from spanlab.tasks.base import FittedState
from spanlab.tasks.ner.data import Entity
from spanlab.tasks.relation.data import RelationExample
from spanlab.tasks.relation.heads import ScoredPairs
from spanlab.tasks.relation.result import FoundRelation
from spanlab.tasks.sample import Sample
from spanlab.tasks.spans.pruning import Conflict, without_conflicts

THRESHOLDS = tuple(round(0.05 * step, 2) for step in range(1, 20))


@dataclass(frozen=True, kw_only=True)
class PairFinds:
    """The entities of a text, and all relations with a score above the lowest threshold."""

    entities: tuple[Entity, ...]
    relations: tuple[FoundRelation, ...]

    @property
    def told(self) -> EntityRelations:
        """For the scorer, whatever the scores."""
        return EntityRelations(
            entities=tuple((one.start, one.end, one.label) for one in self.entities),
            relations=tuple((one.head, one.tail, one.label) for one in self.relations),
        )


def given_entities(example: RelationExample) -> tuple[Entity, ...]:
    """The entities that came with the text, in their order."""
    return tuple(
        Entity(start=one.start, end=one.end, label=one.label, text=example.text[one.start : one.end], score=1.0)
        for one in example.entities or ()
    )


def pairs_of_given(
    samples: Sequence[Sample], outputs: Sequence[ScoredPairs], labels: tuple[str, ...]
) -> tuple[FoundRelation, ...]:
    """The relations among given entities."""
    numbers = (sample.features["numbers"].astype(np.int64) for sample in samples)
    scored = (
        (own[output.heads], own[output.tails], output.scores) for own, output in zip(numbers, outputs, strict=True)
    )
    return _merge(scored, labels)


def found_together(
    text: str, samples: Sequence[Sample], outputs: Sequence[ScoredPairs], fitted: FittedState, conflict: Conflict
) -> PairFinds:
    """The entities of all windows together, and the relations among them."""
    candidates = [one for sample, output in zip(samples, outputs, strict=True) for one in _owned(sample, output)]
    starts, ends = (np.array([one[place] for one in candidates], np.int64) for place in (0, 1))
    scores = np.array([one[3] for one in candidates], np.float64)
    kept = without_conflicts(starts, ends - 1, scores, conflict=conflict)
    chosen = sorted(candidates[place] for place in kept.tolist())
    entities = tuple(
        Entity(start=start, end=end, label=fitted.entity_labels[label - 1], text=text[start:end], score=round(score, 6))
        for start, end, label, score in chosen
    )
    place = {(one.start, one.end): number for number, one in enumerate(entities)}
    scored = (_among(sample, output, place) for sample, output in zip(samples, outputs, strict=True))
    return PairFinds(entities=entities, relations=_merge(scored, fitted.labels))


def _owned(sample: Sample, output: ScoredPairs) -> Iterator[tuple[int, int, int, float]]:
    """Start, end, label and score of the entities that no other window sees better."""
    assert output.found is not None
    for span, label, score in zip(output.found.spans, output.found.labels, output.found.scores, strict=True):
        if sample.features["own"][span]:
            yield int(sample.features["starts"][span]), int(sample.features["ends"][span]), int(label), float(score)


def _among(
    sample: Sample, output: ScoredPairs, place: dict[tuple[int, int], int]
) -> tuple[Integers, Integers, NDArray[np.float32]]:
    """The pairs whose ends are both entities, by the numbers of these."""
    starts, ends = sample.features["starts"], sample.features["ends"]
    assert output.found is not None
    numbers = np.full(len(starts), -1, np.int64)
    for span in output.found.spans.tolist():
        numbers[span] = place.get((int(starts[span]), int(ends[span])), -1)
    heads, tails = numbers[output.heads], numbers[output.tails]
    known = (heads >= 0) & (tails >= 0)
    return heads[known], tails[known], output.scores[known]


def _merge(
    scored: Iterable[tuple[Integers, Integers, NDArray[np.float32]]], labels: tuple[str, ...]
) -> tuple[FoundRelation, ...]:
    """(P,) heads, (P,) tails and (P, R) scores of windows to relations, in the order of head, tail and label."""
    best: dict[tuple[int, int, int], float] = {}
    for heads, tails, scores in scored:
        for pair, relation in zip(*np.nonzero(scores > THRESHOLDS[0]), strict=True):
            key = (int(heads[pair]), int(tails[pair]), int(relation))
            best[key] = max(best.get(key, 0.0), float(scores[pair, relation]))
    return tuple(
        FoundRelation(head=head, tail=tail, label=labels[relation], score=round(score, 6))
        for (head, tail, relation), score in sorted(best.items())
    )


def best_threshold(gold: Sequence[EntityRelations], finds: Sequence[PairFinds], *, typed: bool) -> float:
    """The threshold that gives the best micro F1; of equals the one nearest to a half."""
    things = by_boundaries_and_types if typed else by_boundaries
    right, scores, wanted = [], [], 0
    for key, found in zip(gold, finds, strict=True):
        relations = set(things(key))
        wanted += len(relations)
        right += [relation in relations for relation in things(found.told)]
        scores += [relation.score for relation in found.relations]
    is_right, sure = np.array(right, bool), np.array(scores)

    def f1(least: float) -> float:
        chosen = sure > least
        return 2 * float(is_right[chosen].sum()) / max(1, wanted + int(chosen.sum()))

    return max(THRESHOLDS, key=lambda least: (f1(least), -abs(least - 0.5)))
