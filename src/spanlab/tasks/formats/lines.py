"""The numbered lines of a text file: UTF-8 with or without a byte order mark, any line ends, plain or compressed.

Lines come one at a time, so a file may be of any size. A line that is not UTF-8 comes as the error it is, and the lines
after it still come: whoever checks data wants to see all of them.
"""

import gzip
import lzma
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

from spanlab.errors import InputError

STDIN = "-"
_COMPRESSED = {".gz", ".xz"}
_BOM = b"\xef\xbb\xbf"


def open_bytes(path: str) -> IO[bytes]:
    """The bytes of a file, decompressed, or of standard input."""
    if path == STDIN:
        return sys.stdin.buffer
    file = Path(path)
    if not file.exists():
        raise InputError("no such file", path=path, fix="check its name and folder")
    if file.is_dir():
        raise InputError("is a folder, not a file of examples", path=path, fix="name a file in it")
    if file.suffix == ".gz":
        return cast(IO[bytes], gzip.open(path))
    return lzma.open(path) if file.suffix == ".xz" else file.open("rb")


def bare_suffix(path: str) -> str:
    """The suffix of a file's name, that of compression left away."""
    file = Path(path)
    return Path(file.stem).suffix.lower() if file.suffix in _COMPRESSED else file.suffix.lower()


def read_lines(path: str) -> Iterator[tuple[int, str | InputError]]:
    """Each line without its end, numbered from 1; an error where it cannot be decoded."""
    try:
        with open_bytes(path) as file:
            for number, data in enumerate(file, 1):
                content = data.removeprefix(_BOM) if number == 1 else data
                yield number, _decode(content.rstrip(b"\r\n"), path, number)
    except (EOFError, gzip.BadGzipFile, lzma.LZMAError) as error:
        raise InputError(f"damaged or cut short ({error})", path=path, fix="fetch it again") from None


def read_text(path: str) -> str:
    """The whole of a file, without a byte order mark."""
    try:
        with open_bytes(path) as file:
            data = file.read().removeprefix(_BOM)
    except (EOFError, gzip.BadGzipFile, lzma.LZMAError) as error:
        raise InputError(f"damaged or cut short ({error})", path=path, fix="fetch it again") from None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError("not UTF-8 text", path=path, line=line, fix="convert the file to UTF-8") from None


def _decode(data: bytes, path: str, number: int) -> str | InputError:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        cause = f"not UTF-8 text (byte {error.start} of the line)"
        return InputError(cause, path=path, line=number, fix="convert the file to UTF-8")
