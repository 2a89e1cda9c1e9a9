"""The plain baselines of `benchmarks.relation`: what look-up tables built from the training data get right."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import permutations

from spanlab.metrics.relations import Entity, EntityRelations, score_joint_relations
from spanlab.tasks.relation.data import RelationExample

SHARES = [step / 20 for step in range(1, 20)]


class EntityTable:
    """The entities of the training data by their words, each with its most frequent label."""

    def __init__(self, examples: Iterable[RelationExample]) -> None:
        counts: defaultdict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
        for example in examples:
            for entity in example.entities or ():
                counts[tuple(example.text[entity.start : entity.end].split())][entity.label] += 1
        self._labels = {words: labels.most_common(1)[0][0] for words, labels in counts.items()}
        self._longest = max(map(len, self._labels))

    def find(self, text: str) -> list[Entity]:
        """The longest known entity at each word, from the left."""
        words = text.split(" ")
        starts = [sum(len(word) + 1 for word in words[:n]) for n in range(len(words))]
        found: list[Entity] = []
        place = 0
        while place < len(words):
            for width in range(min(self._longest, len(words) - place), 0, -1):
                label = self._labels.get(tuple(words[place : place + width]))
                if label is not None:
                    last = place + width - 1
                    found.append((starts[place], starts[last] + len(words[last]), label))
                    place = last
                    break
            place += 1
        return found


class RelationTable:
    """The most frequent relation of each ordered pair of labels, and whether the head comes first.

    It is predicted where it holds for a share of such pairs; the share is the one that is best on the training data.
    """

    def __init__(self, examples: Sequence[RelationExample]) -> None:
        pairs: Counter[tuple[str, str, bool]] = Counter()
        relations: defaultdict[tuple[str, str, bool], Counter[str]] = defaultdict(Counter)
        gold = [example.gold for example in examples]
        for text in gold:
            pairs.update(_key(head, tail) for head, tail in permutations(text.entities, 2))
            for first, second, label in text.relations:
                relations[_key(text.entities[first], text.entities[second])][label] += 1
        best = {key: labels.most_common(1)[0] for key, labels in relations.items()}
        self._shares = {key: (label, count / pairs[key]) for key, (label, count) in best.items()}
        self._least = 0.0
        self._least = max(SHARES, key=lambda share: self._f1(gold, share))

    def fill(self, entities: Sequence[Entity], least: float | None = None) -> EntityRelations:
        """The entities with their relations."""
        told = []
        for head, tail in permutations(range(len(entities)), 2):
            label, share = self._shares.get(_key(entities[head], entities[tail]), ("", 0.0))
            if share > (self._least if least is None else least):
                told.append((head, tail, label))
        return EntityRelations(entities=tuple(entities), relations=tuple(told))

    def _f1(self, gold: Sequence[EntityRelations], share: float) -> float:
        return score_joint_relations(gold, [self.fill(text.entities, share) for text in gold])["f1"]


def _key(head: Entity, tail: Entity) -> tuple[str, str, bool]:
    return head[2], tail[2], head[0] < tail[0]


class WordsBetween:
    """The most frequent label of a pair by the words between its entities; of unknown words, of all pairs."""

    def __init__(self, examples: Iterable[tuple[RelationExample, str]]) -> None:
        counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for example, label in examples:
            counts[_between(example)][label] += 1
        self._labels = {words: labels.most_common(1)[0][0] for words, labels in counts.items()}
        self._usual = sum(counts.values(), Counter[str]()).most_common(1)[0][0]

    def label(self, example: RelationExample) -> str:
        """The label for these words."""
        return self._labels.get(_between(example), self._usual)


def _between(example: RelationExample) -> str:
    assert example.entities is not None
    first, second = example.entities
    return example.text[first.end : second.start].strip().lower()
