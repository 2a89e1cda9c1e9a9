"""Units of masking: the words, single tokens or given spans of the blocks of a batch.

A unit is a run of adjacent tokens of one block. A `TokenBatch` goes in, a table of its units in text order comes out;
the masking laws pick units from the table instead of tokens.

Shapes: B blocks, U units of all blocks, W units of the longest block, N tokens of all blocks.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from spanlab.arrays import Flags, Integers, concatenated_ranges, offsets
from spanlab.corpus.randomness import Draws, draw_at
from spanlab.corruption.special_tokens import TokenBatch


@dataclass(frozen=True)
class Units:
    """The units of a batch, block after block."""

    starts: Integers
    """(U,) the position of each unit's first token."""
    lengths: Integers
    """(U,) in tokens."""
    counts: Integers
    """(B,) the number of units of each block."""
    tokens: int
    """N"""

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
        """(B, W) one draw per unit, keyed by its index in the block; padding has the highest value."""
        values_BW = np.full((len(self.counts), int(self.counts.max(initial=0))), np.iinfo(np.uint64).max, np.uint64)
        values_BW[self.blocks, self.indices_in_block] = draw_at(keys[self.blocks], self.indices_in_block)
        return values_BW

    def to_tokens(self, picked: Flags) -> Flags:
        """(N,) the tokens of the picked units (U,)."""
        flags = np.zeros(self.tokens, bool)
        flags[concatenated_ranges(self.starts[picked], self.lengths[picked])] = True
        return flags


def words_of(batch: TokenBatch) -> Units:
    """The words of each block, without special tokens."""
    starts = np.flatnonzero(batch.word_starts)
    # A word extends to the next one, minus the special tokens in between.
    lengths = distances(starts, len(batch.ids))
    before = np.searchsorted(starts, batch.specials) - 1
    np.subtract.at(lengths, before[before >= 0], 1)
    return Units(starts, lengths, _per_block(batch, starts), len(batch.ids))


def tokens_of(batch: TokenBatch) -> Units:
    """Every token that is not special as a unit."""
    starts = np.flatnonzero(batch.maskable)
    return Units(starts, np.ones(len(starts), np.int64), _per_block(batch, starts), len(batch.ids))


def distances(starts: Integers, end: int) -> Integers:
    """Distances from each start to the next, and from the last to `end`: `np.diff` at half its overhead."""
    lengths = np.empty_like(starts)
    np.subtract(starts[1:], starts[:-1], out=lengths[:-1])
    lengths[-1:] = end - starts[-1:]
    return lengths


def _per_block(batch: TokenBatch, starts: Integers) -> Integers:
    bounds = np.searchsorted(starts, np.append(batch.starts, len(batch.ids)))
    return np.diff(bounds)


def pick_random_units(units: Units, keys: Draws, budget: Integers, barred: Flags | None = None) -> Flags:
    """(U,) random whole units of each block up to a budget (B,) in tokens: BERT's subword and whole-word masking.

    Units are tried in random order; a unit that would exceed the budget is skipped and the next is tried, as in BERT's
    code. With units of one token that is a draw without replacement. `barred` units (U,) are never picked.
    """
    if not len(units.starts):
        return np.zeros(0, bool)
    order_BW = np.argsort(units.random_values(keys), axis=1)
    lengths_BW = np.zeros(order_BW.shape, np.int64)
    lengths_BW[units.blocks, units.indices_in_block] = (
        units.lengths if barred is None else np.where(barred, 0, units.lengths)
    )
    picked_BW = _take_in_order(np.take_along_axis(lengths_BW, order_BW, axis=1), budget)
    in_text_order_BW = np.zeros_like(picked_BW)
    np.put_along_axis(in_text_order_BW, order_BW, picked_BW, axis=1)
    picked: Flags = in_text_order_BW[units.blocks, units.indices_in_block]
    return picked


def _take_in_order(lengths_BW: Integers, budget_B: Integers) -> Flags:
    """(B, W) the units that fit when tried from left to right; a unit of length 0 cannot be picked."""
    present_BW = lengths_BW > 0
    taken_BW = present_BW & (np.cumsum(lengths_BW, axis=1) <= budget_B[:, None])
    # After the first unit that does not fit, shorter ones may; each round takes the next such unit of every block.
    remaining_B = budget_B - np.where(taken_BW, lengths_BW, 0).sum(axis=1)
    while True:
        fits_BW = present_BW & ~taken_BW & (lengths_BW <= remaining_B[:, None])
        rows = np.flatnonzero(fits_BW.any(axis=1))
        if not len(rows):
            return taken_BW
        chosen = fits_BW[rows].argmax(axis=1)
        taken_BW[rows, chosen] = True
        remaining_B[rows] -= lengths_BW[rows, chosen]
