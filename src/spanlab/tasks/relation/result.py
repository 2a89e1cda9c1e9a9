"""What is found of relations: entities, and relations among them by their number."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from html import escape
from typing import Any

from spanlab.metrics.relations import EntityRelations
from spanlab.tasks.formats.row import Row
from spanlab.tasks.ner.data import Entity
from spanlab.tasks.relation.data import NO_RELATION, RelationExample, relation_problems
from spanlab.tasks.result import Result
from spanlab.tasks.spans.html import draw_spans
from spanlab.tasks.spans.labelled import span_problems


@dataclass(frozen=True, kw_only=True)
class FoundRelation:
    """From entity `head` to entity `tail`, by their number in the result."""

    head: int
    tail: int
    label: str
    score: float


@dataclass(frozen=True, kw_only=True)
class RelationResult(Result):
    """The entities of one text, given or found, and the relations among them."""

    entities: tuple[Entity, ...]
    relations: tuple[FoundRelation, ...]
    source: str = field(metadata={"json": False})
    """The text they are of."""

    @property
    def told(self) -> EntityRelations:
        """For the scorer."""
        return EntityRelations(
            entities=tuple((one.start, one.end, one.label) for one in self.entities),
            relations=tuple((one.head, one.tail, one.label) for one in self.relations),
        )

    def to_html(self) -> str:
        """The text with its entities marked, and a line for every relation."""
        drawn = draw_spans(self.source, [(one.start, one.end, one.label) for one in self.entities])
        lines = "".join(
            f"<li>{escape(self.entities[one.head].text)} <b>{escape(one.label)}</b> "
            f"{escape(self.entities[one.tail].text)}</li>"
            for one in self.relations
        )
        return f"<div class='relations'>{drawn}<ul>{lines}</ul></div>"


_SHAPELESS = {"no entities", "incomplete span", "offset is no number", "empty label"}
"""What makes a prediction unreadable; one that is only wrong is scored."""


def read_relation_result(row: Row, number: int, example: RelationExample) -> RelationResult:
    """A prediction from a file; without entities of its own, its relations are among those of the example."""
    given = [asdict(entity) for entity in example.entities or ()]
    values: dict[str, Any] = {"entities": given, **row.values, "text": example.text}
    whole = Row(values=values, path=row.path, line=row.line)
    for problem in span_problems(whole, "entities"):
        if problem.kind in _SHAPELESS:
            raise problem.error(row)
    for problem in relation_problems(whole, len(values["entities"])):
        if problem.serious:
            raise problem.error(row)
    name = str(number) if example.id is None else example.id
    return RelationResult(
        id=name,
        entities=tuple(_entity(value, example.text) for value in values["entities"]),
        relations=tuple(_relation(value) for value in values["relations"] if value["label"] != NO_RELATION),
        source=example.text,
    )


def _entity(value: Mapping[str, Any], text: str) -> Entity:
    start, end = value["start"], value["end"]
    return Entity(
        start=start, end=end, label=value["label"], text=text[start:end], score=float(value.get("score", 1.0))
    )


def _relation(value: Mapping[str, Any]) -> FoundRelation:
    score = float(value.get("score", 1.0))
    return FoundRelation(head=value["head"], tail=value["tail"], label=value["label"], score=score)
