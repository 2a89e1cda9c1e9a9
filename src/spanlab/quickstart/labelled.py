"""The labelled files of a quickstart: what of the almanac can be learnt in minutes.

Of names inside names the outermost is kept, so that tags can say it, which are learnt faster than scores of all spans;
of questions those that have an answer, since it takes many more to learn when there is none.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from spanlab.quickstart.plan import LANGUAGE, QuickstartTask
from spanlab.samples import Passage, load
from spanlab.samples.exports import files_of
from spanlab.samples.exports.records import json_lines

SPLITS = ("train", "dev", "test")
Record = Mapping[str, Any]


def write_labelled(folder: Path, task: QuickstartTask) -> dict[str, int]:
    """A file of JSON lines for each split; how many examples each holds."""
    counts = {}
    for split in SPLITS:
        examples = list(_KEPT[task.task](files_of(task.task).examples(_passages(split))))
        (folder / f"{split}.jsonl").write_text(json_lines(examples), encoding="utf-8", newline="\n")
        counts[split] = len(examples)
    return counts


def _passages(split: str) -> list[Passage]:
    return [passage for passage in load() if passage.split == split and passage.language == LANGUAGE]


def _outermost_entities(records: Iterable[Record]) -> Iterator[Record]:
    for record in records:
        spans: list[Record] = []
        for span in record["spans"]:  # in the order of the text, outer before inner
            if not spans or span["start"] >= spans[-1]["end"]:
                spans.append(span)
        yield {**record, "spans": spans}


def _answered_questions(records: Iterable[Record]) -> Iterator[Record]:
    return (record for record in records if record["answers"])


_KEPT: Mapping[str, Callable[[Iterable[Record]], Iterator[Record]]] = {
    "ner": _outermost_entities,
    "qa": _answered_questions,
}
