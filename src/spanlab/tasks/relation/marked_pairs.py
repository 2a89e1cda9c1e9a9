"""Given entities to sequences with markers: one for each pair that is asked about, and back to relations.

A pair is either two entities in the order of the text, whose relation carries its direction (SemEval-2010 task 8), or a
head and a tail that are marked as such (TACRED), which asks about every pair twice.

A text beyond a model's length is not needed whole: each pair is seen in the window around it. Entities that no window
can hold together are not asked about, and have no relation.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from spanlab.tasks.relation.data import RelationExample
from spanlab.tasks.relation.markers import EntityMarkers, TokenRange, token_range
from spanlab.tasks.relation.result import FoundRelation
from spanlab.tasks.sample import Sample
from spanlab.tasks.spans.labelled import TextSpan
from spanlab.tasks.windows import Windower
from spanlab.text.tokens import Tokens

Direction = Literal["label", "marker"]
ROLES: dict[Direction, tuple[str, str]] = {"label": ("E1", "E2"), "marker": ("SUBJ", "OBJ")}


@dataclass(frozen=True, kw_only=True)
class PairClasses:
    """What a pair can be: nothing, or a relation, in one of two directions where markers do not tell it."""

    direction: Direction
    labels: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """In the order of the head's outputs."""
        if self.direction == "marker":
            return ("no_relation", *self.labels)
        return ("no_relation", *(f"{label}({way})" for label in self.labels for way in ("e1,e2", "e2,e1")))

    def pairs(self, entities: Sequence[TextSpan]) -> list[tuple[int, int]]:
        """The pairs that are asked about, by the numbers of their entities; none of an entity with its double."""
        order = sorted(range(len(entities)), key=lambda n: (entities[n].start, -entities[n].end))
        chosen = combinations(order, 2) if self.direction == "label" else permutations(order, 2)
        return [(a, b) for a, b in chosen if entities[a] != entities[b]]

    def number(self, label: str, *, turned: bool) -> int:
        """The class of a relation; `turned`: from the second of the pair to the first."""
        place = self.labels.index(label)
        return 1 + place if self.direction == "marker" else 1 + 2 * place + turned

    def relation(self, pair: tuple[int, int], number: int, score: float) -> FoundRelation | None:
        """What a class says about a pair."""
        if not number:
            return None
        place, turned = (number - 1, 0) if self.direction == "marker" else divmod(number - 1, 2)
        head, tail = reversed(pair) if turned else pair
        return FoundRelation(head=head, tail=tail, label=self.labels[place], score=score)


def pair_targets(example: RelationExample, classes: PairClasses, *, refuse: bool) -> dict[tuple[int, int], int]:
    """The class of each pair that has a relation; of several the first, unless that is refused."""
    entities = example.entities or ()
    asked = set(classes.pairs(entities))
    targets: dict[tuple[int, int], int] = {}
    for relation in example.relations:
        pair = (relation.head, relation.tail)
        turned = pair not in asked
        pair = pair[::-1] if turned else pair
        if pair in targets and refuse:
            cause = f"entities {pair[0]} and {pair[1]} have two relations, and markers can tell one"
            raise example.row.error(cause, "take head=pairs or head=joint, or data.bad_rows=drop")
        if pair in asked:
            targets.setdefault(pair, classes.number(relation.label, turned=turned))
    return targets


def mark_pairs(
    number: int,
    example: RelationExample,
    tokens: Tokens,
    windower: Windower,
    markers: EntityMarkers,
    classes: PairClasses,
    targets: dict[tuple[int, int], int] | None,
) -> Iterator[Sample]:
    """A sample for each pair of an example that a window can hold."""
    entities = example.entities or ()
    ranges = [token_range(tokens, entity) for entity in entities]
    for pair in classes.pairs(entities):
        first, second = (ranges[one] for one in pair)
        if first is None or second is None:
            continue
        labels = [entities[one].label for one in pair]
        seen = _window(tokens, (first, second), windower, _longest(markers, labels))
        if seen is None:
            continue
        window, inside, truncated = seen
        marked = markers.mark(window, inside, labels)
        framed = windower.single(marked.tokens)[0]
        fixed = np.zeros(len(framed.sequence), bool)
        fixed[framed.first_start : framed.first_start + len(marked.fixed)] = marked.fixed
        yield Sample(
            example=number,
            sequences=(framed.sequence,),
            features={"pair": np.array([pair], np.int64)},
            targets={} if targets is None else {"label": np.array([targets.get(pair, 0)], np.int64)},
            fixed=fixed,
            truncated=truncated,
        )


def _longest(markers: EntityMarkers, labels: Sequence[str]) -> int:
    """Tokens that the markers of a pair add."""
    return sum(len(ids) for place, label in enumerate(labels) for ids in markers.of(place, label))


def _window(
    tokens: Tokens, pair: tuple[TokenRange, TokenRange], windower: Windower, added: int
) -> tuple[Tokens, list[TokenRange], bool] | None:
    """The part of a text around a pair that leaves room for its markers, and whether text was cut off on request."""
    room = windower.length - windower.reserved() - added
    if len(tokens) <= room or windower.long_text == "error":  # then framing refuses what is too long
        return tokens, list(pair), False
    low, high = min(one.first for one in pair), max(one.last for one in pair) + 1
    truncate = windower.long_text == "truncate"
    begin = 0 if truncate else min(max(0, low - (room - (high - low)) // 2), len(tokens) - room)
    if high > begin + room or low < begin:
        return None
    here = slice(begin, begin + room)
    cut = Tokens(tokens.ids[here], tokens.starts[here], tokens.ends[here], tokens.word_starts[here])
    return cut, [TokenRange(one.first - begin, one.last - begin) for one in pair], truncate


def decode_pairs(
    samples: Sequence[Sample], outputs: Sequence[NDArray[np.float32]], classes: PairClasses
) -> Iterator[FoundRelation]:
    """The relations that the logits of each pair say."""
    for sample, logits in zip(samples, outputs, strict=True):
        raised = np.exp(logits.astype(np.float64) - logits.max())
        best = int(logits.argmax())
        first, second = sample.features["pair"][0].tolist()
        found = classes.relation((first, second), best, round(float(raised[best] / raised.sum()), 6))
        if found is not None:
            yield found
