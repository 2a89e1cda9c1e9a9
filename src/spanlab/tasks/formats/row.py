"""One labelled example as it stands in a file, under the field names of its JSON line, and where it stands."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
    conll: bool = False
    """Whether columns of words and tags hold such examples."""
    squad: bool = False
    """Whether SQuAD's JSON holds such examples."""

    @classmethod
    def of_all(cls, shapes: Sequence["FileShape"]) -> "FileShape":
        """The shape of one file that holds what each of several tasks reads."""
        if len(shapes) == 1:
            return shapes[0]
        return FileShape(
            fields={name: others for shape in shapes for name, others in shape.fields.items()},
            required=tuple(dict.fromkeys(name for shape in shapes for name in shape.required)),
            conll=all(shape.conll for shape in shapes),
            squad=all(shape.squad for shape in shapes),
        )
