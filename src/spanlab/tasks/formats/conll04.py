"""CoNLL04 in columns: number, word, IOB2 tag, the relations of a word, and the words they lead to.

    #doc 1024
    16	Grande	B-Loc	['N']	[16]
    17	Isle	I-Loc	['Located_In']	[22]

A relation stands at the last word of its head and leads to the last word of its tail; `N` is none. A document is a
sentence; `#doc` begins it, or a blank line ends it. Words are joined by a space.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from spanlab.errors import InputError
from spanlab.tasks.formats.columns import join_words
from spanlab.tasks.formats.lines import read_lines
from spanlab.tasks.formats.row import Row
from spanlab.text.tag_schemes import tags_to_spans

_NONE = "N"
_LINE = re.compile(r"\d+\t[^\t]+\t[^\t]+\t\[[^\t]*\]\t\[[^\t]*\]")
_FIX = "write number, word, tag, ['Relation', …] and [number, …], separated by tabs"


def is_conll04(line: str) -> bool:
    """Whether the first line of a file belongs to this format."""
    return line.startswith("#doc") or _LINE.fullmatch(line) is not None


@dataclass(kw_only=True)
class _Document:
    line: int
    name: str | None
    words: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    links: list[tuple[int, int, str, int]] = field(default_factory=list)
    """The word a relation stands at, the one it leads to, its name, and its line."""


def read_conll04(path: str) -> Iterator[Row | InputError]:
    """One row a document: id, text, words, entities and relations."""
    document: _Document | None = None
    for number, line in read_lines(path):
        if isinstance(line, InputError):
            yield line
        elif line.startswith("#doc") or not line.strip():
            if document is not None and document.words:
                yield _row(path, document)
            name = line.removeprefix("#doc").strip()
            document = _Document(line=number, name=name) if name else None
        else:
            document = document or _Document(line=number, name=None)
            fault = _add(path, number, line, document)
            if fault is not None:
                yield fault
    if document is not None and document.words:
        yield _row(path, document)


def _add(path: str, number: int, line: str, document: _Document) -> InputError | None:
    """Take a word into the document; the error of a line that is none."""
    cells = line.split("\t")
    if len(cells) != 5:
        return InputError(f"{len(cells)} columns where 5 belong", path=path, line=number, fix=_FIX)
    try:
        names, tails = (json.loads(cell.replace("'", '"')) for cell in cells[3:])
    except json.JSONDecodeError:
        return InputError(f"'{cells[3]}' or '{cells[4]}' is no list", path=path, line=number, fix=_FIX)
    if len(names) != len(tails) or not all(isinstance(tail, int) for tail in tails):
        return InputError(f"{len(names)} relations and {len(tails)} words", path=path, line=number, fix=_FIX)
    place = len(document.words)
    document.words.append(cells[1])
    document.tags.append(cells[2])
    document.links += [(place, t, name, number) for name, t in zip(names, tails, strict=True) if name != _NONE]
    return None


def _row(path: str, document: _Document) -> Row | InputError:
    text, words = join_words(document.words, spaced=False)
    try:
        spans = tags_to_spans(document.tags, "IOB2")
    except InputError as error:
        return InputError(error.cause, path=path, line=document.line, fix=error.fix)
    entities = [{"start": words[span.start][0], "end": words[span.end - 1][1], "label": span.label} for span in spans]
    ends = {span.end - 1: number for number, span in enumerate(spans)}
    relations: list[dict[str, Any]] = []
    for head, tail, label, line in document.links:
        if head not in ends or tail not in ends:
            cause = (
                f"the relation '{label}' leads from word {head} to {tail}, and an entity ends only at one or neither"
            )
            return InputError(cause, path=path, line=line, fix="relations join the last words of two entities")
        relations.append({"head": ends[head], "tail": ends[tail], "label": label})
    values: dict[str, Any] = {"text": text, "entities": entities, "relations": relations}
    values["words"] = [list(word) for word in words]
    return Row(
        values=values if document.name is None else {"id": document.name, **values}, path=path, line=document.line
    )
