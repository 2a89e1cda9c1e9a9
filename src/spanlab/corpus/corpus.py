"""A prepared corpus, memory-mapped.

Opening maps the shards into memory and checks sizes; nothing is read before it is asked for. Tokens, sentences and
documents have indices from 0 on through the whole corpus, across shards. All reading is by arrays of
ranges, because batches need many at once.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spanlab.arrays import Flags, Integers, concatenated_ranges, offsets
from spanlab.corpus.manifest import MANIFEST, TOKEN_COUNTS, TOKENIZER, Counts, Manifest, read_manifest
from spanlab.corpus.object_store import is_url
from spanlab.corpus.remote_corpus import OnDownload, local_copy
from spanlab.corpus.shards import Shard
from spanlab.errors import InputError
from spanlab.text import Tokenizer

Unit = Literal["sentences", "documents"]


@dataclass(frozen=True, kw_only=True)
class Ranges:
    """The content of R ranges of tokens, one after the other: N tokens in all."""

    ids: Integers
    """(N,) token ids."""
    lengths: Integers
    """(R,) tokens of each range."""
    word_starts: Flags
    """(N,) where words begin; the first token of a range may lie inside one."""
    sentence_starts: Flags
    """(N,) where sentences begin."""


class PreparedCorpus:
    """A corpus folder, open for reading."""

    def __init__(self, folder: Path, manifest: Manifest, shards: list[Shard], url: str | None = None) -> None:
        self.folder, self.manifest = folder, manifest
        self.source = url or str(folder.resolve())
        """Where anybody finds the corpus: its URL, or the path of its folder."""
        self._shards = shards
        records = manifest.shards
        self._firsts = {
            "tokens": _cumulative([record.tokens for record in records]),
            "sentences": _cumulative([record.sentences for record in records]),
            "documents": _cumulative([record.documents for record in records]),
        }

    @classmethod
    def open(cls, folder: str | Path, on_download: OnDownload | None = None) -> "PreparedCorpus":
        """Open a folder that `spanlab prepare` wrote; of a URL, its copy in the cache."""
        url = str(folder) if is_url(str(folder)) else None
        folder = local_copy(url, on_download) if url is not None else Path(folder)
        manifest = read_manifest(folder)
        if (damage := manifest.count_damage()) is not None:
            raise InputError(damage, path=folder / MANIFEST, fix="copy the whole folder, or prepare it again")
        return cls(folder, manifest, [Shard(folder, record, manifest.token_type) for record in manifest.shards], url)

    @property
    def counts(self) -> Counts:
        """Tokens, words, sentences and documents, and what was left out."""
        return self.manifest.counts

    @property
    def shards(self) -> list[Shard]:
        """The shards, in order; documents never cross them."""
        return self._shards

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer the ids belong to, from the corpus folder."""
        tokenizer = Tokenizer.load(self.folder / TOKENIZER)
        self.check_tokenizer(tokenizer, self.folder / TOKENIZER)
        return tokenizer

    def check_tokenizer(self, tokenizer: Tokenizer, path: str | Path) -> None:
        """Refuse a tokenizer that is not the one the corpus was prepared with."""
        prepared = self.manifest.tokenizer
        if tokenizer.fingerprint != prepared.fingerprint:
            raise InputError(
                f"this tokenizer ({tokenizer.kind}, {tokenizer.vocab_size} tokens, {tokenizer.fingerprint[:12]}…) "
                f"is not the one the corpus was prepared with ({prepared.kind}, {prepared.vocab_size} tokens, "
                f"{prepared.fingerprint[:12]}…)",
                path=path,
                fix=f"use {self.folder / TOKENIZER}, or prepare the text again with the other tokenizer",
            )

    @cached_property
    def token_counts(self) -> Integers:
        """(V,) how often each id occurs: the corpus unigrams."""
        counts = np.fromfile(self.folder / TOKEN_COUNTS, "<u8").astype(np.int64)
        if len(counts) != self.manifest.tokenizer.vocab_size or counts.sum() != self.counts.tokens:
            raise InputError(
                "does not match the manifest", path=self.folder / TOKEN_COUNTS, fix="prepare the corpus again"
            )
        return counts

    def read(self, starts: ArrayLike, stops: ArrayLike) -> Ranges:
        """The tokens from each of `starts` (R,) up to each of `stops` (R,), with their boundaries."""
        first, last = np.asarray(starts, np.int64), np.asarray(stops, np.int64)
        if first.size and not (first.min() >= 0 and last.max() <= self.counts.tokens and (first <= last).all()):
            raise IndexError(f"ranges must lie within the {self.counts.tokens} tokens of the corpus")
        lengths = last - first
        positions = concatenated_ranges(first, lengths)
        ids, words = np.empty(len(positions), np.int64), np.empty(len(positions), np.bool_)
        for index, selected in self._by_shard("tokens", positions):
            shard, local = self._shards[index], positions[selected] - self._firsts["tokens"][index]
            ids[selected] = shard.tokens[local]
            words[selected] = (shard.words[local >> 3] >> (local & 7).astype(np.uint8)) & 1
        if ids.size and ids.max() >= self.manifest.tokenizer.vocab_size:
            fix = "find the damaged shard with `spanlab inspect corpus --verify`, and prepare the corpus again"
            raise InputError("damaged: it holds token ids outside the vocabulary", path=self.folder, fix=fix)
        sentences = np.zeros(len(positions), np.bool_)
        counts, sentence_starts = self.starts_within("sentences", first, last)
        sentences[sentence_starts + np.repeat(offsets(lengths) - first, counts)] = True
        return Ranges(ids=ids, lengths=lengths, word_starts=words, sentence_starts=sentences)

    def starts_within(self, unit: Unit, starts: Integers, stops: Integers) -> tuple[Integers, Integers]:
        """How many sentences or documents begin in each range (R,), and at which tokens, all in one array."""
        first, last = self.count_before(unit, starts), self.count_before(unit, stops)
        return last - first, self.start_of(unit, concatenated_ranges(first, last - first))

    def count_before(self, unit: Unit, tokens: Integers) -> Integers:
        """(R,) how many sentences or documents begin before each token."""
        counts = np.full(len(tokens), self._firsts[unit][-1], np.int64)  # right for the end of the corpus
        for shard, selected in self._by_shard("tokens", tokens):
            local = (tokens[selected] - self._firsts["tokens"][shard]).astype(np.uint32)
            counts[selected] = self._firsts[unit][shard] + np.searchsorted(self._section(unit, shard), local)
        return counts

    def start_of(self, unit: Unit, indices: Integers) -> Integers:
        """(R,) the first token of each sentence or document; past the last one, the end of the corpus."""
        starts = np.full(len(indices), self.counts.tokens, np.int64)
        for shard, selected in self._by_shard(unit, indices):
            local = indices[selected] - self._firsts[unit][shard]
            starts[selected] = self._firsts["tokens"][shard] + self._section(unit, shard)[local]
        return starts

    def _section(self, unit: Unit, shard_index: int) -> NDArray[np.uint32]:
        shard = self._shards[shard_index]
        return shard.sentences if unit == "sentences" else shard.documents

    def _by_shard(self, unit: str, indices: Integers) -> Iterator[tuple[int, slice | NDArray[np.intp]]]:
        """(shard, which of `indices`) for every shard that holds some of them; those past the end are in none."""
        firsts = self._firsts[unit]
        if not len(indices):
            return
        low, high = (int(np.searchsorted(firsts, bound, side="right")) - 1 for bound in (indices.min(), indices.max()))
        if low == high:
            if low < len(self._shards):
                yield low, slice(None)
            return
        shards = np.searchsorted(firsts, indices, side="right") - 1
        for shard in np.unique(shards).tolist():
            if shard < len(self._shards):
                yield shard, np.flatnonzero(shards == shard)


def _cumulative(counts: list[int]) -> Integers:
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)))
