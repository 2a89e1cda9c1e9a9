"""Predictions as text: every output format of `spanlab predict` in one table.

What enters is a stream of results, of one task or (a mapping by task) of several; what leaves is a stream of text, one
item per result, to be written to a file or printed. A new format is a function and a row in `FORMATS`.

| name | tasks | |
|---|---|---|
| json | all | one JSON object per line, as of `Result.to_dict` |
| text | all | one readable line per result: its id and `name=value`, separated by tabs |
| redacted | ner | JSON lines of the texts with their entities replaced by labels |
| resolved | coref | JSON lines of the texts with their pronouns replaced by names |
| conll2003 | ner | a word and its IOB2 tag per line, a blank line after each text; of nested entities the outer ones |
| conll2012 | coref | documents in the columns of CoNLL-2012 |
| squad | qa | SQuAD's prediction file, `{id: answer}` |
| html | all | one page with every result drawn on its text |
| csv, tsv, parquet | all | a table: a row per result, the keys of the JSON as columns |
| brat | ner, coref, relation | stand-off annotations, with the texts in a file beside |
| triples-csv | relation | one row per relation, with its source; text that a spreadsheet would run is quoted |
| triples-nt | relation | a graph in N-Triples: equal names of one type are one node, each relation has its source |

Importing this module loads nothing heavy.
"""

import csv
import io
import json
import math
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, fields, replace
from html import escape
from itertools import count, islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from spanlab.atomic_io import open_atomically
from spanlab.errors import InputError, RunError

if TYPE_CHECKING:
    from spanlab.inference.predictor import Predictor
    from spanlab.tasks.coref.data import CorefResult
    from spanlab.tasks.ner.data import Entity, NerResult
    from spanlab.tasks.qa.data import QaResult
    from spanlab.tasks.relation.data import RelationResult
    from spanlab.tasks.result import Result

DIGITS = 6
"""Significant digits of numbers in JSON: further ones depend on the CPU, on threads and on what else is in a batch."""
_NOT_IN_TEXT = ("id", "windows", "scores", "nbest")
_PORTION = 256
"""Documents whose coreference clusters are predicted at once."""
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""What a formula begins with; the last four are the full-width forms of the first."""
_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_LABEL = "<http://www.w3.org/2000/01/rdf-schema#label>"
_SOURCE = "<http://purl.org/dc/terms/source>"
_DOUBLE = "<http://www.w3.org/2001/XMLSchema#double>"
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"})

_PAGE_BEGIN = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Results</title><style>
:root { color-scheme: light dark; }
body { font: 17px/1.6 system-ui, sans-serif; margin: 2rem auto; padding: 0 1rem; max-width: 50rem; }
h2, h3 { font-size: .8rem; font-weight: 600; opacity: .65; margin: 0 0 .4rem; }
h3 { margin-top: 1rem; }
article { border-top: 1px solid #8884; padding: 1.2rem 0; overflow-wrap: anywhere; }
td { padding: .1rem .8rem .1rem 0; vertical-align: middle; }
</style></head><body><main>
"""

Record = dict[str, Any]


class OutputFormat(NamedTuple):
    """One row of the table: either `record`, for formats of one line per result, or `write`, or `binary`."""

    name: str
    tasks: tuple[str, ...]
    """Empty: every task."""
    record: Callable[[Any], Record] | None = None
    """The JSON object of a result; files of such lines can be resumed."""
    write: Callable[[Iterable[Any]], Iterator[str]] | None = None
    """The text of a stream of results: one item per result, perhaps with a header and a footer."""
    suffixes: tuple[str, ...] = ()
    """Of file names that ask for this format."""
    binary: Callable[[Iterable[Any]], Iterator[bytes]] | None = None
    """In place of `write`, for a format that is not text."""
    beside: Callable[[Iterable[Any]], Iterator[str]] | None = None
    """The text of a second file, NAME.txt, which the format needs beside the first."""

    def pieces(self, results: Iterable[Any]) -> Iterator[bytes]:
        """The content of a file."""
        if self.binary is not None:
            return self.binary(results)
        return (text.encode("utf-8", "backslashreplace") for text in self.texts(results))

    def texts(self, results: Iterable[Any], *, readable: bool = False) -> Iterator[str]:
        """The text of results; with `readable`, records are `to_text_line` instead of JSON."""
        if self.write is not None:
            return self.write(results)
        assert self.record is not None
        record, to_line = self.record, to_text_line if readable else to_json
        return (to_line(record(result)) + "\n" for result in results)


