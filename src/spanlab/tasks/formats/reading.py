"""Which reader a file takes, told by its name and, where that leaves a choice, by its first bytes."""

from collections.abc import Iterator, Sequence

from spanlab.errors import InputError
from spanlab.tasks.formats.columns import read_columns
from spanlab.tasks.formats.conll04 import is_conll04, read_conll04
from spanlab.tasks.formats.conll_2012 import read_conll_2012
from spanlab.tasks.formats.gap import is_gap, read_gap
from spanlab.tasks.formats.json_lines import read_json_lines
from spanlab.tasks.formats.lines import STDIN, bare_suffix, read_lines
from spanlab.tasks.formats.row import FileShape, Row
from spanlab.tasks.formats.semeval import is_semeval, read_semeval
from spanlab.tasks.formats.squad import read_squad
from spanlab.tasks.formats.tables import read_csv, read_tsv
from spanlab.tasks.formats.word_relations import read_word_relations


def read_rows(path: str, shape: FileShape, columns: Sequence[str] = ()) -> Iterator[Row | InputError]:
    """The rows of a file, in order; a place that cannot be read comes as the error it is, and reading goes on.

    What makes the whole file unreadable (it is not there, it is empty, it is of another format) is raised.
    """
    empty = True
    relations = _relation_reader(path) if shape.relations else None
    for row in relations or _reader(path, shape, columns):
        empty = False
        yield row
    if empty:
        raise InputError("holds no example", path=path, fix="give a file with at least one")


def _reader(path: str, shape: FileShape, columns: Sequence[str]) -> Iterator[Row | InputError]:
    suffix = bare_suffix(path)
    if suffix in {".tsv", ".csv"}:
        return _read_table(path, shape, columns)
    if suffix in {".jsonl", ".ndjson"} or path == STDIN:
        return read_json_lines(path)
    if suffix == ".json":
        return read_squad(path) if shape.squad and not _is_json_lines(path) else read_json_lines(path)
    if (shape.conll or shape.conll_2012) and suffix not in {".txt", ".text"}:
        return read_conll_2012(path) if shape.conll_2012 else read_columns(path, columns)
    if suffix in {".txt", ".text"}:
        return _read_conll_or_texts(path, shape, columns)
    known = ".jsonl, .tsv, .csv" + (", .json (SQuAD)" if shape.squad else "")
    raise InputError(f"a name that ends in '{suffix}' does not tell the format", path=path, fix=f"name it {known}")


def _read_table(path: str, shape: FileShape, columns: Sequence[str]) -> Iterator[Row | InputError]:
    if bare_suffix(path) == ".csv":
        return read_csv(path, shape, columns)
    return read_gap(path) if shape.gap and is_gap(path) else read_tsv(path, shape, columns)


def _relation_reader(path: str) -> Iterator[Row | InputError] | None:
    """The reader of a format that holds relations, told by the first line; None where it is none of them."""
    if path == STDIN or bare_suffix(path) in {".jsonl", ".ndjson", ".tsv", ".csv"}:
        return None
    first = next((line for _, line in read_lines(path) if isinstance(line, InputError) or line.strip()), "")
    if isinstance(first, InputError):
        return None
    if is_semeval(first):
        return read_semeval(path)
    if is_conll04(first):
        return read_conll04(path)
    return read_word_relations(path) if first.lstrip().startswith("[") else None


def _read_conll_or_texts(path: str, shape: FileShape, columns: Sequence[str]) -> Iterator[Row | InputError]:
    """`.txt` is one text a line; with `data.columns` naming a word it is columns, and so is what begins a document."""
    if shape.conll_2012 and _begins_document(path):
        return read_conll_2012(path)
    if shape.conll and "word" in columns:
        return read_columns(path, columns)
    return read_texts(path)


def _begins_document(path: str) -> bool:
    """Whether a file's first line with anything in it begins a CoNLL-2012 document."""
    first = next((line for _, line in read_lines(path) if isinstance(line, InputError) or line.strip()), "")
    return isinstance(first, str) and first.lstrip().startswith("#begin document")


def read_texts(path: str) -> Iterator[Row | InputError]:
    """One text a line, blank lines passed over."""
    for number, line in read_lines(path):
        if isinstance(line, InputError):
            yield line
        elif line.strip():
            yield Row(values={"text": line}, path=path, line=number)


def _is_json_lines(path: str) -> bool:
    """Whether a file's first line is a whole object that is no SQuAD document."""
    first = next((line for _, line in read_lines(path) if isinstance(line, InputError) or line.strip()), "")
    return isinstance(first, str) and first.rstrip().endswith("}") and '"data"' not in first[:1000]
