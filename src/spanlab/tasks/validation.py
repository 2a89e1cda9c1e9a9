"""What is wrong with one labelled example: told by `spanlab data check`, refused or dropped by training."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from spanlab.errors import InputError
from spanlab.tasks.formats.row import Row


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One fault of one row."""

    kind: str
    """A few words that are the same for all faults of a kind, such as `misaligned span`: what counts are made of."""
    cause: str
    """The fault itself, with the offending value."""
    fix: str | None = None
    serious: bool = True
    """Whether training must not take the row; a problem that is not is only told."""
    repaired: Mapping[str, Any] | None = None
    """The row's values with all that can be mended without guessing mended; None: the row must be dropped."""

    def error(self, row: Row) -> InputError:
        """The problem as the error that stops a run."""
        return row.error(self.cause, self.fix)


def missing_field(row: Row, name: str) -> Problem:
    """A field that is not there: in a table, a column of another name."""
    if not row.columns:
        return Problem(kind="missing field", cause=f"the field '{name}' is missing", fix=f'write "{name}": "…"')
    cause = f"no column is called '{name}'; there are {', '.join(row.columns[:8])}"
    fix = f"say which one it is by data.columns (--columns), such as {row.columns[-1]}:{name}"
    return Problem(kind="missing field", cause=cause, fix=fix)


def text_problems(row: Row, name: str) -> Iterator[Problem]:
    """Whether a field holds text that can be encoded."""
    value = row.values.get(name)
    if value is None:
        yield missing_field(row, name)
    elif not isinstance(value, str):
        yield Problem(kind="wrong type", cause=f"'{name}' is {clip_repr(value)}; it must be text")
    elif not value.strip():
        yield Problem(kind="empty text", cause=f"'{name}' is empty", fix="write a text, or leave the example out")
    elif any("\ud800" <= character <= "\udfff" for character in value):
        yield Problem(kind="encoding fault", cause=f"'{name}' holds half of a surrogate pair", fix="write it as UTF-8")
    elif "\ufffd" in value:
        cause = f"'{name}' holds U+FFFD at character {value.index(chr(0xFFFD))}: its bytes were once misread"
        yield Problem(kind="encoding fault", cause=cause, fix="read it from its source again", serious=False)


def label_problems(row: Row, name: str) -> Iterator[Problem]:
    """Whether a field holds one label: text or a whole number."""
    value = row.values.get(name)
    if value is None:
        yield missing_field(row, name)
    elif not is_label(value):
        yield Problem(kind="wrong type", cause=f"'{name}' is {clip_repr(value)}; a label is text or a whole number")
    elif not str(value).strip():
        yield Problem(kind="empty label", cause=f"'{name}' is empty", fix="write a label, or leave the example out")


def is_label(value: object) -> bool:
    """Whether a value can be a label."""
    return isinstance(value, str | int) and not isinstance(value, bool)


def read_text(row: Row, name: str) -> str:
    """The text of a field; the error of its first serious problem."""
    for problem in text_problems(row, name):
        if problem.serious:
            raise problem.error(row)
    return str(row.values[name])


def read_id(row: Row) -> str | None:
    """The example's own name, if it has one."""
    value = row.values.get("id")
    return None if value is None else str(value)


def clip_repr(value: Any) -> str:  # noqa: ANN401 (whatever stands in the file)
    """A value for an error message, cut where it is long."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