def to_json(value: object) -> str:
    """One line of JSON, numbers rounded to `DIGITS`; a NaN is an error, and half of a surrogate pair is escaped."""
    text = json.dumps(round_numbers(value), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "backslashreplace").decode()


def round_numbers(value: object) -> object:
    """A plain value with its numbers rounded to `DIGITS`."""
    if isinstance(value, float):
        return float(f"{finite(value):.{DIGITS}g}")
    if isinstance(value, Mapping):
        return {key: round_numbers(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [round_numbers(item) for item in value]
    return value


def finite(number: float) -> float:
    """The number; raises where it is NaN or infinite, which no reader of results expects."""
    if not math.isfinite(number):
        raise RunError(f"a result holds the number {number}; the model's weights are damaged, or its training diverged")
    return number


def to_text_line(record: Record) -> str:
    """A record as a readable line: its id and main values, separated by tabs."""
    hidden = _NOT_IN_TEXT if record["truncated"] else (*_NOT_IN_TEXT, "truncated")
    cells = [record["id"]]
    for name, value in record.items():
        if name not in hidden:
            text = (
                f"{finite(value):.4f}"
                if isinstance(value, float)
                else value
                if isinstance(value, str)
                else to_json(value)
            )
            cells.append(f"{name}={text}")
    return "\t".join(cells)


def full_record(result: "Result | Mapping[str, Result]") -> Record:
    """All values of a result; those of several tasks under `tasks`, by name."""
    if not isinstance(result, Mapping):
        return result.to_dict()
    results = list(result.values())
    return {
        "id": results[0].id,
        "windows": max(result.windows for result in results),
        "truncated": any(result.truncated for result in results),
        "tasks": {name: result.to_dict() for name, result in result.items()},
    }


def redacted_record(result: "NerResult") -> Record:
    """The text without its entities, and nothing that would reveal them."""
    return {"id": result.id, "windows": result.windows, "truncated": result.truncated, "text": result.redacted()}


def resolved_record(result: "CorefResult") -> Record:
    """The text with its pronouns replaced."""
    return {"id": result.id, "windows": result.windows, "truncated": result.truncated, "text": result.resolved()}


def write_text(results: "Iterable[Result | Mapping[str, Result]]") -> Iterator[str]:
    """Readable lines."""
    return (to_text_line(full_record(result)) + "\n" for result in results)


def write_conll_2003(results: "Iterable[NerResult]") -> Iterator[str]:
    """Words and IOB2 tags; words are those of the input file if it has columns, else split by rule."""
    from spanlab.text.tag_schemes import spans_to_tags

    for result in results:
        entities = _outermost(result.spans)
        words = _words_around(result, entities)
        starts = [start for start, _ in words]
        spans = [
            (bisect_left(starts, entity.start), bisect_left(starts, entity.end), "_".join(entity.label.split()))
            for entity in entities
        ]
        tags = spans_to_tags((span for span in spans if span[0] < span[1]), len(words), "IOB2")
        lines = []
        for (start, end), tag in zip(words, tags, strict=True):
            word = result.source[start:end]
            # A file may have the spaces of its texts as words: then only a tab can separate the columns.
            lines.append(f"{word}\t{tag}\n" if word.isspace() else f"{word} {tag}\n")
        yield "".join(lines) + "\n"


def _outermost(entities: "Sequence[Entity]") -> "list[Entity]":
    """Entities that share no character: of those that do, the first, and of those that start together the longest."""
    kept: list[Entity] = []
    for entity in sorted(entities, key=lambda entity: (entity.start, -entity.end)):
        if not kept or entity.start >= kept[-1].end:
            kept.append(entity)
    return kept


def _words_around(result: "NerResult", entities: "Sequence[Entity]") -> list[tuple[int, int]]:
    """The words of a text as character spans, split where an entity starts or ends inside one."""
    from spanlab.text.words import word_spans

    cuts = sorted({edge for entity in entities for edge in (entity.start, entity.end)})
    words: list[tuple[int, int]] = []
    for start, end in result.words if result.words is not None else word_spans(result.source):
        words += pairwise([start, *cuts[bisect_right(cuts, start) : bisect_left(cuts, end)], end])
    return words


def write_conll_2012(results: "Iterable[CorefResult]") -> Iterator[str]:
    """One document per result."""
    return (result.to_conll() for result in results)


def write_squad(results: "Iterable[QaResult]") -> Iterator[str]:
    """One JSON object of all answers by id, "" for none."""
    separator = "{"
    for result in results:
        yield f"{separator}{to_json(result.id)}: {to_json(result.answer)}"
        separator = ",\n "
    yield "{}\n" if separator == "{" else "}\n"


def write_html(results: "Iterable[Result | Mapping[str, Result]]") -> Iterator[str]:
    """A self-contained page: each result under its id, and those of several tasks under their names."""
    yield _PAGE_BEGIN
    for result in results:
        by_task = result if isinstance(result, Mapping) else {"": result}
        first = next(iter(by_task.values()))
        drawn = "".join(
            f"{f'<h3>{escape(name)}</h3>' if name else ''}{part.to_html()}" for name, part in by_task.items()
        )
        truncated = (
            "<p><em>some of the text was truncated</em></p>" if any(r.truncated for r in by_task.values()) else ""
        )
        yield f"<article><h2>{escape(first.id)}</h2>{truncated}{drawn}</article>\n"
    yield "</main></body></html>\n"


def write_triples_csv(results: "Iterable[RelationResult]") -> Iterator[str]:
    """A table with a header, one row per occurrence of a relation."""
    from spanlab.tasks.relation.triples import Triple, document_triples

    yield csv_lines([[field.name for field in fields(Triple)]])
    for result in results:
        yield csv_lines(astuple(triple) for triple in document_triples(result, result.clusters))


def csv_lines(rows: Iterable[Iterable[object]]) -> str:
    """Rows as CSV that no spreadsheet runs."""
    text = io.StringIO(newline="")
    csv.writer(text).writerows([safe_cell(value) for value in row] for row in rows)
    return text.getvalue()


def safe_cell(value: object) -> object:
    """A cell that no spreadsheet runs: text that begins like a formula is quoted by an apostrophe, as OWASP advises."""
    if isinstance(value, float):
        return finite(value)
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def write_triples_nt(results: "Iterable[RelationResult]") -> Iterator[str]:
    """Nodes with type and name, facts, and for each occurrence an RDF statement about its fact with its source."""
    from spanlab.tasks.relation.triples import document_triples

    written: set[str] = set()
    statements = count()
    for result in results:
        lines = []
        for triple in document_triples(result, result.clusters):
            subject, subject_lines = _node(triple.subject, triple.subject_type)
            object_, object_lines = _node(triple.object, triple.object_type)
            relation = _iri("relation", triple.relation)
            for line in (*subject_lines, *object_lines, f"{subject} {relation} {object_} .\n"):
                if line not in written:
                    written.add(line)
                    lines.append(line)
            statement = f"_:s{next(statements)}"
            lines += [
                f"{statement} {predicate} {value} .\n"
                for predicate, value in (
                    (f"<{_RDF}type>", f"<{_RDF}Statement>"),
                    (f"<{_RDF}subject>", subject),
                    (f"<{_RDF}predicate>", relation),
                    (f"<{_RDF}object>", object_),
                    (_SOURCE, _literal(triple.source)),
                    (_iri("score"), f'"{finite(triple.score)}"^^{_DOUBLE}'),
                )
            ]
        yield "".join(lines)


def _node(name: str, label: str) -> tuple[str, tuple[str, str]]:
    node = _iri("entity", label, name.casefold())
    return node, (f"{node} <{_RDF}type> {_iri('type', label)} .\n", f"{node} {_LABEL} {_literal(name)} .\n")


def _iri(*parts: str) -> str:
    return f"<urn:spanlab:{':'.join(quote(part, safe='') for part in parts)}>"


def _literal(text: str) -> str:
    return f'"{text.translate(_ESCAPES)}"'


def write_csv(results: "Iterable[Result | Mapping[str, Result]]") -> Iterator[str]:
    """A table for spreadsheets."""
    from spanlab.inference.tables import csv_table

    return csv_table(results)


def write_tsv(results: "Iterable[Result | Mapping[str, Result]]") -> Iterator[str]:
    """A table separated by tabs."""
    from spanlab.inference.tables import tsv_table

    return tsv_table(results)


def write_parquet(results: "Iterable[Result | Mapping[str, Result]]") -> Iterator[bytes]:
    """A table with types."""
    from spanlab.inference.tables import parquet_file

    return parquet_file(results)


def write_brat(results: "Iterable[NerResult | CorefResult | RelationResult]") -> Iterator[str]:
    """What is marked in the texts."""
    from spanlab.inference.brat import brat_annotations

    return brat_annotations(results)


def write_brat_texts(results: "Iterable[NerResult | CorefResult | RelationResult]") -> Iterator[str]:
    """The texts themselves."""
    from spanlab.inference.brat import brat_texts

    return brat_texts(results)


_MARKING = ("ner", "coref", "relation")
FORMATS: tuple[OutputFormat, ...] = (
    OutputFormat("json", (), record=full_record, suffixes=(".jsonl", ".ndjson", ".json")),
    OutputFormat("text", (), write=write_text, suffixes=(".txt",)),
    OutputFormat("redacted", ("ner",), record=redacted_record),
    OutputFormat("resolved", ("coref",), record=resolved_record),
    OutputFormat("conll2003", ("ner",), write=write_conll_2003, suffixes=(".conll", ".bio", ".iob2")),
    OutputFormat("conll2012", ("coref",), write=write_conll_2012, suffixes=(".conll", ".v4_gold_conll")),
    OutputFormat("squad", ("qa",), write=write_squad),
    OutputFormat("html", (), write=write_html, suffixes=(".html", ".htm")),
    OutputFormat("csv", (), write=write_csv, suffixes=(".csv",)),
    OutputFormat("tsv", (), write=write_tsv, suffixes=(".tsv",)),
    OutputFormat("parquet", (), binary=write_parquet, suffixes=(".parquet",)),
    OutputFormat("brat", _MARKING, write=write_brat, suffixes=(".ann",), beside=write_brat_texts),
    OutputFormat("triples-csv", ("relation",), write=write_triples_csv),
    OutputFormat("triples-nt", ("relation",), write=write_triples_nt, suffixes=(".nt",)),
)
_NOT_WRITTEN = (
    ".gz",
    ".xz",
    ".zst",
    ".bz2",
    ".zip",
    ".xlsx",
    ".xls",
    ".ods",
    ".arrow",
    ".feather",
    ".xml",
    ".yaml",
    ".pdf",
)
"""Suffixes that promise what is not written."""


def format_of_file(path: Path, task: str) -> OutputFormat:
    """The format that the name of an output asks for; JSON lines where it asks for none."""
    suffix = path.suffix.lower()
    rows = [row for row in FORMATS if suffix in row.suffixes]
    for row in rows:
        if not row.tasks or task in row.tasks:
            return row
    if rows or suffix in _NOT_WRITTEN:
        tasks = ", ".join(name for row in rows for name in row.tasks)
        cause = f"{suffix} is for {tasks}, and the task is {task}" if rows else f"{suffix} files are not written"
        known = [name for row in FORMATS if not row.tasks or task in row.tasks for name in row.suffixes]
        raise InputError(cause, path=path, fix=f"use {', '.join(known)}, or name the format with --format")
    return FORMATS[0]


def find_format(name: str, task: str, *, option: str = "--format") -> OutputFormat:
    """The format of a name, if it applies to a task; `option` is the option that chose it, for errors."""
    applicable = {row.name: row for row in FORMATS if not row.tasks or task in row.tasks}
    if name in applicable:
        return applicable[name]
    tasks = [", ".join(row.tasks) for row in FORMATS if row.name == name]
    cause = f"is for {tasks[0]}, and the task is {task}" if tasks else f"{name} does not exist"
    raise InputError(f"{option} {cause}", fix=f"use --format {', '.join(applicable)}")


def add_clusters(results: "Iterator[RelationResult]", coref: "Predictor") -> "Iterator[RelationResult]":
    """The same results with the clusters of a coreference model, which join their entities in triples."""
    task = next((name for name, task in coref.model.tasks.items() if task.name == "coref"), None)
    if task is None:
        fix = "train one with spanlab finetune coref"
        raise InputError("not a coreference model", path=coref.model.folder, fix=fix)
    while portion := list(islice(results, _PORTION)):
        documents = coref.predict([result.source for result in portion], task=task)
        for result, document in zip(portion, documents, strict=True):
            yield replace(result, clusters=document.to_dict()["clusters"])


def write_beside(output_format: OutputFormat, results: Iterable[Any], path: Path) -> Iterator[Any]:
    """Pass results through while writing them to a file, which is there when the last has passed."""
    written: deque[Any] = deque()

    def recorded() -> Iterator[Any]:
        for result in results:
            written.append(result)
            yield result

    with open_atomically(path) as file:
        for piece in output_format.pieces(recorded()):
            file.write(piece)
            while written:
                yield written.popleft()
