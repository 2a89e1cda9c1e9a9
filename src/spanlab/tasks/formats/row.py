"""One labelled example as it stands in a file, under the field names of its JSON line, and where it stands."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from spanlab.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Row:
    """Every format gives rows of one shape, that of the task's JSON lines."""

    values: Mapping[str, Any]
    path: str | None = None
    """None for an example that came from Python."""
    line: int | None = None
    """Where the example begins in the file, from 1."""
    columns: tuple[str, ...] = ()
    """What the header of its table calls the columns; empty where there is none."""

    def error(self, cause: str, fix: str | None = None) -> InputError:
        """The error that names this row's place."""
        return InputError(cause, path=self.path, line=self.line, fix=fix)


@dataclass(frozen=True, kw_only=True)
class FileShape:
    """What a task's files may look like."""

    fields: Mapping[str, tuple[str, ...]]
    """The fields of a JSON line that a table can hold, each with other names a header may give it."""
    required: tuple[str, ...]
    """The fields an example has even without labels."""
    labels: str = ""
    """The labelled field (`spans`, `clusters`, `answers`, `relations`), by which formats of `FORMATS` are allowed."""
    instead: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Other fields in which a JSON line may hold a required one."""

    def input_of(self, values: Mapping[str, Any]) -> list[str]:
        """What an example has even without labels, as text; a list of texts put together."""
        return [self._text(values, name) for name in self.required]

    def _text(self, values: Mapping[str, Any], required: str) -> str:
        names = (required, *self.instead.get(required, ()))
        value = next((values[name] for name in names if values.get(name) is not None), None)
        return " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def joint_shape(shapes: Sequence[FileShape]) -> FileShape:
    """The shape of a file that several tasks read: JSON lines, a table or plain texts, unless all are equal."""
    if all(shape == shapes[0] for shape in shapes):
        return shapes[0]
    return FileShape(
        fields={name: others for shape in shapes for name, others in shape.fields.items()},
        required=tuple(dict.fromkeys(name for shape in shapes for name in shape.required)),
    )
