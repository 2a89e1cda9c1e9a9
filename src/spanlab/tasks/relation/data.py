"""Relations among the entities of a text: examples as users write them, and results.

Input: rows with `text`, `entities` and `relations`, whose `head` and `tail` are indices of entities, from 0. Output:
problems of a row, examples, results. Entities stay in the order given, since relations refer to them by index.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from html import escape
from typing import Any

from spanlab.errors import clip_repr
from spanlab.metrics.relations import EntityRelations
from spanlab.tasks.formats.row import Row
from spanlab.tasks.ner.data import Entity
from spanlab.tasks.result import Result, result_id
from spanlab.tasks.spans.html import draw_spans
from spanlab.tasks.spans.labelled import TextSpan, span_problems
from spanlab.tasks.validation import Problem, read_id, text_problems

NO_RELATION = "no_relation"
"""A relation with this label says that there is none, as TACRED writes it."""
_UNREADABLE = {"no entities", "incomplete span", "offset is not a number", "empty label"}
"""Problems that make a prediction unreadable; any other prediction is scored as it is."""


@dataclass(frozen=True, kw_only=True, order=True)
class TextRelation:
    """A gold relation from entity `head` to entity `tail`, which are indices of the entities of the text."""

    head: int
    tail: int
    label: str


@dataclass(frozen=True, kw_only=True)
class RelationExample:
    """A text with its entities, and with the relations among them if it is labelled."""

    id: str | None
    text: str
    entities: tuple[TextSpan, ...] | None
    """In the order given; None if the row has no entities."""
    relations: tuple[TextRelation, ...]
    row: Row = field(repr=False, compare=False)

    @property
    def gold(self) -> EntityRelations:
        """For the scorer."""
        return _for_scorer(self.entities or (), self.relations)


Clusters = Sequence[Sequence[Sequence[int]]]
"""Mentions of a text as start and end, in characters."""


@dataclass(frozen=True, kw_only=True)
class ScoredRelation:
    """A predicted relation from entity `head` to entity `tail`, which are indices of the entities of the result."""

    head: int
    tail: int
    label: str
    score: float


@dataclass(frozen=True, kw_only=True)
class RelationResult(Result):
    """The entities of one text, given or predicted, and the relations among them."""

    entities: tuple[Entity, ...]
    relations: tuple[ScoredRelation, ...]
    source: str = field(metadata={"json": False})
    """The text."""
    clusters: Clusters = field(default=(), metadata={"json": False})
    """Coreference clusters of the text, by another model: they join its entities in triples."""

    @property
    def predicted(self) -> EntityRelations:
        """For the scorer."""
        return _for_scorer(self.entities, self.relations)

    def to_html(self) -> str:
        """The text with its entities marked, and a row for every relation."""
        drawn = draw_spans(self.source, [(entity.start, entity.end, entity.label) for entity in self.entities])
        rows = "".join(
            f"<tr><td>{escape(self.entities[relation.head].text)}</td><td><b>{escape(relation.label)}</b></td>"
            f"<td>{escape(self.entities[relation.tail].text)}</td><td>{relation.score:.2f}</td></tr>"
            for relation in self.relations
        )
        return f"<div class='relations'>{drawn}<table>{rows}</table></div>"


def _for_scorer(
    entities: Sequence[TextSpan | Entity], relations: Sequence[TextRelation | ScoredRelation]
) -> EntityRelations:
    return EntityRelations(
        entities=tuple((entity.start, entity.end, entity.label) for entity in entities),
        relations=tuple((relation.head, relation.tail, relation.label) for relation in relations),
    )


def example_problems(row: Row, *, labelled: bool) -> Iterator[Problem]:
    """Everything that is wrong with a row; without `labelled`, only with its text and given entities."""
    problems = list(text_problems(row, "text"))
    yield from problems
    if any(problem.serious and (labelled or not problem.empty) for problem in problems):
        return
    entities = row.values.get("entities")
    if labelled or entities is not None:
        yield from span_problems(row, "entities")
    if labelled and isinstance(entities, list):
        yield from relation_problems(row, len(entities))


def relation_problems(row: Row, entities: int) -> Iterator[Problem]:
    """What is wrong with the relations of a row that has `entities` entities."""
    relations = row.values.get("relations")
    if not isinstance(relations, list):
        cause = (
            "'relations' is missing"
            if relations is None
            else f"'relations' is {clip_repr(relations)}; it must be a list"
        )
        yield Problem(kind="no relations", cause=cause, fix='a text without relations has "relations": []')
        return
    seen = set()
    for index, relation in enumerate(relations):
        problem = next(_problems_of_relation(index, relation, entities), None)
        if problem is not None:
            yield problem
        elif (key := (relation["head"], relation["tail"], relation["label"])) in seen:
            yield Problem(kind="duplicate relation", cause=f"relation {index} is a duplicate", serious=False)
        else:
            seen.add(key)


def _problems_of_relation(
    index: int,
    relation: Any,  # noqa: ANN401 (anything JSON holds)
    entities: int,
) -> Iterator[Problem]:
    if not isinstance(relation, Mapping) or not {"head", "tail", "label"} <= relation.keys():
        cause = f"relation {index} is {clip_repr(relation)}"
        yield Problem(kind="incomplete relation", cause=cause, fix="give head, tail and label")
        return
    for name in ("head", "tail"):
        where = f"'{name}' of relation {index} is {clip_repr(relation[name])}"
        if type(relation[name]) is not int:
            yield Problem(kind="index is not a number", cause=f"{where}; it must be the index of an entity")
        elif not 0 <= relation[name] < entities:
            cause = f"{where}, and there are {entities} entities"
            yield Problem(kind="relation to a missing entity", cause=cause, fix="count entities from 0")
    if not isinstance(relation["label"], str) or not relation["label"].strip():
        cause = f"'label' of relation {index} is {clip_repr(relation['label'])}; it must be text"
        yield Problem(kind="empty label", cause=cause)
    if relation["head"] == relation["tail"]:
        cause = f"relation {index} is from entity {relation['head']} to itself"
        yield Problem(kind="relation of an entity with itself", cause=cause, fix="leave it out")


def parse_example(row: Row, *, labelled: bool) -> RelationExample:
    """A row without serious problems as an example; without `labelled`, entities are read where they are given."""
    entities = row.values.get("entities")
    relations = {
        TextRelation(head=relation["head"], tail=relation["tail"], label=relation["label"])
        for relation in (row.values["relations"] if labelled else ())
        if relation["label"] != NO_RELATION
    }
    return RelationExample(
        id=read_id(row),
        text=row.values["text"],
        entities=None
        if entities is None
        else tuple(TextSpan(start=entity["start"], end=entity["end"], label=entity["label"]) for entity in entities),
        relations=tuple(sorted(relations)),
        row=row,
    )


def read_prediction(row: Row, index: int, example: RelationExample) -> RelationResult:
    """A prediction of any system, from a file; without entities, its relations are among those of the example."""
    given = [asdict(entity) for entity in example.entities or ()]
    values: dict[str, Any] = {"entities": given, **row.values, "text": example.text}
    whole = Row(values=values, path=row.path, line=row.line)
    for problem in span_problems(whole, "entities"):
        if problem.kind in _UNREADABLE:
            raise problem.error(row)
    for problem in relation_problems(whole, len(values["entities"])):
        if problem.serious:
            raise problem.error(row)
    entities = (
        Entity(
            start=entity["start"],
            end=entity["end"],
            label=entity["label"],
            text=example.text[entity["start"] : entity["end"]],
            score=float(entity.get("score", 1.0)),
        )
        for entity in values["entities"]
    )
    relations = (
        ScoredRelation(
            head=relation["head"],
            tail=relation["tail"],
            label=relation["label"],
            score=float(relation.get("score", 1.0)),
        )
        for relation in values["relations"]
        if relation["label"] != NO_RELATION
    )
    return RelationResult(
        id=result_id(index, example.id),
        entities=tuple(entities),
        relations=tuple(relations),
        source=example.text,
    )
