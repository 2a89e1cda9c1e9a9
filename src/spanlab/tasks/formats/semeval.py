"""SemEval-2010 task 8: a numbered, quoted sentence with `<e1>` and `<e2>`, then a line with the directed relation.

    1	"The <e1>author</e1> of a keygen uses a <e2>disassembler</e2>."
    Instrument-Agency(e2,e1)
    Comment: …

Each sentence leaves as a row: the text without quotes and tags, the two entities, and the relation from its first
argument to its second; `Other` is no relation. The unlabelled test file has only the sentences.
"""

import re
from collections.abc import Iterator
from typing import Any

from spanlab.errors import InputError
from spanlab.tasks.formats.lines import read_lines
from spanlab.tasks.formats.row import Row

ENTITY = "entity"
"""The label of both entities; the format has no entity types."""
_SENTENCE = re.compile(r"\s*(\d+)\t(.*)")
_TAG = re.compile(r"</?e[12]>")
_RELATION = re.compile(r"(\S+)\((e[12]),(e[12])\)")
_FIX = 'write the id, a tab and "… <e1>…</e1> … <e2>…</e2> …", and the relation on the next line'


def is_semeval(line: str) -> bool:
    """Whether the first line of a file is a sentence of this format."""
    return _SENTENCE.fullmatch(line) is not None and "<e1>" in line


def read_semeval(path: str) -> Iterator[Row | InputError]:
    """One row per sentence: id, text, entities and, if the file is labelled, relations."""
    row: Row | InputError | None = None
    for line_number, line in read_lines(path):
        if isinstance(line, InputError):
            yield line
            continue
        sentence = _SENTENCE.fullmatch(line)
        if sentence is not None:
            if row is not None:
                yield row
            row = _read_sentence(path, line_number, sentence)
        elif isinstance(row, Row) and "relations" not in row.values and line.strip() and not line.startswith("Comment"):
            row = _add_relation(row, line_number, line.strip())
    if row is not None:
        yield row


def _read_sentence(path: str, line_number: int, match: re.Match[str]) -> Row | InputError:
    """The row of a sentence line: quotes removed, tags turned into character offsets."""
    marked = match[2].strip()
    if len(marked) > 1 and marked[0] == marked[-1] == '"':
        marked = marked[1:-1]
    text, offsets, copied = "", dict[str, int](), 0
    for tag in _TAG.finditer(marked):
        text += marked[copied : tag.start()]
        copied = tag.end()
        offsets[tag[0]] = len(text)
    text += marked[copied:]
    if len(offsets) != 4:
        missing = next(tag for tag in ("<e1>", "</e1>", "<e2>", "</e2>") if tag not in offsets)
        return InputError(f"'{missing}' is missing", path=path, line=line_number, fix=_FIX)
    entities = [{"start": offsets[f"<{e}>"], "end": offsets[f"</{e}>"], "label": ENTITY} for e in ("e1", "e2")]
    return Row(values={"id": match[1], "text": text, "entities": entities}, path=path, line=line_number)


def _add_relation(row: Row, line_number: int, label: str) -> Row | InputError:
    """The row with the relation written on the line below its sentence."""
    match = _RELATION.fullmatch(label)
    if label != "Other" and (match is None or match[2] == match[3]):
        cause = f"'{label[:40]}' is not a relation"
        return InputError(cause, path=row.path, line=line_number, fix="write Name(e1,e2), Name(e2,e1) or Other")
    relations: list[dict[str, Any]] = []
    if match is not None:
        relations = [{"head": int(match[2][1]) - 1, "tail": int(match[3][1]) - 1, "label": match[1]}]
    return Row(values={**row.values, "relations": relations}, path=row.path, line=row.line)
