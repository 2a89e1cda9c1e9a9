"""Results as stand-off annotations of brat: NAME.txt with the texts, and NAME.ann with what is marked in them.

All results are one document, since a pair of files is one: each text begins on a line of its own, and offsets count
from the beginning of NAME.txt. The lines of NAME.ann:

| | |
|---|---|
| `T1<tab>PER 0 4<tab>Anna` | a span; one over several lines has a pair of offsets for each, `0 4;5 9` |
| `R1<tab>lives_in Arg1:T1 Arg2:T2` | a relation between two of them |
| `*<tab>Coref T1 T2` | mentions of one thing |
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spanlab.tasks.coref.data import CorefResult
    from spanlab.tasks.ner.data import NerResult
    from spanlab.tasks.relation.data import RelationResult

    Marked = NerResult | CorefResult | RelationResult
_MENTION = "Mention"
_LINE = re.compile(r"[^\n]+")


def brat_texts(results: "Iterable[Marked]") -> Iterator[str]:
    """The content of NAME.txt."""
    return (_text(result) + "\n" for result in results)


def brat_annotations(results: "Iterable[Marked]") -> Iterator[str]:
    """The content of NAME.ann."""
    spans, relations, offset = count(1), count(1), 0
    for result in results:
        text = _text(result)
        ids: dict[tuple[int, int], str] = {}
        names: list[str] = []
        lines: list[str] = []
        for start, end, label in _spans(result):
            names.append(f"T{next(spans)}")
            ids[start, end] = names[-1]
            lines.append(_span_line(names[-1], label, text, start, end, offset))
        lines += _links(result, names, ids, relations)
        offset += len(text) + 1
        yield "".join(f"{line}\n" for line in lines)


def _text(result: "Marked") -> str:
    """The text with line breaks of one character, which brat and editors count alike."""
    return result.source.replace("\r", "\n")


def _spans(result: Any) -> Iterator[tuple[int, int, str]]:  # noqa: ANN401 (one of `Marked`, told apart by its fields)
    if hasattr(result, "clusters") and hasattr(result, "mentions"):
        yield from ((start, end, _MENTION) for cluster in result.clusters for start, end in cluster)
        return
    entities = result.entities if hasattr(result, "entities") else result.spans
    yield from ((entity.start, entity.end, entity.label) for entity in entities)


def _span_line(name: str, label: str, text: str, start: int, end: int, offset: int) -> str:
    pieces = [match.span() for match in _LINE.finditer(text, start, end)] or [(start, end)]
    places = ";".join(f"{first + offset} {last + offset}" for first, last in pieces)
    return f"{name}\t{_word(label)} {places}\t{' '.join(text[first:last] for first, last in pieces)}"


def _links(result: Any, names: Sequence[str], ids: dict[tuple[int, int], str], number: Iterator[int]) -> Iterator[str]:  # noqa: ANN401
    """The relations by the index of their entities, or the clusters by the place of their mentions."""
    if hasattr(result, "relations"):
        for relation in result.relations:
            arguments = f"Arg1:{names[relation.head]} Arg2:{names[relation.tail]}"
            yield f"R{next(number)}\t{_word(relation.label)} {arguments}"
    elif hasattr(result, "mentions"):
        for cluster in result.clusters:
            yield f"*\tCoref {' '.join(ids[span] for span in map(tuple, cluster))}"


def _word(label: str) -> str:
    """A label without the spaces that separate brat's fields."""
    return "_".join(label.split()) or "_"
