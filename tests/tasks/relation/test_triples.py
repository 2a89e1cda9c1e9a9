"""Triples: which entities are one."""

from spanlab.tasks.ner.data import Entity
from spanlab.tasks.relation.data import RelationResult, ScoredRelation
from spanlab.tasks.relation.triples import document_triples, name_entities

TEXT = "Captain Anna Berg left Oslo. She, the captain, lives in Bergen."


def entity(text: str, label: str, source: str = TEXT) -> Entity:
    start = source.index(text)
    return Entity(start=start, end=start + len(text), label=label, text=text, score=1.0)


def span(text: str) -> list[int]:
    return [TEXT.index(text), TEXT.index(text) + len(text)]


RESULT = RelationResult(
    id="d1",
    entities=(
        entity("Anna Berg", "PER"),
        entity("Oslo", "LOC"),
        entity("She", "PER"),
        entity("captain", "PER"),
        entity("Bergen", "LOC"),
    ),
    relations=(
        ScoredRelation(head=0, tail=1, label="left", score=0.9),
        ScoredRelation(head=2, tail=4, label="lives in", score=0.8),
        ScoredRelation(head=3, tail=0, label="is", score=0.7),
    ),
    source=TEXT,
)
CLUSTERS = [[span("Captain Anna Berg"), span("She"), span("the captain")]]


def test_entities_of_a_cluster_are_one_under_the_longest_name() -> None:
    apart = [triple.subject for triple in document_triples(RESULT)]
    assert apart == ["Anna Berg", "She", "captain"]
    joined = list(document_triples(RESULT, CLUSTERS))
    assert [(one.subject, one.relation, one.object) for one in joined] == [
        ("Anna Berg", "left", "Oslo"),
        ("Anna Berg", "lives in", "Bergen"),
    ]
    assert TEXT[joined[1].subject_start : joined[1].subject_end] == "She"
    assert {one.source for one in joined} == {"d1"}


def test_a_mention_that_might_name_either_entity_joins_neither() -> None:
    both = RelationResult(
        id="d", entities=(entity("Anna Berg", "PER"), entity("Oslo", "LOC")), relations=(), source=TEXT
    )
    clusters = [[[0, TEXT.index("Oslo") + 4], span("Bergen")]]
    assert [node.name for node in name_entities(both, clusters)] == ["Anna Berg", "Oslo"]
