"""Training, dev and test files for entities and relations, from the almanac, WNUT-17, LitBank and CoNLL04.

Enters: the folder of data sets. Leaves: JSON lines in a folder. The other sources know fewer types than the almanac: a
text of theirs is used only if it has no number and no word of the calendar, so that no DATE or QUANTITY in it is
missing; of LitBank's mentions the names are used, not "the man".
"""

import io
import json
import re
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from reader_training.qa_data import write_rows
from spanlab.samples import load
from spanlab.samples.export import Selection, export
from spanlab.tasks.config import TaskDataConfig
from spanlab.tasks.examples import read_labelled
from spanlab.tasks.ner.task import NamedEntities
from spanlab.tasks.relation.task import Relations

Row = dict[str, Any]
Span = dict[str, Any]

WNUT_TYPES = {
    "person": "PER",
    "location": "LOC",
    "corporation": "ORG",
    "group": "ORG",
    "creative-work": "WORK",
    "product": "PRODUCT",
}
LITBANK_TYPES = {"PER": "PER", "GPE": "LOC", "LOC": "LOC", "ORG": "ORG"}
"""Buildings (FAC) are LOC in the almanac only if they have a name; vehicles have no type there."""
CONLL04_TYPES = {"Peop": "PER", "Loc": "LOC", "Org": "ORG"}
CONLL04_RELATIONS = {"Located_In": "located_in", "OrgBased_In": "located_in", "Work_For": "works_for"}
"""Live_In is also said of a birthplace, which the almanac calls born_in."""
CONLL2003_TYPES = ("PER", "LOC", "ORG")
ENTITY_COPIES, RELATION_COPIES = 6, 3
"""The almanac is the only source of five of the eight types."""
LITBANK_SENTENCES = 3
"""Sentences of LitBank in one example."""
_UNLABELLED = re.compile(
    r"\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\w+teen|twenty|thirty|forty|fifty|sixty|"
    r"seventy|eighty|ninety|hundreds?|thousands?|millions?|dozens?|half|january|february|march|april|may|june|july|"
    r"august|september|october|november|december|\w+day|today|tonight|tomorrow|yesterday|years?|months?|weeks?|"
    r"hours?|minutes?|spring|summer|autumn|winter|christmas|easter|century)\b",
    re.IGNORECASE,
)
_NAME = re.compile(r"[A-Z][\w.'’-]*(?: (?:of|the|de|von|van|and)? ?[A-Z][\w.'’-]*)*")


def write_entity_files(data: Path, out: Path) -> None:
    """Write `train.jsonl`, `dev.jsonl`, `almanac_test.jsonl` and `conll2003_test.jsonl`."""
    almanac = almanac_rows("ner", out)
    train = [{**row, "id": f"{row['id']}-{copy}"} for copy in range(ENTITY_COPIES) for row in almanac["train"]]
    for source in (
        column_rows(data / "ner/wnut17.train", WNUT_TYPES),
        column_rows(data / "ner/wnut17.dev", WNUT_TYPES),
        litbank_rows(data / "ner/litbank_entities.tar.xz"),
    ):
        train += [row for row in source if not _UNLABELLED.search(row["text"])]
    write_rows(out / "train.jsonl", train)
    write_rows(out / "dev.jsonl", almanac["dev"])
    write_rows(out / "almanac_test.jsonl", almanac["test"])
    news = column_rows(data / "ner/conll2003.dev", {name: name for name in CONLL2003_TYPES})
    write_rows(out / "conll2003_test.jsonl", news)


def write_relation_files(data: Path, out: Path) -> None:
    """Write `train.jsonl`, `dev.jsonl` and `almanac_test.jsonl`."""
    almanac = almanac_rows("relation", out)
    train = [{**row, "id": f"{row['id']}-{copy}"} for copy in range(RELATION_COPIES) for row in almanac["train"]]
    train += [row for row in conll04_rows(data / "relation/conll04.train") if not _UNLABELLED.search(row["text"])]
    write_rows(out / "train.jsonl", train)
    write_rows(out / "dev.jsonl", almanac["dev"])
    write_rows(out / "almanac_test.jsonl", almanac["test"])


