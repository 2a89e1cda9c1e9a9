"""The relations of a document as triples with their source.

Input: a result, optionally with coreference clusters of the same text. Output: a `Triple` for each occurrence of a
relation. The entities of a cluster are merged under the longest of their names. Across documents, entities are
identified by name only: two people with the same name differ only in the sources of their triples.
`inference/writers.py` writes triples as a table (CSV) and as a graph (N-Triples).
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from spanlab.tasks.relation.data import Clusters, RelationResult


@dataclass(frozen=True, kw_only=True)
class Node:
    """An entity of a document, with all its mentions merged."""

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
    """The relations of one document, with entities merged by cluster; relations within an entity are left out."""
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
