"""Bytes of a source, by position: of a plain file at random, of a compressed one or standard input front to back.

The two readers answer the same question, `read(start, stop)`, so that one rule cuts every input into segments. A
stream keeps only the bytes from the last `forget` on.
"""

import os
from abc import ABC, abstractmethod
from pathlib import Path
from typing import IO, cast

from typing_extensions import override

from spanlab.corpus.object_store import is_url, open_object
from spanlab.corpus.prepare.sources import STDIN, Source
from spanlab.errors import InputError, MissingExtraError


class LookAhead:
    """A stream whose first bytes can be peeked at before they are read."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._ahead = b""

    def peek(self, size: int) -> bytes:
        """The next `size` bytes (fewer at the end), without consuming them."""
        while len(self._ahead) < size and (more := self._stream.read(size - len(self._ahead))):
            self._ahead += more
        return self._ahead[:size]

    def read(self, size: int) -> bytes:
        """At most `size` bytes, none at the end."""
        if not self._ahead:
            return self._stream.read(size)
        taken, self._ahead = self._ahead[:size], self._ahead[size:]
        return taken

    def close(self) -> None:
        """Does nothing: standard input stays open."""


class ByteReader(ABC):
    """Bytes by position."""

    @abstractmethod
    def read(self, start: int, stop: int) -> bytes:
        """The bytes from `start` to `stop`, fewer at the end of the input."""

    @abstractmethod
    def end(self, position: int) -> int:
        """`position`, or the end of the input where that comes first."""

    def forget(self, position: int) -> None:  # noqa: B027 (only streams have something to discard)
        """Nothing before `position` will be read again."""

    @abstractmethod
    def close(self) -> None:
        """Close the file."""


class FileBytes(ByteReader):
    """A plain file or object, with random access."""

    def __init__(self, path: str) -> None:
        self._file = open_file(path)

    @override
    def read(self, start: int, stop: int) -> bytes:
        self._file.seek(start)
        return self._file.read(stop - start)

    @override
    def end(self, position: int) -> int:
        return min(position, self._file.seek(0, os.SEEK_END))

    @override
    def close(self) -> None:
        self._file.close()


class StreamBytes(ByteReader):
    """A stream read front to back, with a buffer of the bytes since the last `forget`."""

    def __init__(self, source: Source, stream: IO[bytes]) -> None:
        self._source, self._stream = source, stream
        self._first, self._buffer = 0, bytearray()

    @override
    def read(self, start: int, stop: int) -> bytes:
        assert start >= self._first, "a stream cannot go back"
        self.end(stop)
        return bytes(self._buffer[start - self._first : stop - self._first])

    @override
    def end(self, position: int) -> int:
        try:
            while self._first + len(self._buffer) < position and (more := self._stream.read(1 << 20)):
                self._buffer += more
        except damaged_errors() as error:
            raise damaged(self._source, error) from None
        return min(position, self._first + len(self._buffer))

    @override
    def forget(self, position: int) -> None:
        del self._buffer[: position - self._first]
        self._first = position

    @override
    def close(self) -> None:
        self._stream.close()


def open_file(name: str) -> IO[bytes]:
    """A file by its path, or an object by its URL; the caller closes it."""
    return open_object(name) if is_url(name) else Path(name).open("rb")


def open_stream(source: Source, stdin: LookAhead | None = None) -> IO[bytes]:
    """The bytes of a file or of standard input, decompressed, front to back."""
    if source.name == STDIN:
        if stdin is None:
            raise InputError("standard input is not available")
        return cast("IO[bytes]", stdin)
    raw = open_file(source.name)
    if source.compression == "gz":
        import gzip

        return cast("IO[bytes]", gzip.GzipFile(fileobj=raw))
    if source.compression == "xz":
        import lzma

        return cast("IO[bytes]", lzma.LZMAFile(raw))
    if source.compression == "zst":
        try:
            import zstandard
        except ImportError:
            raise MissingExtraError("data", f"reading {source.name}") from None
        return cast("IO[bytes]", zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True))
    return raw


def open_reader(source: Source, stdin: LookAhead | None = None) -> ByteReader:
    """A reader by position for a source of bytes."""
    if source.splittable:
        return FileBytes(source.name)
    return StreamBytes(source, open_stream(source, stdin))


def damaged_errors() -> tuple[type[Exception], ...]:
    """What decompressors raise on a damaged or truncated file."""
    import lzma
    import sys
    import zlib
    from gzip import BadGzipFile

    known: list[type[Exception]] = [EOFError, zlib.error, lzma.LZMAError, BadGzipFile]
    if "zstandard" in sys.modules:
        known.append(sys.modules["zstandard"].ZstdError)
    return tuple(known)


def damaged(source: Source, error: Exception) -> InputError:
    """The error for a compressed file that cannot be read to its end."""
    return InputError(f"the .{source.compression} file is damaged or cut short ({error})", path=source.name)


def file_line(path: str, offset: int) -> int:
    """The line (from 1) of the byte at `offset` of a plain file; for error messages only, it reads all before it."""
    lines, left = 1, offset
    with open_file(path) as file:
        while left > 0 and (chunk := file.read(min(left, 1 << 20))):
            lines += chunk.count(b"\n")
            left -= len(chunk)
    return lines