def almanac_rows(task: str, out: Path) -> dict[str, list[Row]]:
    """The English passages of the almanac with the labels of a task, by split."""
    export(load(), task, out / "almanac", Selection(language="en", format="jsonl"), overwrite=True)
    return {
        split: [json.loads(line) for line in (out / "almanac" / f"{split}.jsonl").read_text().splitlines()]
        for split in ("train", "dev", "test")
    }


def column_rows(path: Path, types: dict[str, str]) -> list[Row]:
    """Sentences of a file in CoNLL's columns, with the entities of the types that are named, renamed."""
    examples = read_labelled(NamedEntities, str(path), TaskDataConfig())
    return [
        {
            "id": f"{path.name}-{row.line}",
            "text": row.values["text"],
            "spans": [
                {**span, "label": types[span["label"]]} for span in row.values["spans"] if span["label"] in types
            ],
        }
        for row in examples.rows
    ]


def conll04_rows(path: Path) -> Iterator[Row]:
    """Sentences of CoNLL04 with the entities and relations that the almanac has, too."""
    for row in read_labelled(Relations, str(path), TaskDataConfig()).rows:
        entities = row.values["entities"]
        kept = [index for index, entity in enumerate(entities) if entity["label"] in CONLL04_TYPES]
        yield {
            "id": f"{path.name}-{row.line}",
            "text": row.values["text"],
            "entities": [{**entities[index], "label": CONLL04_TYPES[entities[index]["label"]]} for index in kept],
            "relations": [
                {
                    "head": kept.index(relation["head"]),
                    "tail": kept.index(relation["tail"]),
                    "label": CONLL04_RELATIONS[relation["label"]],
                }
                for relation in row.values["relations"]
                if relation["label"] in CONLL04_RELATIONS and {relation["head"], relation["tail"]} <= set(kept)
            ],
        }


def litbank_rows(path: Path) -> Iterator[Row]:
    """A few sentences of LitBank at a time, with the names of people, places and organisations in them."""
    with tarfile.open(path) as archive:
        for member in sorted(archive.getmembers(), key=lambda member: member.name):
            file = archive.extractfile(member) if member.name.endswith(".tsv") else None
            if file is not None:
                lines = io.TextIOWrapper(file, encoding="utf-8").read().splitlines()
                sentences = list(_sentences(lines))
                for start in range(0, len(sentences), LITBANK_SENTENCES):
                    words = [word for sentence in sentences[start : start + LITBANK_SENTENCES] for word in sentence]
                    yield {"id": f"{Path(member.name).stem}-{start}", **_labelled_text(words)}


def _sentences(lines: Sequence[str]) -> Iterator[list[list[str]]]:
    """Sentences as lists of rows: a word and its tags, one for each level of nesting."""
    sentence: list[list[str]] = []
    for line in [*lines, ""]:
        cells = line.rstrip().split("\t")
        if len(cells) > 1:
            sentence.append(cells)
        elif sentence:
            yield sentence
            sentence = []


def _labelled_text(words: Sequence[Sequence[str]]) -> Row:
    """The words joined by spaces, and the names among their mentions."""
    starts, text = [], ""
    for cells in words:
        text += " " if text else ""
        starts.append(len(text))
        text += cells[0]
    found = {(span["start"], span["end"]): span for span in _mentions(words, starts)}
    spans = [span for span in found.values() if _NAME.fullmatch(text[span["start"] : span["end"]])]
    return {"text": text, "spans": sorted(spans, key=lambda span: (span["start"], -span["end"]))}


def _mentions(words: Sequence[Sequence[str]], starts: Sequence[int]) -> Iterable[Span]:
    """The mentions of LitBank's types that the almanac has, at every level of nesting."""
    ends = [start + len(cells[0]) for start, cells in zip(starts, words, strict=True)]
    for level in range(1, max(map(len, words), default=1)):
        first: int | None = None
        tags = [cells[level] if level < len(cells) else "O" for cells in words]
        for index, tag in enumerate([*tags, "O"]):
            if first is not None and not tag.startswith("I-"):
                label = tags[first][2:]
                if label in LITBANK_TYPES:
                    yield {"start": starts[first], "end": ends[index - 1], "label": LITBANK_TYPES[label]}
                first = None
            if tag.startswith("B-"):
                first = index
