"""Sources cut into segments: whole documents, a few megabytes at a time.

What enters is sources in order; what leaves is segments in order, in groups that one worker tokenizes at once. Where a
cut falls is a function of the source's bytes alone, never of workers, so shards are the same on any machine. A plain
.txt or .jsonl file is cut by byte ranges that workers read themselves; this process reads only the bytes around the
cuts. Compressed files, standard input, .csv and .parquet can only be read front to back: this process reads them, and
their segments contain their bytes or documents.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from spanlab.corpus.prepare.byte_readers import ByteReader, LookAhead, file_line, open_reader
from spanlab.corpus.prepare.config import PrepareConfig
from spanlab.corpus.prepare.sources import Source
from spanlab.corpus.prepare.tables import csv_chunks, dataset_chunks, parquet_chunks
from spanlab.errors import InputError

_BOM = b"\xef\xbb\xbf"
_BLANK_LINE = re.compile(rb"\n[ \t\r\f\v]*\n")
_LINE = re.compile(rb"\n")
_DOCUMENT_ENDS = {"line": _LINE, "blank-line": _BLANK_LINE, "file": None}
_LOOK = 1 << 16
RECORD_BYTES = 64 << 20
"""A longer line of a .jsonl file, or record of a .csv file, is refused: it cannot be read in parts."""


@dataclass(frozen=True, kw_only=True)
class Segment:
    """Whole documents of one source, in order."""

    source: Source
    start: int
    """First byte, or first row of a .parquet file or data set."""
    stop: int
    data: bytes | None = None
    """The bytes, where a worker cannot read them from the file itself."""
    documents: tuple[str, ...] | None = None
    """The documents, where the source has no bytes to cut."""
    cut: bool = False
    """The last document was too long: its rest is a document of the next segment."""
    line: int | None = None
    """Line of the first byte; None where unknown."""

    @property
    def fingerprint(self) -> bytes:
        """Changes when the segment's content does: by size and time for a file, by content for what streams."""
        identity = f"{self.source.name}|{self.source.size}|{self.source.modified}|{self.start}|{self.stop}|{self.cut}"
        digest = hashlib.blake2b(identity.encode(errors="surrogateescape"), digest_size=16)
        digest.update(self.data or b"")
        for text in self.documents or ():
            digest.update(text.encode(errors="surrogatepass") + b"\n")
        return digest.digest()

    @property
    def size(self) -> int:
        """Bytes of text, or characters where the segment has `documents`."""
        return sum(map(len, self.documents)) if self.documents is not None else self.stop - self.start

    def line_of(self, offset: int) -> int:
        """The line (from 1) of a byte of the segment's data."""
        if self.data is not None:
            return (self.line or 1) + self.data.count(b"\n", 0, offset)
        return file_line(self.source.name, self.start + offset)


SegmentGroup = tuple[Segment, ...]
"""What one worker tokenizes at once."""


def group_segments(segments: Iterable[Segment], segment_bytes: int) -> Iterator[SegmentGroup]:
    """Segments grouped so that small files are tokenized together."""
    group: list[Segment] = []
    size = 0
    for segment in segments:
        group.append(segment)
        size += segment.size
        if size >= segment_bytes:
            yield tuple(group)
            group, size = [], 0
    if group:
        yield tuple(group)


def segments_of(
    source: Source, config: PrepareConfig, *, record_bytes: int = RECORD_BYTES, stdin: LookAhead | None = None
) -> Iterator[Segment]:
    """The segments of one source, in order."""
    if source.format in {"txt", "jsonl"}:
        yield from _byte_segments(source, config, record_bytes, stdin)
    elif source.format == "csv":
        for start, stop, line, data in csv_chunks(source, config.text_field, config.segment_bytes, record_bytes, stdin):
            yield Segment(source=source, start=start, stop=stop, line=line, data=data)
    else:
        chunks = parquet_chunks if source.format == "parquet" else dataset_chunks
        for start, documents in chunks(source, config.text_field, config.segment_bytes):
            yield Segment(source=source, start=start, stop=start + len(documents), documents=documents)


def _byte_segments(
    source: Source, config: PrepareConfig, record_bytes: int, stdin: LookAhead | None
) -> Iterator[Segment]:
    reader = open_reader(source, stdin)
    try:
        start = len(_BOM) if reader.read(0, len(_BOM)) == _BOM else 0
        line = 1
        while True:
            stop, cut = _next_cut(reader, source, start, line, config, record_bytes)
            if stop == start:
                return
            data = None if source.splittable else reader.read(start, stop)
            yield Segment(source=source, start=start, stop=stop, data=data, cut=cut, line=line if data else None)
            line += data.count(b"\n") if data else 0
            reader.forget(stop)
            start = stop
    finally:
        reader.close()


def _next_cut(
    reader: ByteReader, source: Source, start: int, line: int, config: PrepareConfig, record_bytes: int
) -> tuple[int, bool]:
    """Where the segment from `start` ends, and whether that is inside a document."""
    longest = record_bytes if source.format == "jsonl" else config.document_bytes
    position = start + min(config.segment_bytes, longest)
    if (end := reader.end(position + 1)) <= position:
        return end, False
    pattern = _LINE if source.format == "jsonl" else _DOCUMENT_ENDS[config.documents or "file"]
    while pattern and (window := reader.read(position, min(position + _LOOK, start + longest))):
        if match := pattern.search(window):
            return position + match.end(), False
        position += len(window)
    if (end := reader.end(start + longest + 1)) <= start + longest:
        return end, False
    if source.format == "jsonl":
        raise _line_too_long(reader, source, start, line, config.segment_bytes, record_bytes)
    return _forced_cut(reader, start, start + longest), True


def _line_too_long(
    reader: ByteReader, source: Source, start: int, line: int, segment_bytes: int, record_bytes: int
) -> InputError:
    before = reader.read(start, start + segment_bytes).count(b"\n")
    first = file_line(source.name, start) if source.splittable else line
    return InputError(
        f"the line is longer than {(record_bytes - segment_bytes) / 2**20:.3g} MiB",
        path=source.name,
        line=first + before,
        fix="write one JSON object a line, and split very long documents",
    )


def _forced_cut(reader: ByteReader, start: int, stop: int) -> int:
    """The best position to cut at or just before `stop`: after a line, after a space, between two characters."""
    first = max(start + 1, stop - _LOOK)
    window = reader.read(first, stop)
    for mark in (b"\n", b" "):
        if (offset := window.rfind(mark)) >= 0:
            return first + offset + 1
    continued = re.search(rb"[\xc0-\xff][\x80-\xbf]*$", window)  # the last character may continue after `stop`
    return first + continued.start() if continued else stop
