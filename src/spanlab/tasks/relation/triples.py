"""Relations over many documents as triples with their sources: a table (CSV) or a graph (N-Triples).

What enters are results, document by document, each with coreference clusters of the same text or none; what leaves is
one row per occurrence, or a graph in which equal names of one type are one node. Entities of one cluster are one node,
named by the longest of their names. Across documents, entities are matched by name alone, ignoring case; two people of
one name can be told apart by the sources, which every statement has.
"""

import csv
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

from spanlab.errors import InputError
from spanlab.tasks.relation.data import RelationResult

Clusters = Sequence[Sequence[Sequence[int]]]
"""Of one text: mentions as start and end, in characters."""
_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_LABEL = "<http://www.w3.org/2000/01/rdf-schema#label>"
_SOURCE = "<http://purl.org/dc/terms/source>"
_DOUBLE = "<http://www.w3.org/2001/XMLSchema#double>"
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"})


@dataclass(frozen=True, kw_only=True)
class Node:
    """An entity, whatever its mentions in a document."""

    name: str
    label: str


@dataclass(frozen=True, kw_only=True)
class Triple:
    """One occurrence of a relation; the names of the fields are the header of the table."""

    subject: str
    relation: str
    object: str
    subject_type: str
    object_type: str
    score: float
    source: str
    """The id of the document."""
    subject_start: int
    subject_end: int
    object_start: int
    object_end: int


def document_triples(result: RelationResult, clusters: Clusters = ()) -> Iterator[Triple]:
    """The relations of one document, its entities merged by the clusters; none of an entity with itself."""
    nodes = name_entities(result, clusters)
    for relation in result.relations:
        subject, object_ = nodes[relation.head], nodes[relation.tail]
        head, tail = result.entities[relation.head], result.entities[relation.tail]
        if subject == object_:
            continue
        yield Triple(
            subject=subject.name,
            relation=relation.label,
            object=object_.name,
            subject_type=subject.label,
            object_type=object_.label,
            score=relation.score,
            source=result.id,
            subject_start=head.start,
            subject_end=head.end,
            object_start=tail.start,
            object_end=tail.end,
        )


def name_entities(result: RelationResult, clusters: Clusters = ()) -> list[Node]:
    """The node of each entity: that of its cluster, else its own text and label."""
    nodes = [Node(name=" ".join(entity.text.split()), label=entity.label) for entity in result.entities]
    for cluster in clusters:
        members = [index for mention in cluster for index in _entities_of(result, mention[0], mention[1])]
        if not members:
            continue
        name = max((nodes[index].name for index in members), key=len)
        label = Counter(nodes[index].label for index in members).most_common(1)[0][0]
        for index in members:
            nodes[index] = Node(name=name, label=label)
    return nodes


def _entities_of(result: RelationResult, start: int, end: int) -> list[int]:
    """The entities that a mention refers to: those with the same characters, else the only one inside it, at its end.

    "the captain" refers to the entity "captain"; so does "Anna's captain", unless "Anna" is an entity too: then the
    mention is ambiguous.
    """
    spans = [(entity.start, entity.end) for entity in result.entities]
    same = [index for index, span in enumerate(spans) if span == (start, end)]
    inside = [index for index, span in enumerate(spans) if start <= span[0] and span[1] <= end]
    return same or (inside if len(inside) == 1 and result.entities[inside[0]].end == end else [])


class TripleTable:
    """A CSV file, one row per occurrence."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", encoding="utf-8", newline="")
        self._rows = csv.writer(self._file)
        self._rows.writerow([field.name for field in fields(Triple)])

    def write(self, triple: Triple) -> None:
        """Add a row."""
        self._rows.writerow(astuple(triple))

    def close(self) -> None:
        """Finish the file."""
        self._file.close()


class TripleGraph:
    """An N-Triples file: nodes with type and name, facts, and for each occurrence a statement about its fact."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", encoding="utf-8", newline="\n")
        self._written: set[str] = set()
        self._statements = 0

    def write(self, triple: Triple) -> None:
        """Add the nodes and the fact, if they are new, and a statement with this document as its source."""
        subject = self._node(triple.subject, triple.subject_type)
        object_ = self._node(triple.object, triple.object_type)
        relation = _iri("relation", triple.relation)
        self._once(f"{subject} {relation} {object_} .")
        statement = f"_:s{self._statements}"
        self._statements += 1
        for predicate, value in (
            (f"<{_RDF}type>", f"<{_RDF}Statement>"),
            (f"<{_RDF}subject>", subject),
            (f"<{_RDF}predicate>", relation),
            (f"<{_RDF}object>", object_),
            (_SOURCE, _literal(triple.source)),
            (_iri("score"), f'"{triple.score}"^^{_DOUBLE}'),
        ):
            self._file.write(f"{statement} {predicate} {value} .\n")

    def close(self) -> None:
        """Finish the file."""
        self._file.close()

    def _node(self, name: str, label: str) -> str:
        node = _iri("entity", label, name.casefold())
        self._once(f"{node} <{_RDF}type> {_iri('type', label)} .")
        self._once(f"{node} {_LABEL} {_literal(name)} .")
        return node

    def _once(self, line: str) -> None:
        if line not in self._written:
            self._written.add(line)
            self._file.write(line + "\n")


class TripleFile:
    """A file of triples, CSV or N-Triples by its suffix; a context manager."""

    def __init__(self, path: Path) -> None:
        writers: dict[str, type[TripleTable | TripleGraph]] = {".csv": TripleTable, ".nt": TripleGraph}
        if path.suffix.lower() not in writers:
            raise InputError("triples are written as a table or a graph", path=path, fix="name the file .csv or .nt")
        self._file = writers[path.suffix.lower()](path)
        self.count = 0

    def add(self, result: RelationResult, clusters: Clusters = ()) -> None:
        """The relations of one document."""
        for triple in document_triples(result, clusters):
            self._file.write(triple)
            self.count += 1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


def _iri(*parts: str) -> str:
    return f"<urn:spanlab:{':'.join(quote(part, safe='') for part in parts)}>"


def _literal(text: str) -> str:
    return f'"{text.translate(_ESCAPES)}"'
