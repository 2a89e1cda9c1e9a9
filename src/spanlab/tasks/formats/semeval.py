"""SemEval-2010 task 8: a numbered quotation with `<e1>` and `<e2>`, under it the relation with its direction.

    1	"The <e1>author</e1> of a keygen uses a <e2>disassembler</e2>."
    Instrument-Agency(e2,e1)
    Comment: …

What leaves is the text without quotes and tags, the two entities, and the relation from its first argument to its
second; `Other` is no relation. The test file without labels has the first lines alone.
"""

import re
from collections.abc import Iterator
from typing import Any

from spanlab.errors import InputError
from spanlab.tasks.formats.lines import read_lines
from spanlab.tasks.formats.row import Row

ENTITY = "entity"
"""The label of both entities: the format does not say what they are."""
_SENTENCE = re.compile(r"\s*(\d+)\t(.*)")
_TAG = re.compile(r"</?e[12]>")
_RELATION = re.compile(r"(\S+)\((e[12]),(e[12])\)")
_FIX = 'write the number, a tab and "… <e1>…</e1> … <e2>…</e2> …", and the relation in the next line'


def is_semeval(line: str) -> bool:
    """Whether the first line of a file is a sentence of this format."""
    found = _SENTENCE.fullmatch(line)
    return found is not None and "<e1>" in line


def read_semeval(path: str) -> Iterator[Row | InputError]:
    """One row a sentence: id, text, entities and, where its label stands there, relations."""
    row: Row | InputError | None = None
    for number, line in read_lines(path):
        if isinstance(line, InputError):
            yield line
            continue
        sentence = _SENTENCE.fullmatch(line)
        if sentence is not None:
            if row is not None:
                yield row
            row = _sentence(path, number, sentence)
        elif isinstance(row, Row) and _may_be_label(row, line):
            row = _labelled(row, number, line.strip())
    if row is not None:
        yield row


def _may_be_label(row: Row, line: str) -> bool:
    return bool(line.strip()) and "relations" not in row.values and not line.startswith("Comment")


def _sentence(path: str, number: int, found: re.Match[str]) -> Row | InputError:
    quotation = found[2].strip()
    if len(quotation) > 1 and quotation[0] == quotation[-1] == '"':
        quotation = quotation[1:-1]
    text, places, last = "", dict[str, int](), 0
    for tag in _TAG.finditer(quotation):
        text += quotation[last : tag.start()]
        last = tag.end()
        places[tag[0]] = len(text)
    text += quotation[last:]
    if len(places) != 4:
        missing = next(tag for tag in ("<e1>", "</e1>", "<e2>", "</e2>") if tag not in places)
        return InputError(f"'{missing}' is missing", path=path, line=number, fix=_FIX)
    entities = [{"start": places[f"<{e}>"], "end": places[f"</{e}>"], "label": ENTITY} for e in ("e1", "e2")]
    return Row(values={"id": found[1], "text": text, "entities": entities}, path=path, line=number)


def _labelled(row: Row, number: int, label: str) -> Row | InputError:
    """The row with the relation that the line under it names."""
    found = _RELATION.fullmatch(label)
    if label != "Other" and (found is None or found[2] == found[3]):
        cause = f"'{label[:40]}' is no relation"
        return InputError(cause, path=row.path, line=number, fix="write Name(e1,e2), Name(e2,e1) or Other")
    relations: list[dict[str, Any]] = []
    if found is not None:
        relations = [{"head": int(found[2][1]) - 1, "tail": int(found[3][1]) - 1, "label": found[1]}]
    return Row(values={**row.values, "relations": relations}, path=row.path, line=row.line)
