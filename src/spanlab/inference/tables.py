"""Results as tables: CSV and TSV for spreadsheets, Parquet for what computes with them; a row for each input.

The columns are the keys of the JSON lines, those of several tasks as `TASK.key`. In CSV and TSV a cell that holds a
list or a mapping is its JSON; in Parquet it has its type, which follows from the annotations of the result's class.
"""

import io
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from itertools import chain, islice
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin, get_type_hints

from typing_extensions import override

from spanlab.errors import MissingExtraError
from spanlab.inference.writers import Record, csv_lines, round_numbers, safe_cell, to_json

if TYPE_CHECKING:
    from spanlab.tasks.result import Result

_BREAKS = str.maketrans("\t\r\n", "   ")
_ROW_GROUP = 2048
"""Results in a row group of Parquet, which is in memory as a whole."""


def csv_table(results: "Iterable[Result | Mapping[str, Result]]") -> Iterator[str]:
    """A table with a header."""
    for cells in _cells(results):
        yield csv_lines([cells])


def tsv_table(results: "Iterable[Result | Mapping[str, Result]]") -> Iterator[str]:
    """The same without quotes, as our own reader expects it: tabs and line breaks of a text are spaces."""
    for cells in _cells(results):
        yield "\t".join(str(safe_cell(str(cell).translate(_BREAKS))) for cell in cells) + "\n"


def _cells(results: "Iterable[Result | Mapping[str, Result]]") -> Iterator[list[object]]:
    """The header, and the cells of each result."""
    names: list[str] | None = None
    for result in results:
        record = flat_record(result)
        if names is None:
            names = list(record)
            yield [*names]
        yield [_as_cell(record[name]) for name in names]


def flat_record(result: "Result | Mapping[str, Result]") -> Record:
    """The values of a result by column."""
    if not isinstance(result, Mapping):
        return result.to_dict()
    parts = list(result.values())
    record: Record = {
        "id": parts[0].id,
        "windows": max(part.windows for part in parts),
        "truncated": any(part.truncated for part in parts),
    }
    for name, part in result.items():
        record |= {f"{name}.{key}": value for key, value in part.to_dict().items() if key not in record}
    return record


def _as_cell(value: object) -> object:
    if isinstance(value, bool):
        return str(value).lower()
    return (
        "" if value is None else to_json(value) if isinstance(value, Mapping | list | tuple) else round_numbers(value)
    )


def parquet_file(results: "Iterable[Result | Mapping[str, Result]]") -> Iterator[bytes]:
    """A Parquet file in pieces; needs the 'data' extra."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise MissingExtraError("data", "writing Parquet") from None

    remaining = iter(results)
    sink = _Sink()
    first = next(remaining, None)
    if first is None:
        return
    remaining = chain([first], remaining)
    schema = pyarrow.schema(list(_columns(first)))
    with parquet.ParquetWriter(sink, schema) as writer:
        while records := [round_numbers(flat_record(result)) for result in islice(remaining, _ROW_GROUP)]:
            writer.write_table(pyarrow.Table.from_pylist(records, schema=schema))
            yield sink.take()
    yield sink.take()


class _Sink(io.RawIOBase):
    """What is written to it can be taken, once."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    @override
    def writable(self) -> bool:
        return True

    @override
    def write(self, data: Any) -> int:
        self._parts.append(bytes(data))
        self._size += len(data)
        return len(data)

    @override
    def tell(self) -> int:
        return self._size

    def take(self) -> bytes:
        """The bytes since the last time."""
        parts, self._parts = self._parts, []
        return b"".join(parts)


def _columns(result: "Result | Mapping[str, Result]") -> Iterator[tuple[str, Any]]:
    """The name and the Arrow type of each column."""
    if not isinstance(result, Mapping):
        yield from _field_types(type(result)).items()
        return
    common: dict[str, Any] = {}
    for part in result.values():
        types = _field_types(type(part))
        common = common or {name: types[name] for name in ("id", "windows", "truncated")}
    yield from common.items()
    for name, part in result.items():
        types = _field_types(type(part))
        yield from ((f"{name}.{key}", type_) for key, type_ in types.items() if key not in common)


def _field_types(result_class: type) -> dict[str, Any]:
    """The Arrow types of the fields that `to_dict` gives."""
    hints = get_type_hints(result_class)
    shown = [field.name for field in fields(result_class) if field.metadata.get("json", True)]
    return {name: _arrow_type(hints[name]) for name in shown}


def _arrow_type(hint: Any) -> Any:  # noqa: ANN401 (an annotation; a pyarrow.DataType)
    import pyarrow

    plain = {str: pyarrow.string(), int: pyarrow.int64(), float: pyarrow.float64(), bool: pyarrow.bool_()}
    if hint in plain:
        return plain[hint]
    if is_dataclass(hint):
        assert isinstance(hint, type)
        return pyarrow.struct(list(_field_types(hint).items()))
    arguments = [argument for argument in get_args(hint) if argument not in {NoneType, Ellipsis}]
    origin = get_origin(hint)
    if origin is Literal:
        return plain[type(arguments[0])]
    if origin in {Union, UnionType} and len(arguments) == 1:
        return _arrow_type(arguments[0])
    if origin is not None and issubclass(origin, Mapping):
        return pyarrow.map_(*map(_arrow_type, arguments))
    assert origin is not None, hint
    assert len(set(arguments)) == 1, hint  # a tuple of equal parts, such as a range
    return pyarrow.list_(_arrow_type(arguments[0]))
