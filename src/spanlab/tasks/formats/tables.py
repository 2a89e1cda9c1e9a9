"""Tables: tab-separated values as GLUE writes them (no quoting), and CSV.

Columns are found by the names of the header, in any order and under the usual other names. `data.columns` says which
one is meant where a header calls it otherwise (`review:text`), and names them from the left where there is no header.
"""

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence

from spanlab.errors import InputError, did_you_mean
from spanlab.tasks.formats.lines import read_lines
from spanlab.tasks.formats.row import FileShape, Row

Cells = tuple[int, list[str] | InputError]
SKIPPED = "_"
RENAMES = ":"


def read_tsv(path: str, shape: FileShape, columns: Sequence[str] = ()) -> Iterator[Row | InputError]:
    """The rows of a tab-separated file: a cell is everything between two tabs."""
    cells = ((number, line if isinstance(line, InputError) else line.split("\t")) for number, line in read_lines(path))
    return _rows(path, shape, columns, ((n, c) for n, c in cells if isinstance(c, InputError) or c != [""]))


def read_csv(path: str, shape: FileShape, columns: Sequence[str] = ()) -> Iterator[Row | InputError]:
    """The rows of a comma-separated file, with quoting; a quoted cell may hold line breaks."""
    return _rows(path, shape, columns, _csv_cells(path))


def _csv_cells(path: str) -> Iterator[Cells]:
    faults: list[InputError] = []

    def lines() -> Iterator[str]:
        for _, line in read_lines(path):
            if isinstance(line, InputError):
                faults.append(line)
            yield "" if isinstance(line, InputError) else line + "\n"

    # A cell may hold a whole document.
    csv.field_size_limit(1 << 30)
    reader = csv.reader(lines(), strict=True)
    start = 1
    try:
        for cells in reader:
            if cells:
                yield start, cells
            start = reader.line_num + 1
            while faults:
                yield start, faults.pop(0)
    except csv.Error as error:
        yield start, InputError(f"not valid CSV: {error}", path=path, line=start, fix="quote cells that hold quotes")


def _rows(path: str, shape: FileShape, columns: Sequence[str], numbered: Iterable[Cells]) -> Iterator[Row | InputError]:
    renamed = _renamed(shape, columns)
    columns = () if renamed else columns
    places: Mapping[str, int] | None = _named(shape, columns) if columns else None
    header: tuple[str, ...] = ()
    width, first = len(columns), True
    for number, cells in numbered:
        if isinstance(cells, InputError):
            yield cells
            continue
        is_header = first and (not columns or _is_header(shape, cells, columns))
        first = False
        if is_header and not columns:
            places, width, header = _header(path, shape, cells, renamed), len(cells), tuple(cells)
        if is_header:
            continue
        assert places is not None
        if len(cells) != width:
            where = "data.columns names" if columns else "the header has"
            cause = f"{len(cells)} columns, and {where} {width}"
            yield InputError(cause, path=path, line=number, fix="a cell must not hold the separator")
            continue
        values = {name: cells[place] for name, place in places.items()}
        yield Row(values=values, path=path, line=number, columns=header)


def _renamed(shape: FileShape, columns: Sequence[str]) -> dict[str, str]:
    """Fields by what the header calls them, where `columns` says so; empty where it names columns from the left."""
    pairs = [column.rpartition(RENAMES) for column in columns]
    if not any(separator for _, separator, _ in pairs):
        return {}
    for column, (_, separator, name) in zip(columns, pairs, strict=True):
        if not separator:
            fix = f"write every one as COLUMN{RENAMES}FIELD, or none"
            raise InputError(f"data.columns names '{column}' by its place and others by the header", fix=fix)
        _check_field(shape, name)
    return {column: name for column, _, name in pairs}


def _header(path: str, shape: FileShape, cells: Sequence[str], renamed: Mapping[str, str]) -> dict[str, int]:
    """The place of each field; an error where a required one is not there."""
    shown = ", ".join(cell[:40] for cell in cells[:8])
    found: dict[str, int] = {}
    for column, name in renamed.items():
        if column not in cells:
            cause = f"no column is called '{column}'{did_you_mean(column, cells)}; there are {shown}"
            raise InputError(cause, path=path, line=1, fix="correct data.columns (--columns)")
        found[name] = cells.index(column)
    for name, others in shape.fields.items():
        place = next((cells.index(known) for known in (name, *others) if known in cells), None)
        if place is not None:
            found.setdefault(name, place)
    for name in shape.required:
        if name not in found:
            hint = did_you_mean(name, cells)
            fix = (
                f"say which one it is by data.columns (--columns), such as {cells[0][:40]}{RENAMES}{name}; or, without "
                f"a header, name all from the left, such as {_suggestion(shape, len(cells))}"
            )
            raise InputError(f"no column is called '{name}'{hint}; there are {shown}", path=path, line=1, fix=fix)
    return found


def _suggestion(shape: FileShape, width: int) -> str:
    optional = [name for name in shape.fields if name not in {"id", *shape.required}]
    names = [*shape.required, *optional[:1]][:width]
    return ",".join([*names, *[SKIPPED] * (width - len(names))])


def _named(shape: FileShape, columns: Sequence[str]) -> dict[str, int]:
    for name in columns:
        if name != SKIPPED:
            _check_field(shape, name)
    for name in shape.required:
        if name not in columns:
            raise InputError(f"data.columns does not name '{name}'", fix=f"put {name} where its column is")
    return {name: place for place, name in enumerate(columns) if name != SKIPPED}


def _check_field(shape: FileShape, name: str) -> None:
    if name not in shape.fields:
        known, hint = ", ".join(shape.fields), did_you_mean(name, shape.fields)
        raise InputError(f"data.columns names '{name}'{hint}; a column is {known}, or {SKIPPED} for none of them")


def _is_header(shape: FileShape, cells: Sequence[str], columns: Sequence[str]) -> bool:
    """Whether a first line under given columns is a header all the same: it names what the columns hold."""
    named = [(name, cell) for name, cell in zip(columns, cells, strict=False) if name != SKIPPED]
    return all(cell in (name, *shape.fields[name]) for name, cell in named)
