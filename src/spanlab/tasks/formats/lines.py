"""Line-based files: UTF-8 with or without a byte order mark, any line endings, plain or compressed; JSON or plain text.

A path enters; numbered lines, or rows, leave one at a time, so a file may be of any size. A line that is not UTF-8 is
yielded as its error and reading continues, so that a check of the data reports all errors.

A line, which has to be in memory whole, has at most 32 MB, or what the environment variable SPANLAB_MAX_LINE_MB says.
A compressed file may not expand 200-fold, which text does not: a small file cannot fill the memory.
"""

import gzip
import io
import lzma
import os
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

from spanlab.errors import InputError, clip_repr
from spanlab.strict_parsing import parse_json
from spanlab.tasks.formats.row import Row

STDIN = "-"
_COMPRESSED = {".gz", ".xz"}
_BOM = b"\xef\xbb\xbf"
_DAMAGED = (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error)
_LINE_MB, _LINE_LIMIT = 32, "SPANLAB_MAX_LINE_MB"
_EXPANSION, _ALWAYS_ALLOWED = 200, 64 << 20
"""How many times its size a compressed file may expand to, and the bytes that any file may."""


def open_bytes(path: str) -> IO[bytes]:
    """The bytes of a file, decompressed, or of standard input."""
    if path == STDIN:
        if sys.stdin is None:
            raise InputError("standard input is closed", fix="name a file, or connect it with a pipe")
        return sys.stdin.buffer
    file = Path(path)
    if not file.exists():
        raise InputError("no such file", path=path, fix="check its name and folder")
    if file.is_dir():
        raise InputError("is a folder, not a file of examples", path=path, fix="name a file in it")
    if file.suffix == ".gz":
        return cast(IO[bytes], gzip.open(path))
    return lzma.open(path) if file.suffix == ".xz" else file.open("rb")


def peek_stdin() -> str:
    """The beginning of standard input, which is read again later; as much of it as the buffer holds."""
    stdin = open_bytes(STDIN)
    return stdin.peek().decode("utf-8", "replace") if isinstance(stdin, io.BufferedReader) else ""


def bare_suffix(path: str) -> str:
    """The lower-case suffix of a file's name before `.gz` or `.xz`."""
    file = Path(path)
    return Path(file.stem).suffix.lower() if file.suffix in _COMPRESSED else file.suffix.lower()


def read_lines(path: str) -> Iterator[tuple[int, str | InputError]]:
    """Each line without its end, numbered from 1; an error where it cannot be decoded."""
    try:
        with open_bytes(path) as file:
            longest, largest = max_line_bytes(), _largest_content(path)
            total, line_number = 0, 0
            while data := file.readline(longest + 1):
                line_number, total = line_number + 1, total + len(data)
                if len(data) > longest:
                    raise _too_long(path, line_number, longest)
                if total > largest:
                    raise _expands(path)
                content = data.removeprefix(_BOM) if line_number == 1 else data
                yield line_number, _decode(content.rstrip(b"\r\n"), path, line_number)
    except _DAMAGED as error:
        raise InputError(f"damaged or cut short ({error})", path=path, fix="download it again") from None


def max_line_bytes() -> int:
    """The longest line that is read."""
    value = os.environ.get(_LINE_LIMIT, str(_LINE_MB))
    if not (value.isascii() and value.isdigit() and 0 < int(value[:9]) <= 1 << 20):
        raise InputError(f"{_LINE_LIMIT} is {clip_repr(value)}; it must be a number of megabytes")
    return int(value) << 20


def _largest_content(path: str) -> int:
    """The most bytes that a file may hold."""
    if Path(path).suffix not in _COMPRESSED or path == STDIN:
        return sys.maxsize
    return max(_ALWAYS_ALLOWED, _EXPANSION * Path(path).stat().st_size)


def _read_all(file: IO[bytes], largest: int, path: str) -> bytes:
    blocks, total = [], 0
    while block := file.read(1 << 24):
        blocks.append(block)
        total += len(block)
        if total > largest:
            raise _expands(path)
    return b"".join(blocks)


def _too_long(path: str, line: int, longest: int) -> InputError:
    fix = f"write one example a line; if it is one, allow longer lines with {_LINE_LIMIT}={(longest >> 20) * 8}"
    return InputError(f"the line is longer than {longest >> 20} MB", path=path, line=line, fix=fix)


def _expands(path: str) -> InputError:
    cause = f"expands to more than {_EXPANSION} times its size, which text does not"
    return InputError(cause, path=path, fix="if that is what it holds, decompress it first")


def read_text(path: str) -> str:
    """The content of a file without its byte order mark."""
    try:
        with open_bytes(path) as file:
            data = _read_all(file, _largest_content(path), path)
    except _DAMAGED as error:
        raise InputError(f"damaged or cut short ({error})", path=path, fix="download it again") from None
    data = data.removeprefix(_BOM)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError("not UTF-8 text", path=path, line=line, fix="convert the file to UTF-8") from None


def _decode(data: bytes, path: str, line_number: int) -> str | InputError:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        cause = f"not UTF-8 text (byte {error.start} of the line)"
        return InputError(cause, path=path, line=line_number, fix="convert the file to UTF-8")


def read_texts(path: str) -> Iterator[Row | InputError]:
    """One row per line, with the line as its text; a blank line is an empty text, so rows count as lines do."""
    for line_number, line in read_lines(path):
        if isinstance(line, InputError):
            yield line
        else:
            yield Row(values={"text": line}, path=path, line=line_number)


def read_json_lines(path: str) -> Iterator[Row | InputError]:
    """One row per line, a JSON object; blank lines are skipped, any other line is yielded as an error."""
    for line_number, line in read_lines(path):
        if isinstance(line, InputError):
            yield line
        elif line.strip():
            yield _json_row(path, line_number, line)


def _json_row(path: str, line_number: int, line: str) -> Row | InputError:
    try:
        values = parse_json(line, path=path, line=line_number, fix="write one JSON object per line")
    except InputError as error:
        return error
    if not isinstance(values, dict):
        names = {list: "a list", str: "text", int: "a number", float: "a number", bool: "true or false"}
        actual = names.get(type(values), "null")
        return InputError(f"holds {actual}, not an object", path=path, line=line_number, fix='write {"text": …}')
    return Row(values=values, path=path, line=line_number)
