"""SpanBERT's law: spans of words whose lengths follow a truncated geometric distribution, until a budget is met.

Draw after draw, a span begins at a random word and covers a number of words; a draw whose first word is masked already
is drawn anew. Spans may overlap or touch, and then count as one. The word that would exceed the budget ends it all: the
span is trimmed before it, or, with `cut_last_word`, inside it. Spans grow to the right only, so the first words of a
block are masked less often than the others: a property of the published law.

| point | the paper (and the default) | the released code |
|---|---|---|
| first word of a span | uniform over words | that of a uniform piece: long words are hit more (`anchor="piece"`) |
| last word | complete | cut where the budget ends (`cut_last_word`) |

Vectorised over the batch: a plain loop in the tests is its oracle, draw for draw.

Shapes: B blocks, U units in a row, R draws, J words of the longest span.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from spanlab.arrays import Flags, Integers, concatenated_ranges
from spanlab.corpus.randomness import Draws, draws
from spanlab.corruption.units import Units, distances
from spanlab.errors import InputError

Anchor = Literal["word", "piece"]
_HALF = np.uint64(0xFFFFFFFF)


def normalised(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weights as probabilities."""
    probabilities: NDArray[np.float64] = weights / weights.sum()
    return probabilities


@dataclass(frozen=True)
class LengthLaw:
    """P(length = k) ∝ p·(1 - p)^(k - 1) for k = 1 … longest."""

    p: float
    longest: int

    @cached_property
    def probabilities(self) -> NDArray[np.float64]:
        """(longest,) of the lengths 1, 2, …"""
        weights = self.p * np.power(1.0 - self.p, np.arange(self.longest, dtype=np.float64))
        return normalised(weights)

    @cached_property
    def mean(self) -> float:
        """The mean length of a draw."""
        return float(self.probabilities @ np.arange(1, self.longest + 1))

    def lengths(self, values: Draws) -> Integers:
        """Lengths from the lower halves of 64-bit draws, by inversion."""
        return 1 + np.searchsorted(self._thresholds, values & _HALF, side="right")

    @cached_property
    def _thresholds(self) -> Draws:
        return np.ceil(np.cumsum(self.probabilities)[:-1] * 2.0**32).astype(np.uint64)


def draw_spans(units: Units, keys: Draws, count: int, law: LengthLaw, anchor: Anchor) -> tuple[Integers, Integers]:
    """(B, R) the first unit of each draw, counted within its block, and the length drawn, before anything trims it."""
    values_BR = draws(keys, count)
    upper_BR = values_BR >> np.uint64(32)
    if anchor == "word":
        first_BR = ((upper_BR * units.counts.astype(np.uint64)[:, None]) >> np.uint64(32)).astype(np.int64)
    else:
        ends = np.cumsum(units.lengths)
        before_B = np.where(units.counts > 0, ends[np.minimum(units.firsts, len(ends) - 1)], 0)
        before_B = before_B - np.where(units.counts > 0, units.lengths[np.minimum(units.firsts, len(ends) - 1)], 0)
        pieces_B = np.bincount(units.blocks, weights=units.lengths, minlength=len(units.counts)).astype(np.uint64)
        piece_BR = ((upper_BR * pieces_B[:, None]) >> np.uint64(32)).astype(np.int64) + before_B[:, None]
        first_BR = np.searchsorted(ends, piece_BR, side="right") - units.firsts[:, None]
    return first_BR, law.lengths(values_BR)


def pick_geometric_spans(
    units: Units,
    keys: Draws,
    budget: Integers,
    law: LengthLaw,
    *,
    anchor: Anchor = "word",
    cut_last_word: bool = False,
) -> Flags:
    """(N,) the tokens masked in each block, given the budget (B,) in tokens."""
    # Enough for all but one block in a thousand; a block for which it is not draws on, its first draws unchanged.
    span_tokens = law.mean * max(1.0, float(units.lengths.mean()))
    count = 14 + int(1.1 * budget.max(initial=0) / span_tokens)
    flags = np.zeros(units.tokens, bool)
    blocks = np.flatnonzero((units.counts > 0) & (budget > 0))
    while len(blocks):
        part = select_blocks(units, blocks)
        met = _mask(part, keys[blocks], budget[blocks], law, count, anchor, cut_last_word, flags)
        blocks = blocks[~met]
        count *= 2
        if count > 1 << 20:
            raise InputError(f"{int(budget[blocks[0]])} tokens cannot be masked in spans", fix="lower masking.ratio")
    return flags


def select_blocks(units: Units, blocks: Integers) -> Units:
    """The units of some of the blocks."""
    if len(blocks) == len(units.counts):
        return units
    keep = concatenated_ranges(units.firsts[blocks], units.counts[blocks])
    return Units(units.starts[keep], units.lengths[keep], units.counts[blocks], units.tokens)


