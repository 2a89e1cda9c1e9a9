"""Relations: the label of a given pair, or entities and relations found together.

What enters is a label for each pair, or for each text its entities and the relations among them; what leaves is
`precision`, `recall`, `f1` and `macro_f1` in percent. Three rules are in use:

- TACRED's: micro scores over the pairs, where "no relation" is neither something to find nor something found.
- SemEval-2010 task 8's official one, "(9+1)-way with directionality taken into account": the two directions of a
  relation are one class, but a prediction is right only with its direction; `Other` and relations that the key does not
  hold are left out; the official score is `macro_f1`.
- Joint extraction: a relation is right when its label and both its entities are, with their types (strict) or by their
  boundaries alone.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from spanlab.errors import InputError
from spanlab.metrics.entities import score_entities
from spanlab.metrics.pairing import check_paired
from spanlab.metrics.precision_recall import LabelScores, label_table, micro_and_macro, named_scores

_DIRECTION = re.compile(r"\(e[12],e[12]\)$")

Entity = tuple[int, int, str]
"""Start, end, label."""
Relation = tuple[tuple[object, ...], tuple[object, ...], str]


@dataclass(frozen=True, kw_only=True)
class EntityRelations:
    """The entities of a text and the relations among them: head and tail by their place in `entities`, and a label."""

    entities: tuple[Entity, ...]
    relations: tuple[tuple[int, int, str], ...]

    def __post_init__(self) -> None:
        for head, tail, label in self.relations:
            if not (0 <= head < len(self.entities) and 0 <= tail < len(self.entities)):
                raise InputError(
                    f"the relation '{label}' goes from entity {head} to {tail}, and there are {len(self.entities)}",
                    fix="count entities from 0",
                )


def score_relations(
    gold: Sequence[str], predicted: Sequence[str], *, no_relation: str = "no_relation"
) -> dict[str, float]:
    """The scores of one label a pair, by TACRED's rule."""
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
    mean over the relations that the key holds, both directions of one taken together, right only with the direction.
    """
    wanted, found = [by_boundaries(text) for text in gold], [by_boundaries(text) for text in predicted]
    known = {_label(relation) for text in wanted for relation in text}
    in_key = [[relation for relation in text if _label(relation) in known] for text in found]
    return {
        **micro_and_macro(wanted, found, _label),
        "macro_f1": micro_and_macro(wanted, in_key, _label)["macro_f1"],
    }


def relation_label_table(
    gold: Sequence[EntityRelations], predicted: Sequence[EntityRelations], *, typed: bool
) -> dict[str, LabelScores]:
    """The scores of each relation; `typed`: right only with the types of its entities."""
    things = by_boundaries_and_types if typed else by_boundaries
    return label_table([things(text) for text in gold], [things(text) for text in predicted], _label)


def score_joint_relations(gold: Sequence[EntityRelations], predicted: Sequence[EntityRelations]) -> dict[str, float]:
    """The scores of relations found together with their entities.

    `precision`, `recall`, `f1` and `macro_f1` are strict; `boundary_…` asks for the entities' boundaries only;
    `entity_…` is of the entities themselves, with their types.
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
