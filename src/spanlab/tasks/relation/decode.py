"""Scored pairs to relations: windows merged, and the threshold above which a relation holds.

Shapes: P pairs, R relations.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spanlab.arrays import Integers
from spanlab.metrics.relations import EntityRelations, by_boundaries, by_boundaries_and_types
from spanlab.tasks.relation.data import RelationResult, ScoredRelation

THRESHOLDS = tuple(round(0.05 * step, 2) for step in range(1, 20))
"""Candidates that are tried on dev."""


@dataclass(frozen=True, eq=False, kw_only=True)
class PredictedEntities:
    """The entities predicted in one sample."""

    spans: Integers
    """Their indices among the sample's spans."""
    labels: Integers
    scores: NDArray[np.float32]


@dataclass(frozen=True, eq=False, kw_only=True)
class ScoredPairs:
    """The scored pairs of one sample."""

    heads: Integers
    """(P,) by their index among the sample's spans."""
    tails: Integers
    scores: NDArray[np.float32]
    """(P, R) the probability of each relation."""
    entities: PredictedEntities | None = None
    """None if entities are given."""


def merge_pairs(
    windows: Iterable[tuple[Integers, Integers, NDArray[np.float32]]], labels: Sequence[str]
) -> tuple[ScoredRelation, ...]:
    """All relations above the lowest threshold; a pair that is in several windows gets the highest of its scores.

    Args:
        windows: (P,) heads and (P,) tails by their index among the entities of the text, and (P, R) scores.
        labels: (R,) the relations.

    Returns:
        Relations in the order of head, tail and label.
    """
    best: dict[tuple[int, int, int], float] = {}
    for heads, tails, scores in windows:
        for pair, relation in zip(*np.nonzero(scores > THRESHOLDS[0]), strict=True):
            key = (int(heads[pair]), int(tails[pair]), int(relation))
            best[key] = max(best.get(key, 0.0), float(scores[pair, relation]))
    return tuple(
        ScoredRelation(head=head, tail=tail, label=labels[relation], score=round(score, 6))
        for (head, tail, relation), score in sorted(best.items())
    )


def best_threshold(gold: Sequence[EntityRelations], results: Sequence[RelationResult], *, typed: bool) -> float:
    """The threshold with the best micro F1; of ties, the one nearest to 0.5."""
    keys = by_boundaries_and_types if typed else by_boundaries
    is_correct: list[bool] = []
    scores: list[float] = []
    gold_count = 0
    for example, result in zip(gold, results, strict=True):
        gold_keys = set(keys(example))
        gold_count += len(gold_keys)
        is_correct += [key in gold_keys for key in keys(result.predicted)]
        scores += [relation.score for relation in result.relations]
    correct, score = np.array(is_correct, bool), np.array(scores)

    def f1(threshold: float) -> float:
        above = score > threshold
        return 2 * float(correct[above].sum()) / max(1, gold_count + int(above.sum()))

    return max(THRESHOLDS, key=lambda threshold: (f1(threshold), -abs(threshold - 0.5)))
