"""One example as read from a file: its values under the field names of JSON lines, its line, and warnings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from spanlab.errors import InputError


@dataclass(frozen=True, kw_only=True)
class RowWarning:
    """Something odd about a line that is read all the same."""

    line: int
    kind: str
    """A few fixed words; warnings are counted by them."""
    cause: str
    reading: str
    """How it is read."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One example of a file; the fields are the same whatever the format."""

    values: Mapping[str, Any]
    path: str | None = None
    """None for an example passed in Python."""
    line: int | None = None
    """The line where the example begins, from 1."""
    document: str | None = None
    """The document that the example is from, where the file tells them apart."""
    columns: tuple[str, ...] = ()
    """The header of its table; empty if there is none."""
    warnings: tuple[RowWarning, ...] = ()
    """What the format's reader found odd about its lines."""

    def error(self, cause: str, fix: str | None = None) -> InputError:
        """An error with the path and line of this row."""
        return InputError(cause, path=self.path, line=self.line, fix=fix)


@dataclass(frozen=True, kw_only=True)
class FileShape:
    """The fields of a task's files, and the formats they may be in."""

    fields: Mapping[str, tuple[str, ...]]
    """The fields that a table can hold, each with alternative names in headers."""
    required: tuple[str, ...]
    """The fields an example has even without labels."""
    labels: str = ""
    """The labelled field (`spans`, `clusters`, `answers`, `relations`) that selects entries of `FORMATS`."""
    instead: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Alternative fields of a JSON line for a required one."""
    optional: tuple[str, ...] = ()
    """Further fields of a JSON line that belong to the input, not to its labels."""
    aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Alternative names of fields that no table can hold."""

    def with_known_names(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """The values of a JSON line with common names of fields (`sentence`) replaced by ours (`text`).

        A name that is a field of its own stays, and so does one of several that could stand for the same field.
        """
        renamed: dict[str, str] = {}
        for name, others in (*self.fields.items(), *self.aliases.items()):
            if name in values or any(values.get(key) is not None for key in self.instead.get(name, ())):
                continue
            found = [other for other in others if other in values and other not in self.fields]
            if len(found) == 1:
                renamed.setdefault(found[0], name)
        return {renamed.get(key, key): value for key, value in values.items()} if renamed else values

    def input_of(self, values: Mapping[str, Any]) -> list[str]:
        """The required fields as text; a list of texts is joined by spaces."""
        return [self._text(values, name) for name in self.required]

    def fits(self, values: Mapping[str, Any]) -> bool:
        """Whether every required field, or one that may stand in its place, is there."""
        return all(any(key in values for key in (name, *self.instead.get(name, ()))) for name in self.required)

    def _text(self, values: Mapping[str, Any], required: str) -> str:
        names = (required, *self.instead.get(required, ()))
        value = next((values[name] for name in names if values.get(name) is not None), None)
        return " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def joint_shape(shapes: Sequence[FileShape]) -> FileShape:
    """The shape of a file that several tasks read: JSON lines, a table or plain texts, unless all are equal."""
    if all(shape == shapes[0] for shape in shapes):
        return shapes[0]
    return FileShape(
        fields={name: aliases for shape in shapes for name, aliases in shape.fields.items()},
        instead={name: others for shape in shapes for name, others in shape.instead.items()},
        required=tuple(dict.fromkeys(name for shape in shapes for name in shape.required)),
    )
