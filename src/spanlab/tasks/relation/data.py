"""Relations among the entities of a text as users write them: what can be wrong with them, and what they become.

What enters is a row with `text`, `entities` and `relations`, whose heads and tails count the entities from 0; what
leaves are problems, or an example. Entities stay in the order in which they were given, since relations count them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from spanlab.metrics.relations import EntityRelations
from spanlab.tasks.formats.row import Row
from spanlab.tasks.spans.labelled import TextSpan, span_problems
from spanlab.tasks.validation import Problem, clip_repr, read_id, text_problems

NO_RELATION = "no_relation"
"""A relation with this label says that there is none, as TACRED writes it."""


@dataclass(frozen=True, kw_only=True, order=True)
class TextRelation:
    """From entity `head` to entity `tail`, by their number among the entities of the text."""

    head: int
    tail: int
    label: str


@dataclass(frozen=True, kw_only=True)
class RelationExample:
    """A text with its entities, and with the relations among them where they are known."""

    id: str | None
    text: str
    entities: tuple[TextSpan, ...] | None
    """In the order given; None where the text came alone."""
    relations: tuple[TextRelation, ...]
    row: Row = field(repr=False, compare=False)

    @property
    def gold(self) -> EntityRelations:
        """For the scorer."""
        entities = tuple((one.start, one.end, one.label) for one in self.entities or ())
        return EntityRelations(
            entities=entities, relations=tuple((one.head, one.tail, one.label) for one in self.relations)
        )


def example_problems(row: Row, *, labelled: bool) -> Iterator[Problem]:
    """Everything wrong with a row; without `labelled`, entities may be missing and relations are not checked."""
    problems = list(text_problems(row, "text"))
    yield from problems
    if any(problem.serious for problem in problems):
        return
    if labelled or row.values.get("entities") is not None:
        yield from span_problems(row, "entities")
    if labelled and isinstance(row.values.get("entities"), list):
        yield from relation_problems(row, len(row.values["entities"]))


def relation_problems(row: Row, entities: int) -> Iterator[Problem]:
    """What is wrong with the relations of a row with so many entities."""
    values = row.values.get("relations")
    if not isinstance(values, list):
        cause = (
            "there is no 'relations'" if values is None else f"'relations' is {clip_repr(values)}; it must be a list"
        )
        yield Problem(kind="no relations", cause=cause, fix='a text without any has "relations": []')
        return
    seen = set()
    for number, value in enumerate(values):
        found = next(_relation_faults(number, value, entities), None)
        if found is not None:
            yield found
        elif (key := (value["head"], value["tail"], value["label"])) in seen:
            yield Problem(kind="doubled relation", cause=f"relation {number} is there twice", serious=False)
        else:
            seen.add(key)


def _relation_faults(number: int, value: Any, entities: int) -> Iterator[Problem]:  # noqa: ANN401 (anything JSON holds)
    if not isinstance(value, Mapping) or not {"head", "tail", "label"} <= value.keys():
        cause = f"relation {number} is {clip_repr(value)}"
        yield Problem(kind="incomplete relation", cause=cause, fix="give head, tail and label")
        return
    for name in ("head", "tail"):
        where = f"'{name}' of relation {number} is {clip_repr(value[name])}"
        if type(value[name]) is not int:
            yield Problem(kind="index is no number", cause=f"{where}; it must be the number of an entity")
        elif not 0 <= value[name] < entities:
            cause = f"{where}, and there are {entities} entities"
            yield Problem(kind="relation to a missing entity", cause=cause, fix="count entities from 0")
    if not isinstance(value["label"], str) or not value["label"].strip():
        cause = f"'label' of relation {number} is {clip_repr(value['label'])}; it must be text"
        yield Problem(kind="empty label", cause=cause)
    if value["head"] == value["tail"]:
        cause = f"relation {number} leads from entity {value['head']} to itself"
        yield Problem(kind="relation of an entity with itself", cause=cause, fix="leave it out")


def read_example(row: Row, *, labelled: bool) -> RelationExample:
    """A row without serious problems as an example; without `labelled`, entities are read where they are given."""
    values = row.values.get("entities")
    entities = None if values is None else tuple(_entity(value) for value in values)
    told = row.values["relations"] if labelled else ()
    relations = {TextRelation(head=one["head"], tail=one["tail"], label=one["label"]) for one in told}
    return RelationExample(
        id=read_id(row),
        text=row.values["text"],
        entities=entities,
        relations=tuple(sorted(one for one in relations if one.label != NO_RELATION)),
        row=row,
    )


def _entity(value: Mapping[str, Any]) -> TextSpan:
    return TextSpan(start=value["start"], end=value["end"], label=value["label"])
