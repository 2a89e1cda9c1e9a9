"""Relations: the label of a given pair, or entities and relations extracted together.

What enters is a label for each pair, or for each text its entities and the relations among them; what leaves is
`precision`, `recall`, `f1` and `macro_f1` in percent. Three rules are common:

- TACRED's: micro scores over the pairs, where "no relation" counts neither as gold nor as predicted.
- SemEval-2010 task 8's official rule, "(9+1)-way with directionality taken into account": the two directions of a
  relation are one class, but a prediction is correct only with its direction; `Other` and relations absent from the key
  are left out; the official score is `macro_f1`.
- Joint extraction: a relation is correct when its label and both entities are, with their types (strict) or by
  boundaries alone.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from spanlab.errors import InputError
from spanlab.metrics.entities import score_entities
from spanlab.metrics.precision_recall import LabelScores, check_paired, label_table, micro_and_macro, named_scores

_DIRECTION = re.compile(r"\(e[12],e[12]\)$")

Entity = tuple[int, int, str]
"""Start, end, label."""
Relation = tuple[tuple[object, ...], tuple[object, ...], str]


@dataclass(frozen=True, kw_only=True)
class EntityRelations:
    """The entities of a text and the relations among them: head and tail as indices of `entities`, and a label."""

    entities: tuple[Entity, ...]
    relations: tuple[tuple[int, int, str], ...]

    def __post_init__(self) -> None:
        for head, tail, label in self.relations:
            if not (0 <= head < len(self.entities) and 0 <= tail < len(self.entities)):
                raise InputError(
                    f"the relation '{label}' links entities {head} and {tail}, but there are {len(self.entities)}",
                    fix="count entities from 0",
                )


def score_relations(
    gold: Sequence[str], predicted: Sequence[str], *, no_relation: str = "no_relation"
) -> dict[str, float]:
    """The scores of one label per pair, by TACRED's rule."""
    return micro_and_macro(_without(gold, no_relation), _without(predicted, no_relation), str)


def relation_table(
    gold: Sequence[str], predicted: Sequence[str], *, no_relation: str = "no_relation"
) -> dict[str, LabelScores]:
    """The scores of each relation, "no relation" left out."""
    return label_table(_without(gold, no_relation), _without(predicted, no_relation), str)


def score_semeval_2010_task_8(gold: Sequence[str], predicted: Sequence[str]) -> dict[str, float]:
    """The official scores of labels such as `Cause-Effect(e2,e1)` and `Other`; the official number is `macro_f1`."""
    known = {undirected(label) for label in gold} - {"Other"}
    return micro_and_macro(
        [{label} if undirected(label) in known else set() for label in gold],
        [{label} if undirected(label) in known else set() for label in predicted],
        undirected,
    )


def undirected(label: str) -> str:
    """A relation's name without `(e1,e2)` or `(e2,e1)`."""
    return _DIRECTION.sub("", label)


def score_given_relations(gold: Sequence[EntityRelations], predicted: Sequence[EntityRelations]) -> dict[str, float]:
    """The scores of relations among given entities, whose types do not count.

    `precision`, `recall` and `f1` are TACRED's micro scores. `macro_f1` is SemEval-2010 task 8's official score: the
    mean over the relations in the key, both directions taken together, correct only with the direction.
    """
    gold_relations = [by_boundaries(text) for text in gold]
    predicted_relations = [by_boundaries(text) for text in predicted]
    known = {_label(relation) for relations in gold_relations for relation in relations}
    in_key = [[relation for relation in relations if _label(relation) in known] for relations in predicted_relations]
    return {
        **micro_and_macro(gold_relations, predicted_relations, _label),
        "macro_f1": micro_and_macro(gold_relations, in_key, _label)["macro_f1"],
    }


def relation_label_table(
    gold: Sequence[EntityRelations], predicted: Sequence[EntityRelations], *, typed: bool
) -> dict[str, LabelScores]:
    """The scores of each relation; `typed`: correct only with the types of its entities."""
    relations_of = by_boundaries_and_types if typed else by_boundaries
    return label_table([relations_of(text) for text in gold], [relations_of(text) for text in predicted], _label)


def score_joint_relations(gold: Sequence[EntityRelations], predicted: Sequence[EntityRelations]) -> dict[str, float]:
    """The scores of relations extracted together with their entities.

    `precision`, `recall`, `f1` and `macro_f1` are strict; `boundary_…` ignores entity types; `entity_…` scores
    the entities themselves, with their types.
    """
    check_paired(gold, predicted, "texts")
    strict = micro_and_macro(
        [by_boundaries_and_types(text) for text in gold], [by_boundaries_and_types(text) for text in predicted], _label
    )
    bounds = micro_and_macro(
        [by_boundaries(text) for text in gold], [by_boundaries(text) for text in predicted], _label
    )
    entities = score_entities([text.entities for text in gold], [text.entities for text in predicted])
    return {
        **strict,
        **named_scores("boundary", bounds["precision"], bounds["recall"]),
        **named_scores("entity", entities["precision"], entities["recall"]),
    }


def _without(labels: Sequence[str], no_relation: str) -> list[tuple[str, ...]]:
    return [() if label == no_relation else (label,) for label in labels]


def by_boundaries_and_types(text: EntityRelations) -> list[Relation]:
    """Relations as head, tail and label; an entity is its start, end and label."""
    return [(text.entities[head], text.entities[tail], label) for head, tail, label in text.relations]


def by_boundaries(text: EntityRelations) -> list[Relation]:
    """Relations as head, tail and label; an entity is its start and end."""
    return [(head[:2], tail[:2], label) for head, tail, label in by_boundaries_and_types(text)]


def _label(relation: Relation) -> str:
    return relation[2]
