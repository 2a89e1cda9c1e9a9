"""The table of file formats; a path and a task's file shape enter, rows leave.

A new format is a module with its reader and an entry in `FORMATS`. The format of a file is the first entry whose labels
the task has, whose suffixes fit and whose sniff accepts the first lines that are not blank.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple

from spanlab.errors import InputError, did_you_mean
from spanlab.tasks.formats.aligned import files_of, read_aligned
from spanlab.tasks.formats.columns import AUTO, holds_tags, read_columns
from spanlab.tasks.formats.conll04 import is_conll04, read_conll04
from spanlab.tasks.formats.conll_2012 import read_conll_2012
from spanlab.tasks.formats.gap import is_gap, read_gap
from spanlab.tasks.formats.lines import STDIN, bare_suffix, peek_stdin, read_json_lines, read_lines, read_texts
from spanlab.tasks.formats.row import FileShape, Row
from spanlab.tasks.formats.semeval import is_semeval, read_semeval
from spanlab.tasks.formats.spacy_docs import read_docbin
from spanlab.tasks.formats.squad import is_squad, read_squad
from spanlab.tasks.formats.tables import RENAMES, first_cells, read_csv, read_renames, read_tsv
from spanlab.tasks.formats.word_relations import is_word_relations, read_word_relations
from spanlab.text.tag_schemes import TagScheme

Rows = Iterator[Row | InputError]
_SNIFFED_LINES, _SNIFFED_CHARACTERS = 1000, 1_000_000


class Format(NamedTuple):
    """A file format: for which tasks, how to recognise it, and its reader."""

    name: str
    labels: str | None
    """Only for tasks with this `FileShape.labels`; None: every task."""
    suffixes: tuple[str, ...]
    """Empty: any suffix."""
    sniff: Callable[[Sequence[str], Sequence[str]], bool] | None
    """Whether a file is of this format, by its first lines and `data.columns`; None: the suffix is enough."""
    read: Callable[[str, FileShape, Sequence[str], TagScheme | Literal["auto"]], Rows]
    labelled: bool = True
    """Whether it can hold labels."""
    columns: bool = True
    """Whether `data.columns` can name its columns or keys."""


def _by_line(accepts: Callable[[str], bool]) -> Callable[[Sequence[str], Sequence[str]], bool]:
    return lambda lines, columns: accepts(lines[0] if lines else "")


def _by_path(read: Callable[[str], Rows]) -> Callable[[str, FileShape, Sequence[str], object], Rows]:
    return lambda path, shape, columns, scheme: read(path)


def _table(
    read: Callable[[str, FileShape, Sequence[str]], Rows],
) -> Callable[[str, FileShape, Sequence[str], object], Rows]:
    return lambda path, shape, columns, scheme: read(path, shape, columns)


def _json_lines(path: str, shape: FileShape, columns: Sequence[str], scheme: object) -> Rows:
    return rename_keys(read_json_lines(path), shape, columns)


def rename_keys(rows: Rows, shape: FileShape, columns: Sequence[str]) -> Rows:
    """The rows with keys renamed to fields as the columns of a table are; those that are named must exist."""
    beyond_tables = [name for name in ("id", "entities", shape.labels) if name and name not in shape.fields]
    fields = {**shape.fields, **dict.fromkeys(beyond_tables, ())}
    renamed = read_renames(replace(shape, fields=fields), columns)
    if columns and not renamed:
        fix = f"write {columns[0]}:FIELD, with the fields {', '.join(fields)}"
        raise InputError("JSON lines have keys, but data.columns (--columns) names columns by position", fix=fix)
    first = True
    for row in rows:
        if isinstance(row, InputError):
            yield row
            continue
        if not renamed:
            yield replace(row, values=shape.with_known_names(row.values))
            continue
        for key in renamed if first else ():
            if key not in row.values:
                known = ", ".join(name[:40] for name in list(row.values)[:8])
                cause = f"no key is called '{key}'{did_you_mean(key, row.values)}; there are {known}"
                raise row.error(cause, "correct data.columns (--columns)")
        first = False
        kept = {key: value for key, value in row.values.items() if key not in renamed}
        values = kept | {name: row.values[key] for key, name in renamed.items() if key in row.values}
        yield replace(row, values=shape.with_known_names(values))


def _columns(path: str, shape: FileShape, columns: Sequence[str], scheme: TagScheme | Literal["auto"]) -> Rows:
    return read_columns(path, columns, scheme)


def _are_columns(lines: Sequence[str], columns: Sequence[str]) -> bool:
    return "word" in columns or (not columns and holds_tags(lines))


_TEXT = (".txt", ".text")
_begins_document = _by_line(lambda line: re.match(r"\s*#\s*begin document", line) is not None)

FORMATS: tuple[Format, ...] = (
    Format("spaCy documents", "spans", (".spacy",), None, _by_path(read_docbin), columns=False),
    Format("CSV", None, (".csv",), None, _table(read_csv)),
    Format("GAP", "clusters", (".tsv",), _by_line(is_gap), _by_path(read_gap), columns=False),
    Format("CoNLL columns", "spans", (".tsv", *_TEXT), _are_columns, _columns),
    Format("TSV", None, (".tsv",), None, _table(read_tsv)),
    Format("JSON lines", None, (".jsonl", ".ndjson"), None, _json_lines),
    Format("SemEval-2010 task 8", "relations", (), _by_line(is_semeval), _by_path(read_semeval), columns=False),
    Format("CoNLL04", "relations", (), _by_line(is_conll04), _by_path(read_conll04), columns=False),
    Format("SciERC", "relations", (), _by_line(is_word_relations), _by_path(read_word_relations), columns=False),
    Format("SQuAD", "answers", (".json",), _by_line(is_squad), _by_path(read_squad), columns=False),
    Format("JSON lines", None, (".json",), None, _json_lines),
    Format("CoNLL-2012", "clusters", _TEXT, _begins_document, _by_path(read_conll_2012), columns=False),
    Format("one text a line", None, _TEXT, None, _by_path(read_texts), labelled=False, columns=False),
    Format("CoNLL-2012", "clusters", (), None, _by_path(read_conll_2012), columns=False),
    Format("CoNLL columns", "spans", (), None, _columns),
    # The files of translations are named by their languages, which no table of suffixes could list.
    Format("one text a line", "target", (), None, _by_path(read_texts), labelled=False, columns=False),
)
_ALIGNED = Format("aligned files", "target", (), None, _by_path(read_aligned), columns=False)


def read_rows(
    path: str,
    shape: FileShape,
    columns: Sequence[str] = (),
    tag_scheme: TagScheme | Literal["auto"] = AUTO,
    *,
    labelled: bool = False,
) -> Rows:
    """The rows of a file, in order; a line that cannot be read is yielded as its error, and reading goes on.

    A file that does not exist, is empty, of an unknown format or, with `labelled`, of a format without labels raises an
    error.
    """
    file_format = find_format(path, shape, columns)
    if columns and not file_format.columns:
        cause = f"read as {file_format.name}, which has no columns to be named"
        raise InputError(cause, path=path, fix="leave out data.columns (--columns)")
    if labelled and not file_format.labelled:
        fix = "use JSON lines or another format with labels"
        if shape.labels == "target":
            fix = f"name the file of the targets, too: {path},FILE"
        if shape.labels == "spans":
            fix = "if it holds CoNLL columns, name them: data.columns=word,tag"
        raise InputError(f"read as {file_format.name}, without labels", path=path, fix=fix)
    empty = True
    for row in file_format.read(path, shape, columns, tag_scheme):
        empty = False
        yield row
    if empty:
        raise InputError("has no examples", path=path, fix="use a file with at least one")


def count_rows(path: str, shape: FileShape, columns: Sequence[str] = ()) -> int | None:
    """About how many rows a file has, to show progress; None if that is not known without consuming it."""
    if not all(Path(name).is_file() for name in files_of(path)):
        return None
    file_format = find_format(path, shape, columns)
    if file_format.name in {"JSON lines", "one text a line"}:
        return sum(1 for _ in read_lines(path))
    try:
        return sum(1 for _ in file_format.read(path, shape, columns, AUTO))
    except InputError:  # whoever reads the rows will raise it
        return None


def fitting_columns(path: str, shape: FileShape, columns: Sequence[str]) -> tuple[str, ...]:
    """As much of the `data.columns` of another file as this file has, so that they can be used for it; else empty."""
    if not columns:
        return ()
    file_format = find_format(path, shape)
    names = _first_names(path, file_format)
    renames = [column for column in columns if RENAMES in column]
    if renames:
        return tuple(column for column in renames if column.rpartition(RENAMES)[0] in names)
    # Without a header all columns are named from the left; a header that names the fields tells more.
    has_header = all({name, *shape.fields[name]} & set(names) for name in shape.required)
    is_table = file_format.name in {"CSV", "TSV", "CoNLL columns"}
    return tuple(columns) if is_table and len(names) == len(columns) and not has_header else ()


def given_fields(path: str, shape: FileShape) -> tuple[str, ...]:
    """The fields that the first example of a file has, in order; of standard input as much as is there of it."""
    file_format = find_format(path, shape)
    if file_format.name == "one text a line":
        return ("text",)
    names = _first_names(path, file_format)
    renamed = {alias: name for name, aliases in shape.fields.items() for alias in aliases}
    if file_format.name == "JSON lines":
        return tuple(shape.with_known_names(dict.fromkeys(names, "")))
    return tuple(renamed.get(name, name) for name in names)


def _first_names(path: str, file_format: Format) -> Sequence[str]:
    """The cells of a file's first line, or the keys of its first object."""
    if file_format.name in {"CSV", "TSV"}:
        return first_cells(path, is_csv=file_format.name == "CSV")
    if file_format.name == "CoNLL columns":
        line = next(iter(_first_lines(path)), "")
        return line.split("\t") if "\t" in line else line.split()
    if file_format.name != "JSON lines":
        return ()
    if path == STDIN:  # what is there of it, without consuming it
        start = peek_stdin()
        return re.findall(r'"([^"\\]+)"\s*:', start.partition("\n")[0])
    row = next(read_json_lines(path), None)
    return list(row.values) if isinstance(row, Row) else ()


