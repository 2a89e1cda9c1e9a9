"""What a prepared corpus holds, in figures: one pass over its boundaries, none over its tokens."""

from dataclasses import dataclass

import numpy as np

from spanlab.corpus.corpus import PreparedCorpus, Unit
from spanlab.corpus.manifest import Counts

_BINS = 32


@dataclass(frozen=True, kw_only=True)
class Lengths:
    """How long sentences or documents are, in tokens."""

    mean: float
    longest: int
    histogram: tuple[tuple[int, int, int], ...]
    """(shortest, longest, how many) of each bin, from the first that is not empty on; bins double in width."""


@dataclass(frozen=True, kw_only=True)
class CorpusStatistics:
    """The figures of a corpus."""

    counts: Counts
    shards: int
    vocab_size: int
    ids_used: int
    """Ids of the vocabulary that occur at all."""
    unknown: int
    """Tokens the vocabulary has no piece for."""
    bytes_per_token: float
    tokens_per_word: float
    sentence_lengths: Lengths
    document_lengths: Lengths

    @property
    def unknown_rate(self) -> float:
        """Share of tokens that are unknown."""
        return self.unknown / self.counts.tokens


def corpus_statistics(corpus: PreparedCorpus) -> CorpusStatistics:
    """The figures of a corpus."""
    counts, used = corpus.counts, corpus.token_counts
    unknown_id = corpus.tokenizer.unk_id
    return CorpusStatistics(
        counts=counts,
        shards=len(corpus.shards),
        vocab_size=corpus.manifest.tokenizer.vocab_size,
        ids_used=int(np.count_nonzero(used)),
        unknown=0 if unknown_id is None else int(used[unknown_id]),
        bytes_per_token=counts.bytes / counts.tokens,
        tokens_per_word=counts.tokens / counts.words,
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
    used = range(int(np.flatnonzero(histogram)[0]), longest.bit_length() + 1)
    bins = tuple((1 << (k - 1), (1 << k) - 1, int(histogram[k])) for k in used)
    return Lengths(mean=corpus.counts.tokens / count, longest=longest, histogram=bins)
