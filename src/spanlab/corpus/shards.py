"""A shard on disk: one little-endian file with four sections, written once, then mapped into memory.

| section | type | holds |
|---|---|---|
| tokens | uint16 or uint32, (N,) | token ids |
| words | bits, ⌈N / 8⌉ bytes, lowest bit first | whether a token begins a word |
| sentences | uint32, (S,) | first token of each sentence |
| documents | uint32, (D,) | first token of each document |

Each section begins at a multiple of 8 bytes; its position follows from the counts in the manifest. One file, not
four, keeps the number of open files down in a corpus of many shards. Documents never cross shards.
"""

import hashlib
import os
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from spanlab.corpus.manifest import ShardRecord
from spanlab.errors import InputError

_CHUNK = 1 << 22
_ALIGNMENT = 8


class Shard:
    """A shard mapped into memory; nothing is read before it is used."""

    def __init__(self, folder: Path, record: ShardRecord, token_type: str) -> None:
        path = folder / record.file
        try:
            size = path.stat().st_size
        except FileNotFoundError:
            raise InputError(
                "a shard is missing", path=path, fix="copy the whole folder, or prepare it again"
            ) from None
        expected = section_starts(record.tokens, record.sentences, record.documents, np.dtype(token_type).itemsize)[-1]
        if size != record.bytes or size != expected:
            raise InputError(
                f"the shard has {size} bytes, the manifest says {record.bytes}",
                path=path,
                fix="it was truncated, or the manifest is another corpus's: copy the whole folder, or prepare it again",
            )
        self._path = path
        self._bytes = np.memmap(path, dtype=np.uint8, mode="r").view(np.ndarray)
        self._record, self._token_type = record, np.dtype(token_type).newbyteorder("<")
        self._starts = section_starts(record.tokens, record.sentences, record.documents, self._token_type.itemsize)

    @property
    def tokens(self) -> NDArray[np.unsignedinteger]:
        """(N,) token ids."""
        return self._section(0, self._record.tokens * self._token_type.itemsize).view(self._token_type)

    @property
    def words(self) -> NDArray[np.uint8]:
        """(⌈N / 8⌉,) word starts as bits, lowest first."""
        return self._section(1, -(-self._record.tokens // 8))

    @cached_property
    def sentences(self) -> NDArray[np.uint32]:
        """(S,) first token of each sentence."""
        return self._boundaries(2, self._record.sentences, "sentences")

    @cached_property
    def documents(self) -> NDArray[np.uint32]:
        """(D,) first token of each document."""
        return self._boundaries(3, self._record.documents, "documents")

    def _boundaries(self, index: int, count: int, name: str) -> NDArray[np.uint32]:
        starts = self._section(index, 4 * count).view("<u4")
        if starts[0] != 0 or starts[-1] >= self._record.tokens or (starts[1:] <= starts[:-1]).any():
            fix = "see what else is with `spanlab inspect corpus --verify`, and prepare the corpus again"
            raise InputError(f"damaged: its {name} do not follow one another", path=self._path, fix=fix)
        return starts

    def _section(self, index: int, size: int) -> NDArray[np.uint8]:
        start = self._starts[index]
        return self._bytes[start : start + size]


def section_starts(tokens: int, sentences: int, documents: int, token_bytes: int) -> tuple[int, int, int, int, int]:
    """Where the four sections begin, and where the file ends."""
    starts = [0]
    for size in (tokens * token_bytes, -(-tokens // 8), 4 * sentences, 4 * documents):
        starts.append(starts[-1] + -(-size // _ALIGNMENT) * _ALIGNMENT)
    first, second, third, fourth, end = starts
    return first, second, third, fourth, end


def write_shard(path: Path, *, tokens: Path, words: Path, sentences: Path, documents: Path) -> str:
    """Put a shard together from its sections' files (word starts one byte a token) and return its sha256.

    The shard appears under its name only when whole; writing it again gives the same file.
    """
    digest = hashlib.sha256()
    partial = path.with_name(path.name + ".partial")
    with partial.open("wb") as file:
        for chunks in (_chunks(tokens), _packed(words), _chunks(sentences), _chunks(documents)):
            size = 0
            for chunk in chunks:
                file.write(chunk)
                digest.update(chunk)
                size += len(chunk)
            padding = bytes(-size % _ALIGNMENT)
            file.write(padding)
            digest.update(padding)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
    return digest.hexdigest()


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            yield chunk


def _packed(path: Path) -> Iterator[bytes]:
    for chunk in _chunks(path):  # a chunk is a multiple of 8 tokens long, but for the last
        yield np.packbits(np.frombuffer(chunk, np.bool_), bitorder="little").tobytes()
