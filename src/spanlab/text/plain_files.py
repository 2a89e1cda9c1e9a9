"""Plain text files as a stream of strings, in constant memory for files and lines of any size."""

import codecs
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from spanlab.errors import InputError

_BLOCK = 1 << 16  # trainers take hundreds of blocks at a time


@dataclass(frozen=True, kw_only=True)
class PlainFiles:
    """The text of UTF-8 files in small blocks that end with a line or a word; can be iterated any number of times.

    `on_read` is called with the bytes of each block.
    """

    paths: tuple[Path, ...]
    on_read: Callable[[int], None] | None = None

    @property
    def size(self) -> int:
        """Total bytes."""
        return sum(path.stat().st_size for path in self.paths)

    def __iter__(self) -> Iterator[str]:
        for path in self.paths:
            yield from _whole_words(self._blocks(path))

    def _blocks(self, path: Path) -> Iterator[str]:
        decoder = codecs.getincrementaldecoder("utf-8-sig")()
        offset = 0
        try:
            with path.open("rb") as file:
                while block := file.read(_BLOCK):
                    yield decoder.decode(block)
                    offset += len(block)
                    if self.on_read is not None:
                        self.on_read(len(block))
                decoder.decode(b"", final=True)
        except UnicodeDecodeError as error:
            position = offset + error.start - len(decoder.getstate()[0])
            raise InputError(
                f"not UTF-8 text (byte {max(position, 0)})", path=path, fix="convert it to UTF-8"
            ) from None
        except OSError as error:
            raise InputError(error.strerror or str(error), path=path) from None


def open_plain_files(paths: Iterable[str | Path], on_read: Callable[[int], None] | None = None) -> PlainFiles:
    """The files at `paths`; raises where one does not exist or is empty."""
    files = tuple(Path(path) for path in paths)
    for path in files:
        if not path.exists():
            raise InputError("no such file", path=path, fix="check its name and folder")
        if path.is_dir():
            raise InputError("is a folder", path=path, fix="give the files in it")
        if not path.is_file():
            raise InputError("is not a regular file", path=path, fix="save its text to a file: it may be read twice")
        if path.stat().st_size == 0:
            raise InputError("is empty", path=path, fix="leave it out")
    return PlainFiles(paths=files, on_read=on_read)


def _whole_words(blocks: Iterable[str]) -> Iterator[str]:
    """The blocks split after their last line break, or after their last space if a line is longer than a block."""
    rest = ""
    for block in blocks:
        text = rest + block
        end = text.rfind("\n") + 1 or text.rfind(" ") + 1 or len(text)
        yield text[:end]
        rest = text[end:]
    if rest:
        yield rest
