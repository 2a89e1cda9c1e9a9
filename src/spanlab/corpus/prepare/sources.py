"""From command-line names to sources: files, folders, patterns, URLs, standard input, Hugging Face data sets.

Sources come in a fixed order (the order given; inside a folder by name), because the order decides which of two equal
documents stays and where shards are cut. Only directory listings are read.
"""

import glob
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG
from typing import Literal

from spanlab.corpus.object_store import is_url, list_objects
from spanlab.errors import InputError

Format = Literal["txt", "jsonl", "csv", "parquet", "datasets"]
Compression = Literal["gz", "xz", "zst"]
COMPRESSIONS: tuple[Compression, ...] = ("gz", "xz", "zst")
FILE_FORMATS: tuple[Format, ...] = ("txt", "jsonl", "csv", "parquet")

STDIN = "-"
_DATASETS = "datasets:"


@dataclass(frozen=True, kw_only=True)
class Source:
    """One input of documents."""

    name: str
    """The path or URL, `-` for standard input, or `datasets:NAME[:CONFIG][:SPLIT]`; used in messages."""
    format: Format
    compression: Compression | None = None
    size: int | None = None
    """Bytes on disk; None where unknown."""
    modified: int | None = None

    @property
    def splittable(self) -> bool:
        """Whether a worker can open it and read any byte range of it."""
        return self.size is not None and self.compression is None and self.format in {"txt", "jsonl"}


def find_sources(names: Sequence[str], file_format: Format | None = None) -> Iterator[Source]:
    """The sources that `names` stand for, in order; `file_format` overrides what file names say."""
    for name in names:
        path = Path(name)
        if name == STDIN:
            yield Source(name=STDIN, format=file_format or "txt")
        elif name.startswith(_DATASETS):
            yield Source(name=name, format="datasets")
        elif is_url(name):
            yield from _objects(name, file_format)
        elif path.is_dir():
            yield from _folder(path, file_format)
        elif path.exists():
            yield _file(path, file_format)
        elif glob.has_magic(name):
            yield from _pattern(name, file_format)
        else:
            raise InputError("no such file or folder", path=name)


def _folder(folder: Path, file_format: Format | None) -> Iterator[Source]:
    is_empty = True
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            if not name.startswith(".") and (file_format or _format_of(name)[0]):
                is_empty = False
                yield _file(Path(parent) / name, file_format)
    if is_empty:
        raise _no_files(folder)


def _no_files(folder: str | Path) -> InputError:
    return InputError(
        f"no {', '.join('.' + name for name in FILE_FORMATS)} file in this folder (nor a .gz, .xz or .zst of one)",
        path=folder,
        fix="set the format of the files with --format",
    )


def _objects(url: str, file_format: Format | None) -> Iterator[Source]:
    """The objects that a URL stands for: one, those below it, or those that match a pattern."""
    is_empty = True
    for name, size, stamp in list_objects(url):
        name_format, compression = _format_of(name)
        hidden = any(part.startswith(".") for part in name.removeprefix(url).split("/"))
        if name == url and not (file_format or name_format):
            raise InputError("not a known format", path=url, fix="use --format txt, or another")
        if (chosen := file_format or name_format) and not hidden:
            is_empty = False
            yield Source(name=name, format=chosen, compression=compression, size=size, modified=stamp)
    if is_empty:
        raise _no_files(url)


def _pattern(pattern: str, file_format: Format | None) -> Iterator[Source]:
    paths = [Path(name) for name in sorted(glob.glob(pattern, recursive=True))]  # noqa: PTH207 (it may be absolute)
    if not paths:
        raise InputError("no file matches this pattern", path=pattern)
    for path in paths:
        if path.is_dir():
            yield from _folder(path, file_format)
        else:
            yield _file(path, file_format)


def _format_of(name: str) -> tuple[Format | None, Compression | None]:
    stem, _, ending = name.lower().rpartition(".")
    compression = next((known for known in COMPRESSIONS if known == ending), None)
    if compression:
        ending = stem.rpartition(".")[2]
    return next((known for known in FILE_FORMATS if known == ending), None), compression


def _file(path: Path, file_format: Format | None) -> Source:
    name_format, compression = _format_of(path.name)
    chosen = file_format or name_format
    if chosen is None:
        raise InputError(f"'{path.suffix}' is not a known format", path=path, fix="use --format txt, or another")
    status = path.stat()
    if not S_ISREG(status.st_mode):
        raise InputError("not a regular file", path=path, fix="pipe it in: … | spanlab prepare - …")
    return Source(
        name=str(path), format=chosen, compression=compression, size=status.st_size, modified=status.st_mtime_ns
    )
