"""GAP's table: a text, a pronoun and two names with their character offsets, and which name the pronoun refers to."""

from collections.abc import Iterator
from typing import Any

from spanlab.errors import InputError, clip_repr
from spanlab.tasks.formats.lines import read_lines
from spanlab.tasks.formats.row import Row

HEADER = ("ID", "Text", "Pronoun", "Pronoun-offset", "A", "A-offset", "A-coref", "B", "B-offset", "B-coref", "URL")
_UNLABELLED = tuple(name for name in HEADER if not name.endswith("-coref"))
_MAX_DIGITS = 12
_TRUTH = {"TRUE": True, "FALSE": False}


def is_gap(line: str) -> bool:
    """Whether the first line of a table is GAP's header, with or without the label columns."""
    return tuple(line.split("\t")) in {HEADER, _UNLABELLED}


def read_gap(path: str) -> Iterator[Row | InputError]:
    """One row per line: text, `pronoun`, `a` and `b` as [start, end], and `a_coref` and `b_coref` if labelled."""
    header: list[str] | None = None
    for line_number, line in read_lines(path):
        if isinstance(line, InputError):
            yield line
        elif not line:
            continue
        elif header is None:
            header = line.split("\t")
        else:
            yield _row(path, line_number, header, line.split("\t"))


def _row(path: str, line_number: int, header: list[str], cells: list[str]) -> Row | InputError:
    if len(cells) != len(header):
        cause = f"{len(cells)} columns, but the header has {len(header)}"
        return InputError(cause, path=path, line=line_number, fix="write one cell per column, without tabs in a cell")
    named = dict(zip(header, cells, strict=True))
    values: dict[str, Any] = {"id": named["ID"], "text": named["Text"]}
    for field, name in (("pronoun", "Pronoun"), ("a", "A"), ("b", "B")):
        offset = named[f"{name}-offset"]
        if not offset.isdecimal() or len(offset) > _MAX_DIGITS:
            cause = f"'{name}-offset' is {clip_repr(offset)}; it must be a whole number"
            return InputError(cause, path=path, line=line_number)
        start = int(offset)
        end = start + len(named[name])
        if named["Text"][start:end] != named[name]:
            cause = f"the text has '{named['Text'][start:end]}' at {start}, but '{name}' is '{named[name]}'"
            return InputError(cause, path=path, line=line_number, fix="offsets count characters from 0")
        values[field] = [start, end]
    for field, name in (("a_coref", "A-coref"), ("b_coref", "B-coref")):
        if name in named:
            values[field] = _TRUTH.get(named[name].upper())
    return Row(values=values, path=path, line=line_number)