def find_format(path: str, shape: FileShape, columns: Sequence[str] = ()) -> Format:
    """The first entry of `FORMATS` that fits a file; standard input holds JSON lines or a text a line."""
    if shape.labels == _ALIGNED.labels and len(files_of(path)) > 1:
        return _ALIGNED
    if path != STDIN and not Path(path).exists():
        raise InputError("no such file", path=path, fix="check its name and folder")
    if path != STDIN and Path(path).is_dir():
        raise InputError("is a folder, not a file of examples", path=path, fix=_name_file(Path(path)))
    if path == STDIN:
        name = "one text a line" if not columns and _is_plain_text(peek_stdin(), shape) else "JSON lines"
        return next(entry for entry in FORMATS if entry.name == name)
    suffix = bare_suffix(path)
    allowed = [entry for entry in FORMATS if entry.labels in {None, shape.labels}]
    candidates = [entry for entry in allowed if not entry.suffixes or suffix in entry.suffixes]
    lines = _first_lines(path) if candidates and candidates[0].sniff else []
    for entry in candidates:
        if entry.sniff is None or entry.sniff(lines, columns):
            return entry
    suffixes = ", ".join(dict.fromkeys(suffix for entry in allowed for suffix in entry.suffixes))
    raise InputError(f"unknown format: the suffix is '{suffix}'", path=path, fix=f"use one of {suffixes}")


