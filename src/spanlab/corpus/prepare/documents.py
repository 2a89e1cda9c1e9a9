"""The documents of a segment: its bytes are decoded and, by the source's format, split into texts.

Bytes that are not UTF-8 are an error that names the file and the offset, or become U+FFFD and are counted. A malformed
record is an error that names the line.
"""

import csv
import io
import re
from collections.abc import Iterable, Iterator
from typing import Any

from spanlab.corpus.prepare.byte_readers import open_file
from spanlab.corpus.prepare.config import ErrorHandling, PrepareConfig
from spanlab.corpus.prepare.segments import Segment
from spanlab.errors import InputError, did_you_mean
from spanlab.strict_parsing import parse_json

BLANK_LINE = re.compile(r"\n[ \t\r\f\v]*\n\s*")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def documents_of(segment: Segment, config: PrepareConfig) -> tuple[list[str], int]:
    """The documents of a segment, unchanged, and how many invalid byte sequences were replaced."""
    errors, field = config.errors, config.text_field
    if segment.documents is not None:
        return _replace_lone_surrogates(segment, segment.documents, errors)
    data = _read(segment) if segment.data is None else segment.data
    text, replaced = _decode(segment, data, errors)
    if segment.source.format == "jsonl":
        texts, surrogates = _replace_lone_surrogates(segment, _json_documents(segment, text, field), errors)
        return texts, replaced + surrogates
    if segment.source.format == "csv":
        return list(_csv_documents(segment, text, field)), replaced
    if config.documents == "line":
        return text.split("\n"), replaced
    return (BLANK_LINE.split(text) if config.documents == "blank-line" else [text]), replaced


def _read(segment: Segment) -> bytes:
    try:
        with open_file(segment.source.name) as file:
            file.seek(segment.start)
            data = file.read(segment.stop - segment.start)
    except OSError as error:
        raise InputError(
            f"a worker cannot read it ({error.strerror})",
            path=segment.source.name,
            fix="put the input where every worker sees it under the same path",
        ) from None
    if len(data) != segment.stop - segment.start:
        raise InputError("the file became shorter while it was read", path=segment.source.name)
    return data


def _decode(segment: Segment, data: bytes, errors: ErrorHandling) -> tuple[str, int]:
    try:
        return data.decode("utf-8"), 0
    except UnicodeDecodeError as error:
        if errors == "replace":
            text = data.decode("utf-8", "replace")
            return text, text.count("\ufffd") - data.count("\ufffd".encode())
        offset = segment.stop - len(data) + error.start
        raise InputError(
            f"byte {offset} (0x{data[error.start]:02x}) is not UTF-8 text",
            path=segment.source.name,
            line=segment.line_of(error.start),
            fix="convert the file to UTF-8, or use --errors replace",
        ) from None


def _replace_lone_surrogates(segment: Segment, texts: Iterable[str], errors: ErrorHandling) -> tuple[list[str], int]:
    """The texts with U+FFFD for lone surrogates, which JSON can spell but UTF-8 cannot encode; how many there were."""
    clean, replaced = [], 0
    for index, text in enumerate(texts):
        surrogates = 0 if text.isascii() else len(_LONE_SURROGATE.findall(text))
        if surrogates and errors == "strict":
            raise InputError(
                f"document {index} from byte or row {segment.start} on contains bytes that are not text",
                path=segment.source.name,
                fix="fix it, or use --errors replace",
            )
        clean.append(_LONE_SURROGATE.sub("\ufffd", text) if surrogates else text)
        replaced += surrogates
    return clean, replaced


def _json_documents(segment: Segment, text: str, field: str) -> Iterator[str]:
    offset = 0
    for line in text.split("\n"):
        if line.strip():
            yield _json_text(segment, text, offset, line, field)
        offset += len(line) + 1


def _json_text(segment: Segment, text: str, offset: int, line: str, field: str) -> str:
    def error(cause: str, fix: str) -> InputError:
        line_number = segment.line_of(len(text[:offset].encode()))
        return InputError(cause, path=segment.source.name, line=line_number, fix=fix)

    try:
        record = parse_json(line, surrogates="keep")
    except InputError as problem:
        raise error(problem.cause, "write one JSON object a line") from None
    if not isinstance(record, dict):
        raise error(f"the line holds {_json_type(record)}, not an object", "write one JSON object a line")
    if field not in record:
        hint = did_you_mean(field, record) or f"; its keys are {', '.join(record) or 'none'}"
        raise error(f"the record has no '{field}'{hint}", "set the key of the text with --text-field")
    value = record[field]
    if not isinstance(value, str | None):
        raise error(f"'{field}' is {_json_type(value)}, not text", "set the key of the text with --text-field")
    return value or ""


def _json_type(value: Any) -> str:  # noqa: ANN401 (anything JSON holds)
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


def _csv_documents(segment: Segment, text: str, field: str) -> Iterator[str]:
    csv.field_size_limit(max(csv.field_size_limit(), len(text) + 1))
    rows = csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), strict=True)
    try:
        columns = next(rows)
        column = columns.index(field)
        for row in rows:
            if not row:
                continue
            if len(row) != len(columns):
                raise InputError(
                    f"the record has {len(row)} fields, the header {len(columns)}",
                    path=segment.source.name,
                    line=(segment.line or 1) + rows.line_num - 1,
                    fix='quote fields that hold commas with "',
                )
            yield row[column]
    except csv.Error as problem:
        line = (segment.line or 1) + rows.line_num - 1
        raise InputError(f"not CSV: {problem}", path=segment.source.name, line=line) from None
