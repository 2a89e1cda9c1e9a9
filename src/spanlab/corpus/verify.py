"""Checks and statistics of a prepared corpus.

`find_damage` reads every file and compares its sha256 with the manifest; `corpus_statistics` computes what
`spanlab inspect corpus` shows.
"""

import hashlib
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from spanlab.atomic_io import sha256_of
from spanlab.corpus.corpus import PreparedCorpus, Unit
from spanlab.corpus.manifest import (
    MANIFEST,
    TOKENIZER,
    Counts,
    FileRecord,
    Manifest,
    ShardRecord,
    changed_bytes,
    read_manifest,
    tokenizer_damage,
)
from spanlab.corpus.object_store import RemoteFolder, is_url
from spanlab.corpus.remote_corpus import check_remote_tokenizer, read_remote_manifest
from spanlab.errors import InputError

_BINS = 32


# Damage.


@dataclass(frozen=True, kw_only=True)
class Damage:
    """A file that is not as it was written."""

    file: str
    cause: str


Records = tuple[FileRecord | ShardRecord, ...]


def find_damage(folder: str | Path) -> list[Damage]:
    """The damaged or missing files of a corpus folder, in the order of the manifest; of a URL, its objects."""
    if is_url(str(folder)):
        causes = _remote_causes(RemoteFolder(str(folder)))
    else:
        path = Path(folder)
        manifest = read_manifest(path)
        records: Records = (*manifest.shards, *manifest.files)
        causes = [(record.file, _file_damage(path / record.file, record)) for record in records]
        causes += [(TOKENIZER, tokenizer_damage(path, manifest)), (MANIFEST, manifest.count_damage())]
    return [Damage(file=file, cause=cause) for file, cause in causes if cause]


def _file_damage(path: Path, record: FileRecord | ShardRecord) -> str | None:
    size = path.stat().st_size if path.is_file() else None
    return _size_damage(size, record) or _content_damage(sha256_of(path), record)


def _size_damage(size: int | None, record: FileRecord | ShardRecord) -> str | None:
    if size is None:
        return "missing"
    return None if size == record.bytes else f"{size} bytes long, not {record.bytes} as written"


def _content_damage(digest: str, record: FileRecord | ShardRecord) -> str | None:
    return None if digest == record.sha256 else changed_bytes(digest, record.sha256)


def _remote_causes(remote: RemoteFolder) -> list[tuple[str, str | None]]:
    """(name, what is wrong with it) of all objects of a corpus; reads all of them."""
    manifest, _ = read_remote_manifest(remote)
    sizes = remote.sizes()
    records: Records = (*manifest.shards, *manifest.files)
    causes: list[tuple[str, str | None]] = []
    for record in records:
        damage = _size_damage(sizes.get(record.file), record)
        if damage is None:
            digest = hashlib.sha256()
            for chunk in remote.chunks(record.file):
                digest.update(chunk)
            damage = _content_damage(digest.hexdigest(), record)
        causes.append((record.file, damage))
    return [
        *causes,
        (TOKENIZER, _remote_tokenizer_damage(remote, sizes, manifest)),
        (MANIFEST, manifest.count_damage()),
    ]


def _remote_tokenizer_damage(remote: RemoteFolder, sizes: dict[str, int], manifest: Manifest) -> str | None:
    with tempfile.TemporaryDirectory() as scratch:
        try:
            check_remote_tokenizer(remote, sizes, manifest, Path(scratch))
        except InputError as error:
            return error.cause
    return None


# Statistics.


@dataclass(frozen=True, kw_only=True)
class Lengths:
    """Lengths of sentences or documents, in tokens."""

    mean: float
    longest: int
    histogram: tuple[tuple[int, int, int], ...]
    """(shortest, longest, count) of each bin, from the first that is not empty on; bins double in width."""


@dataclass(frozen=True, kw_only=True)
class CorpusStatistics:
    """Size, vocabulary and lengths of a corpus."""

    counts: Counts
    shards: int
    vocab_size: int
    ids_used: int
    """Ids of the vocabulary that occur."""
    unknown: int
    """Unknown tokens."""
    bytes_per_token: float
    tokens_per_word: float
    sentence_lengths: Lengths
    document_lengths: Lengths

    @property
    def unknown_rate(self) -> float:
        """Share of tokens that are unknown."""
        return self.unknown / self.counts.tokens


def corpus_statistics(corpus: PreparedCorpus) -> CorpusStatistics:
    """Compute the statistics; reads the sentence and document boundaries of every shard."""
    counts, token_counts = corpus.counts, corpus.token_counts
    unknown_id = corpus.tokenizer.unk_id
    return CorpusStatistics(
        counts=counts,
        shards=len(corpus.shards),
        vocab_size=corpus.manifest.tokenizer.vocab_size,
        ids_used=int(np.count_nonzero(token_counts)),
        unknown=0 if unknown_id is None else int(token_counts[unknown_id]),
        bytes_per_token=counts.bytes / counts.tokens,
        tokens_per_word=counts.tokens / max(1, counts.words),  # a manifest may claim that there are none
        sentence_lengths=_lengths(corpus, "sentences"),
        document_lengths=_lengths(corpus, "documents"),
    )


def _lengths(corpus: PreparedCorpus, unit: Unit) -> Lengths:
    histogram, longest, count = np.zeros(_BINS + 1, np.int64), 0, 0
    for shard in corpus.shards:
        starts = shard.sentences if unit == "sentences" else shard.documents
        lengths = np.diff(starts.astype(np.int64), append=len(shard.tokens))
        histogram += np.bincount(np.frexp(lengths)[1], minlength=_BINS + 1)  # bin k holds 2^(k-1) to 2^k - 1
        longest, count = max(longest, int(lengths.max())), count + len(lengths)
    bin_range = range(int(np.flatnonzero(histogram)[0]), longest.bit_length() + 1)
    bins = tuple((1 << (k - 1), (1 << k) - 1, int(histogram[k])) for k in bin_range)
    return Lengths(mean=corpus.counts.tokens / count, longest=longest, histogram=bins)
