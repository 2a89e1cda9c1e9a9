"""Rows of tables in chunks: .csv, .parquet, and Hugging Face data sets, read front to back.

What leaves is chunks of about the requested size: of a .csv whole records as bytes, each chunk with the header before
it; of the others the documents.
"""

import csv
import io
import tempfile
from collections.abc import Iterable, Iterator
from typing import IO, Any

from spanlab.corpus.object_store import is_url
from spanlab.corpus.prepare.byte_readers import LookAhead, damaged, damaged_errors, open_file, open_stream
from spanlab.corpus.prepare.sources import Source
from spanlab.errors import InputError, MissingExtraError, did_you_mean


def csv_chunks(
    source: Source, field: str, chunk_bytes: int, record_bytes: int, stdin: LookAhead | None
) -> Iterator[tuple[int, int, int, bytes]]:
    """(start, stop, line, bytes) of the chunks of a .csv; `line` is as if the header stood just before the chunk."""
    records = _csv_records(source, record_bytes, stdin)
    header = next(records, b"")
    if not header.strip():
        return
    _check_column(source, field, _csv_header(source, header))
    start = stop = len(header)
    line = first_line = 1 + header.count(b"\n")
    chunk: list[bytes] = []
    for record in records:
        chunk.append(record)
        stop += len(record)
        line += record.count(b"\n")
        if stop - start >= chunk_bytes:
            yield start, stop, first_line - header.count(b"\n"), header + b"".join(chunk)
            start, first_line, chunk = stop, line, []
    if chunk:
        yield start, stop, first_line - header.count(b"\n"), header + b"".join(chunk)


def _csv_header(source: Source, header: bytes) -> list[str]:
    try:
        return next(csv.reader([header.decode("utf-8-sig", "replace")], strict=True))
    except csv.Error as error:
        ends = "end the lines with a line feed, not a carriage return alone" if b"\r" in header.rstrip() else None
        raise InputError(f"not CSV: {error}", path=source.name, line=1, fix=ends) from None


def _csv_records(source: Source, record_bytes: int, stdin: LookAhead | None) -> Iterator[bytes]:
    """The records of a .csv: lines, joined while a quoted field is open (the quotes so far are odd in number)."""
    stream = io.BufferedReader(_Raw(open_stream(source, stdin)), 1 << 20)
    record, line, first = b"", 0, 1
    try:
        while part := stream.readline(record_bytes + 1):
            line += 1
            record += part
            if len(record) > record_bytes:
                raise InputError(
                    f"a record is longer than {record_bytes} bytes",
                    path=source.name,
                    line=first,
                    fix='close its quotes (") or split the document',
                )
            if record.count(b'"') % 2 == 0:
                yield record
                record, first = b"", line + 1
    except damaged_errors() as error:
        raise damaged(source, error) from None
    if record:
        raise InputError("a quoted field is never closed", path=source.name, line=first, fix='add the missing "')


class _Raw(io.RawIOBase):
    """The interface that BufferedReader needs, for a stream that only has `read(size)`."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 (a writable buffer)
        data = self._stream.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def _check_column(source: Source, field: str, columns: Iterable[str]) -> None:
    columns = list(columns)
    if field not in columns:
        raise InputError(
            f"no column '{field}'{did_you_mean(field, columns)}; the columns are {', '.join(columns)}",
            path=source.name,
            line=1 if source.format == "csv" else None,
            fix="set the column of the text with --text-field",
        )


def parquet_chunks(source: Source, field: str, chunk_characters: int) -> Iterator[tuple[int, tuple[str, ...]]]:
    """(first row, documents) of the chunks of a .parquet file; rows without text are empty documents."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingExtraError("data", f"reading {source.name}") from None
    try:
        file = pyarrow.parquet.ParquetFile(_seekable(source))
        _check_column(source, field, file.schema_arrow.names)
        batches = file.iter_batches(batch_size=256, columns=[field])
        values = (value for batch in batches for value in _column_texts(batch[0]))
        yield from _chunks(source, field, values, chunk_characters)
    except (pyarrow.ArrowInvalid, pyarrow.ArrowException, OSError) as error:
        raise InputError(f"not a readable .parquet file ({error})".replace("\n", " "), path=source.name) from None


def _column_texts(column: Any) -> list[Any]:  # noqa: ANN401 (an array of pyarrow)
    """The values of a column; bytes that are not UTF-8 become lone surrogates, which the worker refuses or replaces."""
    try:
        values: list[Any] = column.to_pylist()
        return values
    except UnicodeDecodeError:
        return [value and value.decode("utf-8", "surrogateescape") for value in column.cast("binary").to_pylist()]


def _seekable(source: Source) -> Any:  # noqa: ANN401 (a path or a file)
    if source.compression is None and source.size is not None:
        return open_file(source.name) if is_url(source.name) else source.name
    file = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the reader does)
    stream = open_stream(source)
    try:
        while data := stream.read(1 << 20):
            file.write(data)
    except damaged_errors() as error:
        raise damaged(source, error) from None
    file.seek(0)
    return file


def dataset_chunks(source: Source, field: str, chunk_characters: int) -> Iterator[tuple[int, tuple[str, ...]]]:
    """(first row, documents) of the chunks of `datasets:NAME[:CONFIG][:SPLIT]`, streamed; default split: train."""
    try:
        import datasets
    except ImportError:
        raise MissingExtraError("datasets", f"reading {source.name}") from None
    name, *rest = source.name.removeprefix("datasets:").split(":")
    config, split = (rest[0] if len(rest) > 1 else None), (rest[-1] if rest else "train")
    try:
        rows = datasets.load_dataset(name, config, split=split, streaming=True)
        columns = rows.column_names
    except Exception as error:  # the library raises many types, all about the requested data set
        raise InputError(f"cannot load the data set ({error})".replace("\n", " "), path=source.name) from None
    if columns is not None:
        _check_column(source, field, columns)
    yield from _chunks(source, field, (row[field] for row in rows), chunk_characters)


def _chunks(
    source: Source, field: str, values: Iterable[Any], chunk_characters: int
) -> Iterator[tuple[int, tuple[str, ...]]]:
    start, size = 0, 0
    chunk: list[str] = []
    for row, value in enumerate(values):
        if not isinstance(value, str | None):
            raise InputError(
                f"row {row}: '{field}' is {type(value).__name__}, not text",
                path=source.name,
                fix="set the column of the text with --text-field",
            )
        chunk.append(value or "")
        size += len(value or "")
        if size >= chunk_characters:
            yield start, tuple(chunk)
            start, size, chunk = row + 1, 0, []
    if chunk:
        yield start, tuple(chunk)
