"""Validation of one labelled row: problems that `spanlab data check` lists, and that training rejects or drops."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from spanlab.errors import InputError, clip_repr, nearest
from spanlab.tasks.formats.row import Row

REPAIRABLE = "repair it with spanlab data check TASK FILE --fix OUT"
"""The fix of a problem that has one obvious repair."""
DROPPABLE = "or drop such examples with data.bad_rows=drop"
"""What fine-tuning can do about any problem of a row."""
MISSING_FIELD = "missing field"
_FIELDS = {"id", "text", "text_a", "text_b", "question", "context", "source", "target", "summary", "label"}
"""Names that mean what they say, and are not suggested for another field."""


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One problem of one row."""

    kind: str
    """A few fixed words, such as `misaligned span`; problems are counted by them."""
    cause: str
    """The problem itself, with the offending value."""
    fix: str | None = None
    serious: bool = True
    """If true, training rejects the row; otherwise it is a warning."""
    empty: bool = False
    """If true, the input has no text: training rejects the row, and prediction gives it the empty result."""
    repaired: Mapping[str, Any] | None = None
    """The row's values with everything repaired that has one obvious repair; None: the row must be dropped."""

    def error(self, row: Row) -> InputError:
        """The problem as the error that stops a run."""
        return row.error(self.cause, self.fix)


def missing_field(row: Row, name: str) -> Problem:
    """A field that the row does not have; in a table, a column under another name."""
    if not row.columns:
        cause, fix = f"the field '{name}' is missing", f'write "{name}": "…"'
        others = [key for key, value in row.values.items() if isinstance(value, str) and key not in _FIELDS]
        if row.line is not None and others:
            cause += f"; the keys are {', '.join(key[:40] for key in list(row.values)[:8])}"
            fix += f", or name its key, such as data.columns={(nearest(name, others) or others[0])[:40]}:{name}"
        return Problem(kind=MISSING_FIELD, cause=cause, fix=fix)
    cause = f"no column is called '{name}'; there are {', '.join(row.columns[:8])}"
    fix = f"name its column, such as data.columns={row.columns[-1]}:{name}"
    return Problem(kind=MISSING_FIELD, cause=cause, fix=fix)


def text_problems(row: Row, name: str) -> Iterator[Problem]:
    """Whether a field holds text that can be encoded."""
    value = row.values.get(name)
    if value is None:
        yield missing_field(row, name)
    elif not isinstance(value, str):
        yield Problem(kind="wrong type", cause=f"'{name}' is {clip_repr(value)}; it must be text")
    elif not value.strip():
        fix = "write a text, or remove the example"
        yield Problem(kind="empty text", cause=f"'{name}' is empty", fix=fix, empty=True)
    elif any("\ud800" <= character <= "\udfff" for character in value):
        yield Problem(kind="encoding fault", cause=f"'{name}' holds half of a surrogate pair", fix="write it as UTF-8")
    elif "\ufffd" in value:
        cause = f"'{name}' holds U+FFFD at character {value.index(chr(0xFFFD))}: it was once decoded wrongly"
        yield Problem(kind="encoding fault", cause=cause, fix="read it from its source again", serious=False)


def label_problems(row: Row, name: str) -> Iterator[Problem]:
    """Whether a field holds one label: text or an integer."""
    value = row.values.get(name)
    if value is None:
        yield missing_field(row, name)
    elif not is_label(value):
        yield Problem(kind="wrong type", cause=f"'{name}' is {clip_repr(value)}; a label is text or an integer")
    elif not str(value).strip():
        yield Problem(kind="empty label", cause=f"'{name}' is empty", fix="write a label, or remove the example")


def is_label(value: object) -> bool:
    """Whether a value can be a label."""
    return isinstance(value, str | int) and not isinstance(value, bool)


def read_id(row: Row) -> str | None:
    """The id of the example, if the row has one."""
    value = row.values.get("id")
    return None if value is None else str(value)
