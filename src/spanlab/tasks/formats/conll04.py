"""CoNLL04 in columns: word index, word, IOB2 tag, the relations whose head ends at this word, and their tails.

    #doc 1024
    16	Grande	B-Loc	['N']	[16]
    17	Isle	I-Loc	['Located_In']	[22]

A relation is written at the last word of its head and gives the index of the last word of its tail; `N` is none. A
document is one sentence, which begins at `#doc` or after a blank line. It leaves as one row: the words joined by
spaces, entities by character, and relations by entity index.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from spanlab.errors import InputError
from spanlab.strict_parsing import parse_json
from spanlab.tasks.formats.columns import join_words
from spanlab.tasks.formats.lines import read_lines
from spanlab.tasks.formats.row import Row
from spanlab.text.tag_schemes import tags_to_spans

_NO_RELATION = "N"
_LINE = re.compile(r"\d+\t[^\t]+\t[^\t]+\t\[[^\t]*\]\t\[[^\t]*\]")
_FIX = "write index, word, tag, ['Relation', …] and [index, …], separated by tabs"


def is_conll04(line: str) -> bool:
    """Whether the first line of a file belongs to this format."""
    return line.startswith("#doc") or _LINE.fullmatch(line) is not None


@dataclass(kw_only=True)
class _Document:
    line: int
    name: str | None
    words: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    relations: list[tuple[int, int, str, int]] = field(default_factory=list)
    """Last word of the head, last word of the tail, label, and line."""


def read_conll04(path: str) -> Iterator[Row | InputError]:
    """One row per document: id, text, words, entities and relations."""
    document: _Document | None = None
    for line_number, line in read_lines(path):
        if isinstance(line, InputError):
            yield line
        elif line.startswith("#doc") or not line.strip():
            if document is not None and document.words:
                yield _row(path, document)
            name = line.removeprefix("#doc").strip()
            document = _Document(line=line_number, name=name) if name else None
        else:
            document = document or _Document(line=line_number, name=None)
            error = _add_word(path, line_number, line, document)
            if error is not None:
                yield error
    if document is not None and document.words:
        yield _row(path, document)


def _add_word(path: str, line_number: int, line: str, document: _Document) -> InputError | None:
    """Append the word of a line to the document; returns an error if the line is malformed."""
    cells = line.split("\t")
    if len(cells) != 5:
        return InputError(f"{len(cells)} columns; expected 5", path=path, line=line_number, fix=_FIX)
    try:
        labels, tails = (parse_json(cell.replace("'", '"')) for cell in cells[3:])
    except InputError:
        return InputError(f"'{cells[3]}' or '{cells[4]}' is not a list", path=path, line=line_number, fix=_FIX)
    if len(labels) != len(tails) or not all(isinstance(tail, int) for tail in tails):
        cause = f"{len(labels)} relations, but {len(tails)} tails"
        return InputError(cause, path=path, line=line_number, fix=_FIX)
    head = len(document.words)
    document.words.append(cells[1])
    document.tags.append(cells[2])
    for label, tail in zip(labels, tails, strict=True):
        if label != _NO_RELATION:
            document.relations.append((head, tail, label, line_number))
    return None


def _row(path: str, document: _Document) -> Row | InputError:
    text, words = join_words(document.words, spaced=False)
    try:
        spans = tags_to_spans(document.tags, "IOB2")
    except InputError as error:
        return InputError(error.cause, path=path, line=document.line, fix=error.fix)
    entities = [{"start": words[span.start][0], "end": words[span.end - 1][1], "label": span.label} for span in spans]
    entity_ending_at = {span.end - 1: index for index, span in enumerate(spans)}
    relations: list[dict[str, Any]] = []
    for head, tail, label, line in document.relations:
        if head not in entity_ending_at or tail not in entity_ending_at:
            cause = f"the relation '{label}' is from word {head} to word {tail}, which do not both end an entity"
            return InputError(cause, path=path, line=line, fix="give the last words of two entities")
        relations.append({"head": entity_ending_at[head], "tail": entity_ending_at[tail], "label": label})
    values: dict[str, Any] = {"text": text, "entities": entities, "relations": relations}
    values["words"] = [list(word) for word in words]
    return Row(
        values=values if document.name is None else {"id": document.name, **values}, path=path, line=document.line
    )
