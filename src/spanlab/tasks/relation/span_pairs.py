"""Spans and pairs of spans of a text's windows, as arrays for a head that scores pairs by their span vectors.

Where entities are given, the spans of a window are those entities, and its pairs are all of them in both orders. Where
they must be found, its spans are all candidates up to a width; which pairs are scored is then decided by the head: in
prediction those of the entities it has found, in training those of the gold entities.

Every window has all spans that it holds, so that two entities are a pair wherever a window sees both; `own` tells
whether a window sees the middle of a span better than any other, which is the one that says what it is.

Shapes: S spans, P pairs, R relations.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spanlab.arrays import Integers
from spanlab.tasks.relation.data import RelationExample, TextRelation
from spanlab.tasks.relation.markers import token_range
from spanlab.tasks.sample import Sample
from spanlab.tasks.spans.labelled import TextSpan
from spanlab.tasks.spans.representation import enumerate_spans
from spanlab.tasks.spans.units import GoldUnits, LabelUnits
from spanlab.tasks.windows import InputWindow, Windower
from spanlab.text.tokens import Tokens
from spanlab.text.windows import best_windows

MutableArrays = dict[str, NDArray[np.generic]]


@dataclass(frozen=True, eq=False, kw_only=True)
class GoldRelations:
    """What a labelled example teaches."""

    entities: GoldUnits | None
    """None where entities are given."""
    relations: Sequence[TextRelation]
    labels: tuple[str, ...]


def given_spans(
    number: int,
    example: RelationExample,
    tokens: Tokens,
    windower: Windower,
    types: Sequence[int],
    gold: GoldRelations | None,
) -> Iterator[Sample]:
    """A sample a window, with the entities that lie in it and all their pairs."""
    entities: Sequence[TextSpan] = example.entities or ()
    ranges = [token_range(tokens, entity) for entity in entities]
    for window in windower.single(tokens):
        seen = [
            (n, one)
            for n, one in enumerate(ranges)
            if one is not None and window.first.start <= one.first and one.last < window.first.end
        ]
        numbers = np.array([n for n, _ in seen], np.int64)
        shift = window.first_start - window.first.start
        first, last = (np.array([getattr(one, end) for _, one in seen], np.int64) for end in ("first", "last"))
        heads, tails = all_pairs(len(seen))
        features: MutableArrays = {
            "first": first + shift,
            "last": last + shift,
            "widths": last - first + 1,
            "types": np.array([types[n] for n, _ in seen], np.int64),
            "numbers": numbers,
            "heads": heads,
            "tails": tails,
        }
        targets: MutableArrays = {}
        if gold is not None:
            targets["relations"] = _relation_targets(numbers[heads], numbers[tails], gold)
        yield _sample(number, window, features, targets, first + shift, last + shift)


def candidate_spans(
    number: int, units: LabelUnits, windower: Windower, max_width: int, gold: GoldRelations | None
) -> Iterator[Sample]:
    """A sample a window, with all spans in it up to a width and, if labelled, the pairs of its gold entities."""
    framed = windower.single(units.tokens)
    windows = [window.first for window in framed]
    best = best_windows(windows, windows[-1].end)
    for place, window in enumerate(framed):
        begin = int(np.searchsorted(units.first_tokens, window.first.start))
        stop = int(np.searchsorted(units.last_tokens, window.first.end))
        first, last = enumerate_spans(np.array([begin]), np.array([max(0, stop - begin)]), max_width)
        middle = (units.first_tokens[first] + units.last_tokens[last]) // 2
        shift = window.first_start - window.first.start
        features: MutableArrays = {
            "first": units.first_tokens[first] + shift,
            "last": units.last_tokens[last] + shift,
            "widths": last - first + 1,
            "starts": units.starts[first],
            "ends": units.ends[last],
            "own": best[middle] == place,
        }
        targets: MutableArrays = {}
        known = np.zeros(0, np.int64)
        if gold is not None:
            targets, known = _candidate_targets(first * len(units) + last, len(units), gold)
        known_first, known_last = units.first_tokens[first[known]] + shift, units.last_tokens[last[known]] + shift
        yield _sample(number, window, features, targets, known_first, known_last)


def _candidate_targets(keys: Integers, count: int, gold: GoldRelations) -> tuple[MutableArrays, Integers]:
    """The labels of the candidates, whose ascending `keys` are first unit times `count` plus last, and gold pairs."""
    assert gold.entities is not None
    wanted = gold.entities.first * count + gold.entities.last
    inside = np.isin(wanted, keys)
    places = np.searchsorted(keys, wanted[inside])
    labels = np.zeros(len(keys), np.int64)
    labels[places] = gold.entities.labels[inside] + 1
    known, kept = np.unique(places, return_index=True)
    heads, tails = all_pairs(len(known))
    numbers = gold.entities.numbers[inside]
    # Two entities of one span are one candidate: relations of either are relations of it.
    same = dict(zip(numbers.tolist(), numbers[kept][np.searchsorted(known, places)].tolist(), strict=True))
    relations = [
        TextRelation(head=same[one.head], tail=same[one.tail], label=one.label)
        for one in gold.relations
        if one.head in same and one.tail in same
    ]
    of_known = numbers[kept]
    merged = GoldRelations(entities=gold.entities, relations=relations, labels=gold.labels)
    targets: MutableArrays = {
        "labels": labels,
        "heads": known[heads],
        "tails": known[tails],
        "relations": _relation_targets(of_known[heads], of_known[tails], merged),
    }
    return targets, known


def all_pairs(count: int) -> tuple[Integers, Integers]:
    """(P,) and (P,): heads and tails of all ordered pairs of `count` things, none with itself."""
    heads, tails = np.divmod(np.arange(count * count, dtype=np.int64), max(1, count))
    different = heads != tails
    return heads[different], tails[different]


def _relation_targets(heads: Integers, tails: Integers, gold: GoldRelations) -> NDArray[np.float32]:
    """(P, R) which relations hold between the entities of these numbers."""
    chosen = np.zeros((len(heads), len(gold.labels)), np.float32)
    place = {pair: n for n, pair in enumerate(zip(heads.tolist(), tails.tolist(), strict=True))}
    for relation in gold.relations:
        pair = (relation.head, relation.tail)
        if pair in place:
            chosen[place[pair], gold.labels.index(relation.label)] = 1.0
    return chosen


def _sample(
    number: int,
    window: InputWindow,
    features: MutableArrays,
    targets: MutableArrays,
    first: Integers,
    last: Integers,
) -> Sample:
    """A window's sample; the tokens of its known entities are fixed."""
    edges = np.zeros(len(window.sequence) + 1, np.int64)
    np.add.at(edges, first, 1)
    np.add.at(edges, last + 1, -1)
    return Sample(
        example=number,
        sequences=(window.sequence,),
        features=features,
        targets=targets,
        fixed=np.cumsum(edges)[:-1] > 0,
        truncated=window.truncated,
    )
