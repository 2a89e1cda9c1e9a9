"""`head=markers`: given entities, the text encoded once for each pair, with the pair marked, and classified as a whole.

A pair is either two entities in the order of the text, whose class includes the direction (SemEval-2010 task 8), or a
head and a tail that are marked as such (TACRED), which takes two sequences a pair. The head is
transformers' sequence classifier.

In a text longer than the model's sequences, each pair is classified in the window around it. A pair too far apart for
one window is not classified, and has no relation.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations, permutations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from spanlab.tasks.base import FittedState
from spanlab.tasks.ner.data import Entity
from spanlab.tasks.relation.config import Direction, RelationConfig
from spanlab.tasks.relation.data import NO_RELATION, RelationExample, ScoredRelation
from spanlab.tasks.relation.markers import EntityMarkers, TokenRange
from spanlab.tasks.relation.method import RelationMethod, entity_tokens, given_entities
from spanlab.tasks.sample import Sample
from spanlab.tasks.spans.labelled import TextSpan
from spanlab.tasks.spans.units import tokens_over
from spanlab.tasks.windows import Windower
from spanlab.text.tokens import Tokens

if TYPE_CHECKING:
    from spanlab.encoder import Encoder
    from spanlab.tasks.heads import SequenceTaskHead

_ROLES: dict[Direction, tuple[str, str]] = {"label": ("E1", "E2"), "marker": ("SUBJ", "OBJ")}
Pair = tuple[int, int]
"""The indices of two entities."""


class MarkedPairs(RelationMethod):
    """A sample for each pair of an example that fits into a window."""

    has_threshold = False

    def __init__(self, config: RelationConfig, fitted: FittedState) -> None:
        super().__init__(config, fitted)
        self._classes = PairClasses(config.direction, fitted.labels)

    @override
    def encode(self, examples: Sequence[RelationExample], windower: Windower, *, labelled: bool) -> Iterator[Sample]:
        config = self.config
        roles = _ROLES[config.direction]
        markers = EntityMarkers(windower.tokenizer, config.markers, roles, self.fitted.entity_labels)
        all_tokens = windower.tokenize([example.text for example in examples])
        for index, (example, tokens) in enumerate(zip(examples, all_tokens, strict=True)):
            targets = self._targets(example) if labelled else None
            yield from self._encode_example(index, example, tokens, windower, markers, targets)

    def _targets(self, example: RelationExample) -> dict[Pair, int]:
        """The class of each pair that has a relation; of several relations the first, or an error (data.bad_rows)."""
        pairs = set(self._classes.pairs(example.entities or ()))
        targets: dict[Pair, int] = {}
        for relation in example.relations:
            pair = (relation.head, relation.tail)
            inverse = pair not in pairs
            if inverse:
                pair = pair[::-1]
            if pair in targets and self.config.data.bad_rows == "refuse":
                cause = f"entities {pair[0]} and {pair[1]} have two relations, and head=markers predicts only one"
                raise example.row.error(cause, "use head=pairs or head=joint, or data.bad_rows=drop")
            if pair in pairs:
                targets.setdefault(pair, self._classes.class_of(relation.label, inverse=inverse))
        return targets

    def _encode_example(
        self,
        index: int,
        example: RelationExample,
        tokens: Tokens,
        windower: Windower,
        markers: EntityMarkers,
        targets: dict[Pair, int] | None,
    ) -> Iterator[Sample]:
        entities = example.entities or ()
        ranges = [tokens_over(tokens.starts, tokens.ends, entity.start, entity.end) for entity in entities]
        for pair in self._classes.pairs(entities):
            first, second = (ranges[entity] for entity in pair)
            if first is None or second is None:
                continue
            labels = [entities[entity].label for entity in pair]
            around = _window_around(tokens, (first, second), windower, markers.added_tokens(labels))
            if around is None:
                continue
            window_tokens, window_pair, truncated = around
            marked, is_fixed = markers.mark(window_tokens, window_pair, labels, entity_tokens(window_tokens, example))
            window = windower.single(marked)[0]
            fixed = np.zeros(len(window.sequence), bool)
            fixed[window.first_start : window.first_start + len(is_fixed)] = is_fixed
            yield Sample(
                example=index,
                sequences=(window.sequence,),
                features={"pair": np.array([pair], np.int64)},
                targets={} if targets is None else {"label": np.array([targets.get(pair, 0)], np.int64)},
                fixed=fixed,
                truncated=truncated,
            )

    @override
    def layers(self, encoder: "Encoder") -> "SequenceTaskHead":
        from spanlab.tasks.heads import SequenceTaskHead

        return SequenceTaskHead(encoder, "label", self._classes.names)

    @override
    def decode(
        self, example: RelationExample, samples: Sequence[Sample], outputs: Sequence[NDArray[np.float32]]
    ) -> tuple[tuple[Entity, ...], tuple[ScoredRelation, ...]]:
        relations = []
        for sample, logits in zip(samples, outputs, strict=True):
            exponentials = np.exp(logits.astype(np.float64) - logits.max())
            best = int(logits.argmax())
            if best:
                head, tail = sample.features["pair"][0].tolist()
                label, inverse = self._classes.relation_of(best)
                if inverse:
                    head, tail = tail, head
                score = round(float(exponentials[best] / exponentials.sum()), 6)
                relations.append(ScoredRelation(head=head, tail=tail, label=label, score=score))
        return given_entities(example), tuple(relations)


class PairClasses:
    """The classes of a pair: no relation, or a relation, in one of two directions unless markers give it."""

    def __init__(self, direction: Direction, labels: tuple[str, ...]) -> None:
        self.direction, self.labels = direction, labels

    @property
    def names(self) -> tuple[str, ...]:
        """In the order of the head's outputs."""
        if self.direction == "marker":
            return (NO_RELATION, *self.labels)
        return (NO_RELATION, *(f"{label}({order})" for label in self.labels for order in ("e1,e2", "e2,e1")))

    def pairs(self, entities: Sequence[TextSpan]) -> list[Pair]:
        """The pairs that are classified; none of an entity with its duplicate."""
        order = sorted(range(len(entities)), key=lambda index: (entities[index].start, -entities[index].end))
        pairs = combinations(order, 2) if self.direction == "label" else permutations(order, 2)
        return [(a, b) for a, b in pairs if entities[a] != entities[b]]

    def class_of(self, label: str, *, inverse: bool) -> int:
        """The class of a relation; `inverse`: from the second of the pair to the first."""
        index = self.labels.index(label)
        return 1 + index if self.direction == "marker" else 1 + 2 * index + inverse

    def relation_of(self, index: int) -> tuple[str, bool]:
        """Label and direction of a class other than 0."""
        label, inverse = (index - 1, 0) if self.direction == "marker" else divmod(index - 1, 2)
        return self.labels[label], bool(inverse)


def _window_around(
    tokens: Tokens, pair: tuple[TokenRange, TokenRange], windower: Windower, added: int
) -> tuple[Tokens, list[TokenRange], bool] | None:
    """The part of a text around a pair that leaves `added` tokens for its markers, and whether text was truncated."""
    size = windower.length - windower.reserved() - added
    if len(tokens) <= size or windower.long_text == "error":  # then the windower refuses what is too long
        return tokens, list(pair), False
    low, high = min(first for first, _ in pair), max(last for _, last in pair) + 1
    truncate = windower.long_text == "truncate"
    begin = 0 if truncate else min(max(0, low - (size - (high - low)) // 2), len(tokens) - size)
    if high > begin + size or low < begin:
        return None
    part = slice(begin, begin + size)
    cut = Tokens(tokens.ids[part], tokens.starts[part], tokens.ends[part], tokens.word_starts[part])
    return cut, [(first - begin, last - begin) for first, last in pair], truncate
