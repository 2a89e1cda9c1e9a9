"""Relations between entities: by index in JSON lines, and one a block in the manner of SemEval-2010 task 8.

A relation of the almanac holds between two entities, however often each is named. The files ask for two spans, so a
relation is told by two names, one of each entity: the nearest in one sentence, else a name inside the other
("Berlin Marathon"), else the nearest of all.
"""

from collections.abc import Sequence
from itertools import product

from spanlab.samples.exports.ner import typed_spans
from spanlab.samples.exports.records import Record
from spanlab.samples.passage import Mention, Passage, Relation


def relations(passages: Sequence[Passage]) -> list[Record]:
    """Every passage with its typed spans and the relations between them, by their index."""
    records: list[Record] = []
    for passage in passages:
        told = []
        for relation in passage.relations:
            head, tail = nearest_names(passage, relation)
            indexes = {"head": passage.entities.index(head), "tail": passage.entities.index(tail)}
            told.append({**indexes, "label": relation.label})
        records.append({"id": passage.id, "text": passage.text, "entities": typed_spans(passage), "relations": told})
    return records


def nearest_names(passage: Passage, relation: Relation) -> tuple[Mention, Mention]:
    """The typed mentions of head and tail that tell the relation; of equals, the first in the text."""
    heads, tails = (
        [mention for mention in passage.mentions_of(entity) if mention.label]
        for entity in (relation.head, relation.tail)
    )

    def distance(pair: tuple[Mention, Mention]) -> tuple[int, int, int, int]:
        first, second = sorted(pair, key=_order)
        nested = second.end <= first.end
        together = any(s.start <= first.start and second.end <= s.end for s in passage.sentences)
        rank = 1 if nested else 0 if together else 2
        return rank, second.start - first.end, pair[0].start, pair[1].start

    return min(product(heads, tails), key=distance)


def semeval(passages: Sequence[Passage]) -> str:
    """Each relation as a numbered quotation with `<e1>` and `<e2>`, its label with direction, and the passage's id."""
    blocks: list[str] = []
    for passage in passages:
        for relation in passage.relations:
            pair = nearest_names(passage, relation)
            direction = "e1,e2" if _order(pair[0]) < _order(pair[1]) else "e2,e1"
            quotation = _quote(passage, *sorted(pair, key=_order))
            number = len(blocks) + 1
            blocks.append(f'{number}\t"{quotation}"\n{relation.label}({direction})\nComment: {passage.id}\n')
    return "\n".join(blocks)


def _order(mention: Mention) -> tuple[int, int]:
    return mention.start, -mention.end


def _quote(passage: Passage, first: Mention, second: Mention) -> str:
    """The sentences from the one to the other, on one line, with both marked; a name in a name is marked inside."""
    inside = [s for s in passage.sentences if s.end > first.start and s.start < max(first.end, second.end)]
    start, end = inside[0].start, inside[-1].end
    marks = [(first.start, "<e1>"), (first.end, "</e1>"), (second.start, "<e2>"), (second.end, "</e2>")]
    if second.end <= first.end:
        marks = [marks[0], *marks[2:], marks[1]]
    text, last = "", start
    for place, mark in marks:
        text += passage.text[last:place] + mark
        last = place
    return (text + passage.text[last:end]).replace("\n", " ")
