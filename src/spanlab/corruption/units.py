"""What masking chooses among: the words (or single tokens, or given spans) of every block of a batch.

A unit is a run of neighbouring tokens of one block. Units lie in a row, block after block, in the order of the text,
and every law works on this table instead of on tokens.

Shapes: B blocks, U units in a row, W units of the longest block, N tokens in a row.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from spanlab.arrays import Flags, Integers, concatenated_ranges, offsets
from spanlab.corpus.randomness import Draws, draw_at
from spanlab.corruption.special_tokens import TokenBatch


@dataclass(frozen=True)
class Units:
    """Runs of tokens, block by block."""

    starts: Integers
    """(U,) the first token of each unit in the row."""
    lengths: Integers
    """(U,) its tokens."""
    counts: Integers
    """(B,) units of each block."""
    tokens: int
    """N, the length of the row."""

    @cached_property
    def firsts(self) -> Integers:
        """(B,) the first unit of each block."""
        return offsets(self.counts)

    @cached_property
    def blocks(self) -> Integers:
        """(U,) the block of each unit."""
        return np.repeat(np.arange(len(self.counts)), self.counts)

    @cached_property
    def indices_in_block(self) -> Integers:
        """(U,) the index of each unit in its block."""
        return np.arange(len(self.starts)) - np.repeat(self.firsts, self.counts)

    def random_values(self, keys: Draws) -> Draws:
        """(B, W) one draw a unit, keyed by its index in the block; missing units have the highest."""
        values_BW = np.full((len(self.counts), int(self.counts.max(initial=0))), np.iinfo(np.uint64).max, np.uint64)
        values_BW[self.blocks, self.indices_in_block] = draw_at(keys[self.blocks], self.indices_in_block)
        return values_BW

    def to_tokens(self, picked: Flags) -> Flags:
        """(N,) the tokens of the picked units (U,)."""
        flags = np.zeros(self.tokens, bool)
        flags[concatenated_ranges(self.starts[picked], self.lengths[picked])] = True
        return flags


def words_of(batch: TokenBatch) -> Units:
    """The words of the text; special tokens belong to none."""
    starts = np.flatnonzero(batch.word_starts)
    # A word reaches to the next one, less the special tokens between them.
    lengths = distances(starts, len(batch.ids))
    before = np.searchsorted(starts, batch.specials) - 1
    np.subtract.at(lengths, before[before >= 0], 1)
    return Units(starts, lengths, _per_block(batch, starts), len(batch.ids))


def tokens_of(batch: TokenBatch) -> Units:
    """Every token of the text by itself."""
    starts = np.flatnonzero(batch.maskable)
    return Units(starts, np.ones(len(starts), np.int64), _per_block(batch, starts), len(batch.ids))


def distances(starts: Integers, end: int) -> Integers:
    """From each start to the next, and from the last to the end: what `np.diff` gives with half of its overhead."""
    lengths = np.empty_like(starts)
    np.subtract(starts[1:], starts[:-1], out=lengths[:-1])
    lengths[-1:] = end - starts[-1:]
    return lengths


def _per_block(batch: TokenBatch, starts: Integers) -> Integers:
    bounds = np.searchsorted(starts, np.append(batch.starts, len(batch.ids)))
    return np.diff(bounds)
