"""Tables: tab-separated values as in GLUE (no quoting), and CSV; a row of cells leaves as a row of named values.

Columns are found by their names in the header, in any order and under common aliases (`FileShape.fields`).
`data.columns` maps other names to fields (`review:text`) or, without a header, names the columns from the left.
"""

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence

from spanlab.errors import InputError, did_you_mean
from spanlab.tasks.formats.lines import max_line_bytes, read_lines
from spanlab.tasks.formats.row import FileShape, Row

NumberedCells = tuple[int, list[str] | InputError]
"""The line a row begins in, and its cells or the error of reading them."""
SKIPPED = "_"
RENAMES = ":"


def read_tsv(path: str, shape: FileShape, columns: Sequence[str] = ()) -> Iterator[Row | InputError]:
    """The rows of a tab-separated file: a cell is everything between two tabs."""
    return _rows(path, shape, columns, _tsv_cells(path))


def read_csv(path: str, shape: FileShape, columns: Sequence[str] = ()) -> Iterator[Row | InputError]:
    """The rows of a comma-separated file, with quoting; a quoted cell may hold line breaks.

    A first line without commas is separated by semicolons, as spreadsheets of many countries write it, or tabs.
    """
    return _rows(path, shape, columns, _csv_cells(path, _separator(path, columns)))


def _tsv_cells(path: str) -> Iterator[NumberedCells]:
    for number, line in read_lines(path):
        if line:
            yield number, line if isinstance(line, InputError) else line.split("\t")


def first_cells(path: str, *, is_csv: bool) -> list[str]:
    """The cells of a table's first line; empty if it cannot be read."""
    lines = _csv_cells(path, _separator(path, ())) if is_csv else _tsv_cells(path)
    cells = next((cells for _, cells in lines), [])
    return [] if isinstance(cells, InputError) else cells


def _separator(path: str, columns: Sequence[str]) -> str:
    first = next((line for _, line in read_lines(path) if not isinstance(line, InputError) and line.strip()), "")
    by_position = bool(columns) and not any(RENAMES in column for column in columns)
    csv.field_size_limit(max_line_bytes())
    widths = {separator: _count_cells(first, separator) for separator in ",;\t"}
    others = [separator for separator in ";\t" if widths[separator] > 1]
    if widths[","] > 1 or not others:
        return ","
    # Without a header the only column may hold a sentence with a semicolon.
    return others[0] if not by_position or widths[others[0]] == len(columns) else ","


def _count_cells(line: str, separator: str) -> int:
    try:
        return len(next(csv.reader([line], delimiter=separator), []))
    except csv.Error:  # reported with its line when the rows are read
        return 0


def _csv_cells(path: str, separator: str) -> Iterator[NumberedCells]:
    errors: list[InputError] = []

    def lines() -> Iterator[str]:
        for _, line in read_lines(path):
            if isinstance(line, InputError):
                errors.append(line)
            yield "" if isinstance(line, InputError) else line + "\n"

    # A cell may hold a whole document, but a quote that is never closed must not make a cell of the whole file.
    csv.field_size_limit(max_line_bytes())
    reader = csv.reader(lines(), delimiter=separator, strict=True)
    start = 1
    try:
        for cells in reader:
            if cells:
                yield start, cells
            start = reader.line_num + 1
            while errors:
                yield start, errors.pop(0)
    except csv.Error as error:
        yield start, InputError(f"not valid CSV: {error}", path=path, line=start, fix="quote cells that hold quotes")


