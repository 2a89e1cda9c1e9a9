"""Checks and statistics of a prepared corpus.

`find_damage` reads every file and compares its sha256 with the manifest; `corpus_statistics` computes what
`spanlab inspect corpus` shows.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from spanlab.atomic_io import sha256_of
from spanlab.corpus.corpus import PreparedCorpus, Unit
from spanlab.corpus.manifest import MANIFEST, TOKENIZER, Counts, FileRecord, Manifest, ShardRecord, read_manifest
from spanlab.errors import SpanlabError
from spanlab.text import Tokenizer

_BINS = 32


# Damage.


@dataclass(frozen=True, kw_only=True)
class Damage:
    """A file that is not as it was written."""

    file: str
    cause: str


def find_damage(folder: str | Path) -> list[Damage]:
    """The damaged or missing files of a corpus folder, in the order of the manifest."""
    folder = Path(folder)
    manifest = read_manifest(folder)
    records: tuple[FileRecord | ShardRecord, ...] = (*manifest.shards, *manifest.files)
    causes = [(record.file, _file_damage(folder, record)) for record in records]
    causes.append((TOKENIZER, _tokenizer_damage(folder, manifest)))
    causes.append((MANIFEST, manifest.count_damage()))
    return [Damage(file=file, cause=cause) for file, cause in causes if cause]


def _file_damage(folder: Path, record: FileRecord | ShardRecord) -> str | None:
    path = folder / record.file
    if not path.is_file():
        return "missing"
    if (size := path.stat().st_size) != record.bytes:
        return f"{size} bytes long, not {record.bytes} as written"
    if (digest := sha256_of(path)) != record.sha256:
        return f"its bytes changed: sha256 {digest[:12]}…, not {record.sha256[:12]}… as written"
    return None


def _tokenizer_damage(folder: Path, manifest: Manifest) -> str | None:
    try:
        fingerprint = Tokenizer.load(folder / TOKENIZER).fingerprint
    except SpanlabError as error:
        return str(error)
    prepared = manifest.tokenizer.fingerprint
    if fingerprint == prepared:
        return None
    return f"another tokenizer ({fingerprint[:12]}…) than the corpus was prepared with ({prepared[:12]}…)"


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
