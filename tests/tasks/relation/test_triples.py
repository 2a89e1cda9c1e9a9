"""Triples: which entities are one, what the table holds, and that the graph is valid N-Triples."""

import csv
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spanlab.errors import InputError
from spanlab.tasks.ner.data import Entity
from spanlab.tasks.relation.data import RelationResult, ScoredRelation
from spanlab.tasks.relation.triples import TripleFile, document_triples, name_entities

TEXT = "Captain Anna Berg left Oslo. She, the captain, lives in Bergen."
STATEMENT = re.compile(
    r'(<[^<>"{}|^`\\\s]+>|_:\w+) <[^<>"{}|^`\\\s]+> (<[^<>"{}|^`\\\s]+>|"(?:[^"\\\n\r]|\\.)*"(\^\^<[^>]+>)?) \.'
)


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


def test_the_table_has_a_row_an_occurrence(tmp_path: Path) -> None:
    path = tmp_path / "triples.csv"
    with TripleFile(path) as file:
        file.add(RESULT, CLUSTERS)
        file.add(RelationResult(id="d2", entities=RESULT.entities, relations=RESULT.relations[:1], source=TEXT))
    with path.open(encoding="utf-8", newline="") as text:
        rows = list(csv.DictReader(text))
    assert file.count == len(rows) == 3
    assert [row["source"] for row in rows] == ["d1", "d1", "d2"]
    assert rows[0] | {"score": ""} == {
        "subject": "Anna Berg",
        "relation": "left",
        "object": "Oslo",
        "subject_type": "PER",
        "object_type": "LOC",
        "score": "",
        "source": "d1",
        "subject_start": "8",
        "subject_end": "17",
        "object_start": "23",
        "object_end": "27",
    }


def test_equal_names_of_documents_are_one_node_and_every_source_is_told(tmp_path: Path) -> None:
    path = tmp_path / "triples.nt"
    with TripleFile(path) as file:
        for name in ("d1", "d2"):
            file.add(RelationResult(id=name, entities=RESULT.entities, relations=RESULT.relations[:1], source=TEXT))
    lines = path.read_text(encoding="utf-8").splitlines()
    fact = "<urn:spanlab:entity:PER:anna%20berg> <urn:spanlab:relation:left> <urn:spanlab:entity:LOC:oslo> ."
    assert lines.count(fact) == 1
    sources = [line for line in lines if "terms/source" in line]
    assert [line.rsplit(" ", 2)[1] for line in sources] == ['"d1"', '"d2"']
    assert len(lines) == 5 + 2 * 6


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12), st.text(max_size=5))
@settings(max_examples=80)
def test_whatever_names_hold_the_graph_is_valid(
    tmp_path_factory: pytest.TempPathFactory, name: str, label: str
) -> None:
    label = label.encode("utf-8", "replace").decode() or "x"
    entities = (
        Entity(start=0, end=1, label=label, text=name, score=1.0),
        Entity(start=1, end=2, label="y", text="other", score=1.0),
    )
    relations = (ScoredRelation(head=0, tail=1, label=label, score=0.5),)
    path = tmp_path_factory.mktemp("graph") / "x.nt"
    with TripleFile(path) as file:
        file.add(RelationResult(id=name, entities=entities, relations=relations, source="ab"))
    for line in path.read_text(encoding="utf-8").split("\n")[:-1]:
        assert STATEMENT.fullmatch(line), line


def test_another_kind_of_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"\.csv or \.nt"):
        TripleFile(tmp_path / "triples.txt")