def _rows(
    path: str, shape: FileShape, columns: Sequence[str], numbered: Iterable[NumberedCells]
) -> Iterator[Row | InputError]:
    renamed = read_renames(shape, columns)
    columns = () if renamed else columns
    column_of: Mapping[str, int] | None = _columns_from_left(shape, columns) if columns else None
    header: tuple[str, ...] = ()
    width, first = len(columns), True
    for line, cells in numbered:
        if isinstance(cells, InputError):
            yield cells
            continue
        is_header = first and (not columns or _is_header(shape, cells, columns))
        first = False
        if is_header and not columns:
            column_of, width, header = _columns_by_header(path, shape, cells, renamed), len(cells), tuple(cells)
        if is_header:
            continue
        assert column_of is not None
        if len(cells) != width:
            where = "data.columns names" if columns else "the header has"
            cause = f"{len(cells)} columns, but {where} {width}"
            yield InputError(cause, path=path, line=line, fix="write one cell per column, without separators in a cell")
            continue
        values = {name: cells[column] for name, column in column_of.items()}
        yield Row(values=values, path=path, line=line, columns=header)


def read_renames(shape: FileShape, columns: Sequence[str]) -> dict[str, str]:
    """Fields by column name, from entries like `review:text`; empty if `columns` names columns from the left."""
    pairs = [column.rpartition(RENAMES) for column in columns]
    if not any(separator for _, separator, _ in pairs):
        return {}
    for column, (_, separator, name) in zip(columns, pairs, strict=True):
        if not separator:
            fix = f"write all as COLUMN{RENAMES}FIELD, or none"
            raise InputError(f"data.columns names '{column}' by position and others by the header", fix=fix)
        _check_field(shape, name)
    return {column: name for column, _, name in pairs}


def _columns_by_header(path: str, shape: FileShape, cells: Sequence[str], renamed: Mapping[str, str]) -> dict[str, int]:
    """The column index of each field; raises an error if a required field is missing."""
    shown = ", ".join(cell[:40] for cell in cells[:8])
    column_of: dict[str, int] = {}
    for column, name in renamed.items():
        if column not in cells:
            cause = f"no column is called '{column}'{did_you_mean(column, cells)}; there are {shown}"
            raise InputError(cause, path=path, line=1, fix="correct data.columns")
        column_of[name] = cells.index(column)
    for name, aliases in shape.fields.items():
        index = next((cells.index(alias) for alias in (name, *aliases) if alias in cells), None)
        if index is not None:
            column_of.setdefault(name, index)
    for name in shape.required:
        if name not in column_of:
            hint = did_you_mean(name, cells)
            fix = (
                f"name it, such as data.columns={cells[0][:40]}{RENAMES}{name}; or, without a header, all columns from "
                f"the left, such as data.columns={_suggest_columns(shape, len(cells))}"
            )
            raise InputError(f"no column is called '{name}'{hint}; there are {shown}", path=path, line=1, fix=fix)
    return column_of


def _suggest_columns(shape: FileShape, width: int) -> str:
    """A value of `data.columns` for a table of this width: required fields, one label, the rest skipped."""
    optional = [name for name in shape.fields if name not in {"id", *shape.required}]
    names = [*shape.required, *optional[:1]][:width]
    return ",".join([*names, *[SKIPPED] * (width - len(names))])


def _columns_from_left(shape: FileShape, columns: Sequence[str]) -> dict[str, int]:
    """The column index of each field, from `data.columns` without a header."""
    for name in columns:
        if name != SKIPPED:
            _check_field(shape, name)
    for name in shape.required:
        if name not in columns:
            raise InputError(f"data.columns does not name '{name}'", fix=f"add {name} at the position of its column")
    return {name: index for index, name in enumerate(columns) if name != SKIPPED}


def _check_field(shape: FileShape, name: str) -> None:
    if name not in shape.fields:
        known, hint = ", ".join(shape.fields), did_you_mean(name, shape.fields)
        fix = f"use {known}, or {SKIPPED} to skip a column"
        raise InputError(f"data.columns names '{name}'{hint}, which is not a field", fix=fix)


def _is_header(shape: FileShape, cells: Sequence[str], columns: Sequence[str]) -> bool:
    """Whether the first line is a header although `columns` is given: its cells name the same fields."""
    named = [(name, cell) for name, cell in zip(columns, cells, strict=False) if name != SKIPPED]
    return all(cell in (name, *shape.fields[name]) for name, cell in named)