def _mask(
    units: Units,
    keys: Draws,
    budget: Integers,
    law: LengthLaw,
    count: int,
    anchor: Anchor,
    cut_last_word: bool,
    flags: Flags,
) -> Flags:
    """Mask the tokens of `count` draws in `flags` (N,); (B,) whether that met the budget of each block."""
    first_BR, length_BR = draw_spans(units, keys, count, law, anchor)
    last_BR = np.minimum(first_BR + length_BR, units.counts[:, None]) - 1
    valid_BR = _not_begun_inside(first_BR, last_BR)
    arrival = _first_arrival(units, first_BR, last_BR, valid_BR)
    reached = np.flatnonzero(arrival < count)
    block, arrival, lengths = units.blocks[reached], arrival[reached], units.lengths[reached]
    new_BR = np.bincount(block * count + arrival, weights=lengths, minlength=valid_BR.size)
    total_BR = np.cumsum(new_BR.reshape(valid_BR.shape), axis=1)
    met: Flags = total_BR[:, -1] >= budget
    # The draw that meets the budget: earlier ones are masked whole, this one as far as it fits.
    crossing = np.where(met, np.argmax(total_BR >= budget[:, None], axis=1), -1)
    before = np.where(crossing > 0, total_BR[np.arange(len(budget)), crossing - 1], 0).astype(np.int64)
    beyond = arrival - crossing[block]
    partial = np.flatnonzero(beyond == 0)
    lengths[partial] = _as_far_as_fits(lengths[partial], block[partial], budget - before, cut_last_word)
    taken = np.flatnonzero((beyond <= 0) & (lengths > 0))
    flags[concatenated_ranges(units.starts[reached[taken]], lengths[taken])] = True
    return met


def _not_begun_inside(first_BR: Integers, last_BR: Integers) -> Flags:
    """(B, R) the draws that count: those whose first word no earlier draw that counts has covered."""
    narrow: np.dtype[Any] = np.dtype(np.uint16 if int(last_BR.max(initial=0)) < 1 << 15 else np.uint64)
    first, length = first_BR.astype(narrow), (last_BR - first_BR + 1).astype(narrow)
    # inside[b, k, j]: draw k begins inside the span of the earlier draw j; 64 draws j are packed in a word. A start
    # before that of j wraps around to a large distance.
    inside_BRR = first[:, :, None] - first[:, None, :] < length[:, None, :]
    inside_BRQ = _packed(inside_BRR) & _earlier(first.shape[1])
    # Whether a draw counts depends on earlier ones alone, so repeating the rule settles them one after the other;
    # chains of draws inside each other are short, and a few rounds settle all.
    valid_BR = np.ones(first_BR.shape, bool)
    while True:
        valid_BQ = _packed(valid_BR)
        covered_BR = np.zeros(first_BR.shape, np.uint64)
        for word in range(valid_BQ.shape[1]):
            covered_BR |= inside_BRQ[:, :, word] & valid_BQ[:, None, word]
        settled_BR: Flags = covered_BR == 0
        if np.array_equal(settled_BR, valid_BR):
            return valid_BR
        valid_BR = settled_BR


@lru_cache(maxsize=64)
def _earlier(count: int) -> Draws:
    """(R, Q) for every draw, the draws before it as bits."""
    return _packed(np.tri(count, k=-1, dtype=bool))


def _packed(flags: Flags) -> Draws:
    """Flags as bits of 64-bit words, along the last axis."""
    packed = np.packbits(flags, axis=-1)
    words = np.zeros((*packed.shape[:-1], -(-packed.shape[-1] // 8) * 8), np.uint8)
    words[..., : packed.shape[-1]] = packed
    return words.view(np.uint64)


def _first_arrival(units: Units, first_BR: Integers, last_BR: Integers, valid_BR: Flags) -> NDArray[np.int32]:
    """(U,) the first draw that covers each unit; the number of draws where none does."""
    count = first_BR.shape[1]
    # Small numbers: the pass over all units that follows is a matter of memory.
    arrival = np.full(len(units.starts), count, np.int32)
    # From the last draw to the first: where two cover the same unit, the one assigned last, the earlier, remains.
    block, number = (found[::-1] for found in np.nonzero(valid_BR))
    first = first_BR[block, number]
    lengths = last_BR[block, number] - first + 1
    covered = concatenated_ranges(units.firsts[block] + first, lengths)
    arrival[covered] = np.repeat(number, lengths)
    return arrival


def _as_far_as_fits(lengths: Integers, blocks: Integers, left: Integers, cut_last_word: bool) -> Integers:
    """Tokens taken of each unit of the crossing draws, left to right, until `left` (B,) is used up.

    Words do not skip over one that is too long: what is behind it does not fit either, since room is counted with it.
    """
    total = np.cumsum(lengths)
    first = np.ones(len(blocks), bool)
    first[1:] = blocks[1:] != blocks[:-1]
    begins = np.flatnonzero(first)
    before = np.repeat(total[begins] - lengths[begins], distances(begins, len(blocks)))
    room = left[blocks] - (total - lengths - before)
    return np.clip(room, 0, lengths) if cut_last_word else np.where(lengths <= room, lengths, 0)
