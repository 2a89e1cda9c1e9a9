"""The manifest of a prepared corpus: what it was made of, what it holds, and the fingerprint of every file.

A folder is a corpus when it has a manifest, and the manifest is written last, so a folder without one is at most a
preparation that was interrupted. The manifest holds nothing that varies between two runs on the same input: no time,
no host, no number of workers.
"""

import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal

from spanlab.atomic_io import sha256_of, write_atomically
from spanlab.config import AtLeast, AtMost, Source, from_mapping, to_mapping
from spanlab.corpus.prepare.config import PrepareConfig
from spanlab.errors import InputError, SpanlabError, clip_repr
from spanlab.strict_parsing import read_json
from spanlab.text import Tokenizer

FORMAT = "spanlab corpus"
FORMAT_VERSION = 1
MANIFEST = "manifest.json"
WORK = ".prepare"
TOKENIZER = "tokenizer"
TOKEN_COUNTS = "token_counts.bin"
INPUTS = "inputs.jsonl"
SPANS = "spans.jsonl"
"""The places of the names that `spanlab prepare --spans` was given."""
INDEX = "blocks"
"""Folder of cached block indices, which can be computed again at any time."""
Count = Annotated[int, AtLeast(0), AtMost(1 << 50)]


@dataclass(frozen=True, kw_only=True)
class Counts:
    """What was written and what was left out."""

    tokens: Count = 0
    words: Count = 0
    sentences: Count = 0
    documents: Count = 0
    bytes: Count = 0
    """UTF-8 bytes of the documents kept, a run of white space counted as one."""
    duplicates: Count = 0
    """Documents left out because an earlier one is the same."""
    short: Count = 0
    """Documents left out because they had too few tokens."""
    cut: Count = 0
    """Cuts in documents that were too long."""
    replaced: Count = 0
    """Byte sequences that were not UTF-8 and were replaced."""
    empty: Count = 0
    """Files that held nothing."""

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(**{field.name: getattr(self, field.name) + getattr(other, field.name) for field in fields(self)})


@dataclass(frozen=True, kw_only=True)
class FileRecord:
    """A file of the corpus."""

    file: str
    bytes: Count
    sha256: str


@dataclass(frozen=True, kw_only=True)
class ShardRecord:
    """A shard: its file, and how many of each thing it holds (which fixes where its sections lie)."""

    file: str
    bytes: Count
    sha256: str
    tokens: Annotated[int, AtLeast(1), AtMost(1 << 40)]
    sentences: Annotated[int, AtLeast(1), AtMost(1 << 40)]
    documents: Annotated[int, AtLeast(1), AtMost(1 << 40)]


@dataclass(frozen=True, kw_only=True)
class TokenizerRecord:
    """The tokenizer the ids belong to; the folder `tokenizer/` holds it."""

    fingerprint: str
    kind: str
    vocab_size: Annotated[int, AtLeast(1), AtMost(1 << 32)]


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """All that is known about a prepared corpus without reading its shards."""

    format: Literal["spanlab corpus"] = "spanlab corpus"
    format_version: int = FORMAT_VERSION
    tokenizer: TokenizerRecord
    token_type: Literal["uint16", "uint32"]
    """Little-endian, as everything in the shards."""
    counts: Counts
    options: PrepareConfig
    shards: tuple[ShardRecord, ...]
    files: tuple[FileRecord, ...]
    """`token_counts.bin` (how often each id occurs, uint64) and `inputs.jsonl` (what was read, a source a line)."""

    def count_damage(self) -> str | None:
        """Where the counts of the shards do not add up to those of the corpus."""
        if not self.shards:
            return "it has no shards"
        for name in ("tokens", "sentences", "documents"):
            total = sum(getattr(record, name) for record in self.shards)
            if total != getattr(self.counts, name):
                return f"its shards hold {total} {name}, its counts say {getattr(self.counts, name)}"
        return None


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Put the manifest in place, whole or not at all."""
    write_atomically(folder / MANIFEST, (json.dumps(to_mapping(manifest), indent=1) + "\n").encode())


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a prepared corpus, or why the folder is none."""
    path = folder / MANIFEST
    return parse_manifest(_read_json(folder, path), path)


def parse_manifest(mapping: Any, path: str | Path) -> Manifest:  # noqa: ANN401 (anything JSON holds)
    """A manifest from the content of its file; `path` is for messages."""
    if not isinstance(mapping, dict) or mapping.get("format") != FORMAT:
        raise InputError("this is not the manifest of a prepared corpus", path=path, fix="prepare one: spanlab prepare")
    version = mapping.get("format_version")
    if version != FORMAT_VERSION:
        raise InputError(
            f"the corpus has format version {clip_repr(version)}, this SpanLab reads {FORMAT_VERSION}",
            path=path,
            fix="prepare it again with this version: spanlab prepare … --overwrite",
        )
    manifest = from_mapping(Manifest, mapping, Source(path=str(path)))
    for name in (*(shard.file for shard in manifest.shards), *(file.file for file in manifest.files)):
        if not is_plain_name(name):
            cause = f"it names the file {clip_repr(name)}; the files of a corpus lie in its folder"
            raise InputError(cause, path=path, fix="prepare the corpus again")
    return manifest


def is_plain_name(name: str) -> bool:
    """Whether a name stays within its folder on every system."""
    return (
        name.isprintable() and len(name.encode()) < 256 and name not in {"", ".", ".."} and not set(name) & set("/\\:")
    )


def _read_json(folder: Path, path: Path) -> Any:  # noqa: ANN401 (anything JSON holds)
    if not folder.is_dir():
        raise InputError(
            "no such folder", path=folder, fix="prepare a corpus: spanlab prepare FILES --tokenizer DIR --out DIR"
        )
    try:
        return read_json(path, fix="prepare the corpus again")
    except FileNotFoundError:
        if (folder / WORK).exists():
            cause, fix = (
                "its preparation was interrupted",
                "run the same `spanlab prepare` again to resume it",
            )
        else:
            cause, fix = f"not a prepared corpus (no {MANIFEST})", "make one with spanlab prepare"
        raise InputError(cause, path=folder, fix=fix) from None


def changed_bytes(found: str, written: str) -> str:
    """What is wrong with a file of another sha256 than the manifest's."""
    return f"its bytes changed: sha256 {found[:12]}…, not {written[:12]}… as written"


def tokenizer_damage(folder: Path, manifest: Manifest) -> str | None:
    """What is wrong with the tokenizer in a corpus folder."""
    try:
        fingerprint = Tokenizer.load(folder / TOKENIZER).fingerprint
    except SpanlabError as error:
        return str(error)
    prepared = manifest.tokenizer.fingerprint
    if fingerprint == prepared:
        return None
    return f"another tokenizer ({fingerprint[:12]}…) than the corpus was prepared with ({prepared[:12]}…)"


def record_of(path: Path) -> FileRecord:
    """Name, size and sha256 of a file."""
    return FileRecord(file=path.name, bytes=path.stat().st_size, sha256=sha256_of(path))