def _is_plain_text(start: str, shape: FileShape) -> bool:
    """Whether the beginning of standard input is no JSON, and the task takes plain texts."""
    takes_text = any("text" in (name, *shape.instead.get(name, ())) for name in shape.required)
    return takes_text and bool(start.strip()) and re.match(r"\ufeff?\s*(\{|\[\s*[\[{])", start) is None


def _name_file(folder: Path) -> str:
    """The fix where a folder is given: a file in it of a known format, if there is one."""
    if (folder / "config.json").is_file():
        return "this is a model folder; name a file of examples"
    known = {suffix for entry in FORMATS for suffix in entry.suffixes}
    files = sorted(path.name for path in folder.iterdir() if bare_suffix(path.name) in known)
    preferred = [name for name in files if name.partition(".")[0] in {"train", "dev", "test"}]
    return f"name a file in it, such as {folder / (preferred or files)[0]}" if files else "name a file"


def _first_lines(path: str) -> list[str]:
    """The first lines that are not blank, up to one that is not UTF-8."""
    lines: list[str] = []
    characters = 0
    for _, line in read_lines(path):
        if isinstance(line, InputError):
            break
        if line.strip():
            lines.append(line)
            characters += len(line)
        if len(lines) >= _SNIFFED_LINES or characters >= _SNIFFED_CHARACTERS:
            break
    return lines
