"""Readers of labelled files, written from the definitions of the formats and from nothing else.

They are deliberately strict: what a definition does not allow is an assertion error here.
"""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Spans = dict[tuple[int, int], str]


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    """One JSON object a line; the last line ends with a line feed too."""
    text = path.read_text(encoding="utf-8")
    assert text.endswith("\n")
    records = [json.loads(line) for line in text[:-1].split("\n")]
    assert all(isinstance(record, dict) for record in records)
    return records


def read_table(path: Path) -> list[dict[str, str]]:
    """Tab-separated values: a header, no quoting, as many values in every line."""
    header, *rows = [line.split("\t") for line in path.read_text(encoding="utf-8").removesuffix("\n").split("\n")]
    return [dict(zip(header, row, strict=True)) for row in rows]


@dataclass
class ColumnDocument:
    """A document of a column file. Columns know no spaces, so spans count the characters that are none."""

    words: list[list[str]] = field(default_factory=list)
    entities: Spans = field(default_factory=dict)
    clusters: dict[str, set[tuple[int, int]]] = field(default_factory=dict)
    speakers: list[set[str]] = field(default_factory=list)
    length: int = 0

    @property
    def text(self) -> str:
        return "".join(word for sentence in self.words for word in sentence)


def read_conll_columns(path: Path) -> list[ColumnDocument]:
    """CoNLL-2003 with two columns, the tags in IOB2: B- starts an entity, I- goes on with one of the same type."""
    documents: list[ColumnDocument] = []
    for block in path.read_text(encoding="utf-8").strip("\n").split("\n\n"):
        if block == "-DOCSTART- O":
            documents.append(ColumnDocument())
            continue
        rows = [line.split(" ") for line in block.split("\n")]
        _add_iob2_sentence(documents[-1], [(word, tag) for word, tag in rows])
    return documents


def _add_iob2_sentence(document: ColumnDocument, rows: list[tuple[str, str]]) -> None:
    document.words.append([word for word, _ in rows])
    opened: tuple[int, str] | None = None
    for word, tag in [*rows, ("", "O")]:
        prefix, _, label = tag.partition("-")
        assert prefix in {"B", "I", "O"}
        assert (prefix == "O") == (label == "")
        if prefix == "I":
            assert opened
            assert opened[1] == label
        elif opened:
            document.entities[opened[0], document.length] = opened[1]
            opened = None
        if prefix == "B":
            opened = document.length, label
        document.length += len(word)


def read_squad(path: Path) -> list[dict[str, Any]]:
    """SQuAD 2.0: the questions, each with its title and context; offsets checked, impossible ones without answers."""
    whole = json.loads(path.read_text(encoding="utf-8"))
    assert whole["version"] == "v2.0"
    questions = []
    for article in whole["data"]:
        for paragraph in article["paragraphs"]:
            for question in paragraph["qas"]:
                assert question["is_impossible"] == (question["answers"] == [])
                assert question["is_impossible"] == ("plausible_answers" in question)
                for answer in question["answers"] + question.get("plausible_answers", []):
                    start = answer["answer_start"]
                    assert paragraph["context"][start : start + len(answer["text"])] == answer["text"]
                questions.append({**question, "title": article["title"], "context": paragraph["context"]})
    return questions


BEGIN = re.compile(r"#begin document \((?P<id>[^)]*)\); part (?P<part>\d{3})")


def read_conll_2012(path: Path) -> dict[str, ColumnDocument]:
    """CoNLL-2012 by document id: words, speakers, the bracketed names, and the chains of the last column."""
    documents: dict[str, ColumnDocument] = {}
    name = None
    sentence: list[list[str]] = []
    for line in path.read_text(encoding="utf-8").removesuffix("\n").split("\n"):
        if line.startswith("#begin"):
            begin = BEGIN.fullmatch(line)
            assert name is None
            assert begin
            name = begin["id"]
            assert name not in documents
            documents[name] = ColumnDocument()
        elif line == "#end document":
            assert not sentence
            name = None
        elif line:
            sentence.append(line.split())
        else:
            assert name is not None
            _add_2012_sentence(documents[name], name, sentence)
            sentence = []
    assert name is None
    return documents


def _add_2012_sentence(document: ColumnDocument, name: str, rows: list[list[str]]) -> None:
    assert all(len(row) == 12 for row in rows)
    assert all(row[:2] == [name, "0"] for row in rows)
    assert [int(row[2]) for row in rows] == list(range(len(rows)))
    parse = "".join(row[5] for row in rows)
    assert parse.startswith("(TOP*")
    assert parse.count("(") == parse.count(")") == 1
    document.words.append([row[3] for row in rows])
    document.speakers.append({row[9] for row in rows})
    open_name: tuple[int, str] | None = None
    open_chains: dict[str, list[int]] = {}
    for row in rows:
        start, end = document.length, document.length + len(row[3])
        open_name = _read_name(row[10], open_name, start, end, document.entities)
        _read_chain(row[11], open_chains, start, end, document.clusters)
        document.length = end
    assert open_name is None
    assert not any(open_chains.values())


def _read_name(
    cell: str, opened: tuple[int, str] | None, start: int, end: int, entities: Spans
) -> tuple[int, str] | None:
    found = re.fullmatch(r"(?:\((?P<label>[A-Z]+))?(?P<star>\*?)(?P<close>\)?)", cell)
    assert found
    assert cell
    if found["label"]:
        assert opened is None
        assert bool(found["star"]) != bool(found["close"])
        opened = start, found["label"]
    if found["close"]:
        assert opened
        entities[opened[0], end] = opened[1]
        return None
    return opened


def _read_chain(
    cell: str, opened: dict[str, list[int]], start: int, end: int, clusters: dict[str, set[tuple[int, int]]]
) -> None:
    for part in [] if cell == "-" else cell.split("|"):
        found = re.fullmatch(r"(?P<open>\(?)(?P<chain>\d+)(?P<close>\)?)", part)
        assert found
        if found["open"]:
            opened.setdefault(found["chain"], []).append(start)
        if found["close"]:
            clusters.setdefault(found["chain"], set()).add((opened[found["chain"]].pop(), end))


@dataclass(frozen=True, kw_only=True)
class MarkedSentence:
    """An item of SemEval-2010 task 8: the bare sentence, where e1 and e2 stand in it, the relation, the comment."""

    text: str
    e1: tuple[int, int]
    e2: tuple[int, int]
    label: str
    forward: bool
    comment: str


def read_semeval(path: Path) -> list[MarkedSentence]:
    """Blocks of three lines: number and quoted sentence, relation with direction, comment."""
    items = []
    for number, block in enumerate(path.read_text(encoding="utf-8").rstrip("\n").split("\n\n"), start=1):
        sentence, relation, comment = block.split("\n")
        quoted = re.fullmatch(rf'{number}\t"(.*)"', sentence)
        told = re.fullmatch(r"(\w+)\((e1,e2|e2,e1)\)", relation)
        assert quoted
        assert told
        assert comment.startswith("Comment: ")
        places: dict[str, int] = {}
        bare = ""
        for part in re.split(r"(</?e[12]>)", quoted[1]):
            if re.fullmatch(r"</?e[12]>", part):
                assert part not in places
                places[part] = len(bare)
            else:
                bare += part
        items.append(
            MarkedSentence(
                text=bare,
                e1=(places["<e1>"], places["</e1>"]),
                e2=(places["<e2>"], places["</e2>"]),
                label=told[1],
                forward=told[2] == "e1,e2",
                comment=comment.removeprefix("Comment: "),
            )
        )
    return items
