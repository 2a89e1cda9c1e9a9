"""SpanBERT's law: spans of words whose lengths follow a truncated geometric distribution, until a budget is met.

Each draw is a first word and a length in words; a draw whose first word is already masked is rejected. Spans may
overlap or touch, and then count as one. The word that would exceed the budget ends the sampling: the span is trimmed
before it or, with `cut_last_word`, inside it. Spans extend to the right only, so the first words of a block are masked
less often than the others: a property of the published law.

| point | the paper (and the default) | the released code |
|---|---|---|
| first word of a span | uniform over words | that of a uniform piece: long words are hit more (`anchor="piece"`) |
| last word | complete | cut where the budget ends (`cut_last_word`) |

The paper says that lengths are clipped at 10, but its mean of 3.8 is that of the released code, which truncates; with
`clipped` the words are taken literally. Where spans are counted in tokens but begin at words, the units are tokens and
`words` says where spans may begin.

Vectorised over the batch; the tests compare it, draw for draw, with a plain loop.

Shapes: B blocks, U units of all blocks, N tokens of all blocks, R draws, Q 64-bit words of R bits.
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
    """Weights divided by their sum."""
    probabilities: NDArray[np.float64] = weights / weights.sum()
    return probabilities


@dataclass(frozen=True)
class LengthLaw:
    """P(length = k) ∝ p·(1 - p)^(k - 1) for k = 1 … longest."""

    p: float
    longest: int
    clipped: bool = False
    """Longer lengths become `longest`, which is then frequent, instead of being drawn again."""

    @cached_property
    def probabilities(self) -> NDArray[np.float64]:
        """(longest,) P(length) for the lengths 1, 2, …"""
        weights = self.p * np.power(1.0 - self.p, np.arange(self.longest, dtype=np.float64))
        if self.clipped:
            weights[-1] = (1.0 - self.p) ** (self.longest - 1)
        return normalised(weights)

    @cached_property
    def mean(self) -> float:
        """The expected length."""
        return float(self.probabilities @ np.arange(1, self.longest + 1))

    def lengths(self, values: Draws) -> Integers:
        """Lengths by inverse transform sampling from the lower halves of 64-bit draws."""
        return 1 + np.searchsorted(self._thresholds, values & _HALF, side="right")

    @cached_property
    def _thresholds(self) -> Draws:
        return np.ceil(np.cumsum(self.probabilities)[:-1] * 2.0**32).astype(np.uint64)


def draw_spans(
    units: Units, keys: Draws, count: int, law: LengthLaw, anchor: Anchor, words: Units | None = None
) -> tuple[Integers, Integers]:
    """(B, R) the index of each draw's first unit in its block, and (B, R) its length before trimming.

    With `words`, spans begin at their first tokens; `units` are then single tokens.
    """
    values_BR = draws(keys, count)
    if words is None:
        return _draw_firsts(units, values_BR, anchor), law.lengths(values_BR)
    word_BR = words.firsts[:, None] + _draw_firsts(words, values_BR, anchor)
    return units.indices_in_block[_first_tokens(units, words)][word_BR], law.lengths(values_BR)


def _first_tokens(units: Units, words: Units) -> Integers:
    """(W,) the unit that each word begins with."""
    return np.searchsorted(units.starts, words.starts)


def _draw_firsts(units: Units, values_BR: Draws, anchor: Anchor) -> Integers:
    """(B, R) the index of each draw's first unit in its block, from the upper halves of 64-bit draws."""
    upper_BR = values_BR >> np.uint64(32)
    if anchor == "word":
        return ((upper_BR * units.counts.astype(np.uint64)[:, None]) >> np.uint64(32)).astype(np.int64)
    ends = np.cumsum(units.lengths)
    before_B = np.where(units.counts > 0, ends[np.minimum(units.firsts, len(ends) - 1)], 0)
    before_B = before_B - np.where(units.counts > 0, units.lengths[np.minimum(units.firsts, len(ends) - 1)], 0)
    pieces_B = np.bincount(units.blocks, weights=units.lengths, minlength=len(units.counts)).astype(np.uint64)
    piece_BR = ((upper_BR * pieces_B[:, None]) >> np.uint64(32)).astype(np.int64) + before_B[:, None]
    return np.searchsorted(ends, piece_BR, side="right") - units.firsts[:, None]


def pick_geometric_spans(
    units: Units,
    keys: Draws,
    budget: Integers,
    law: LengthLaw,
    *,
    anchor: Anchor = "word",
    cut_last_word: bool = False,
    words: Units | None = None,
) -> Flags:
    """(N,) the masked tokens, up to a budget (B,) in tokens.

    With `words`, where spans of tokens begin, the budget is not met in a block whose words have all begun a span.
    """
    # Enough draws for 999 of 1,000 blocks; the others are drawn again with more, of which the first are the same.
    span_tokens = law.mean * max(1.0, float(units.lengths.mean()))
    count = 14 + int(1.1 * budget.max(initial=0) / span_tokens)
    flags = np.zeros(units.tokens, bool)
    blocks = np.flatnonzero(((units if words is None else words).counts > 0) & (budget > 0))
    while len(blocks):
        part, begins = select_blocks(units, blocks), None if words is None else select_blocks(words, blocks)
        met = _mask(part, begins, keys[blocks], budget[blocks], law, count, anchor, cut_last_word, flags)
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
    words: Units | None,
    keys: Draws,
    budget: Integers,
    law: LengthLaw,
    count: int,
    anchor: Anchor,
    cut_last_word: bool,
    flags: Flags,
) -> Flags:
    """Mask the tokens of `count` draws in `flags` (N,), in place; returns (B,) whether the budget was met."""
    first_BR, length_BR = draw_spans(units, keys, count, law, anchor, words)
    last_BR = np.minimum(first_BR + length_BR, units.counts[:, None]) - 1
    accepted_BR = _accepted(first_BR, last_BR)
    arrival = _first_arrival(units, first_BR, last_BR, accepted_BR)
    exhausted: Flags = np.zeros(len(budget), bool)
    if words is not None:
        begun = arrival[_first_tokens(units, words)] < count
        exhausted = np.bincount(words.blocks, weights=begun, minlength=len(budget)) == words.counts
    reached = np.flatnonzero(arrival < count)
    block, arrival, lengths = units.blocks[reached], arrival[reached], units.lengths[reached]
    new_BR = np.bincount(block * count + arrival, weights=lengths, minlength=accepted_BR.size)
    total_BR = np.cumsum(new_BR.reshape(accepted_BR.shape), axis=1)
    met: Flags = total_BR[:, -1] >= budget
    # The first draw that meets the budget: draws before it are masked whole, this one as far as it fits.
    crossing = np.where(met, np.argmax(total_BR >= budget[:, None], axis=1), np.where(exhausted, count, -1))
    before = np.where(crossing > 0, total_BR[np.arange(len(budget)), crossing - 1], 0).astype(np.int64)
    beyond = arrival - crossing[block]
    partial = np.flatnonzero(beyond == 0)
    lengths[partial] = _as_far_as_fits(lengths[partial], block[partial], budget - before, cut_last_word)
    taken = np.flatnonzero((beyond <= 0) & (lengths > 0))
    flags[concatenated_ranges(units.starts[reached[taken]], lengths[taken])] = True
    return met | exhausted


def _accepted(first_BR: Integers, last_BR: Integers) -> Flags:
    """(B, R) the accepted draws: those whose first word no earlier accepted draw covers."""
    narrow: np.dtype[Any] = np.dtype(np.uint16 if int(last_BR.max(initial=0)) < 1 << 15 else np.uint64)
    first, length = first_BR.astype(narrow), (last_BR - first_BR + 1).astype(narrow)
    # inside[b, k, j]: draw k starts inside the span of draw j; bits of 64 draws j are packed into a word. For a start
    # before that of j the unsigned difference wraps around to a large distance.
    inside_BRR = first[:, :, None] - first[:, None, :] < length[:, None, :]
    inside_BRQ = _packed(inside_BRR) & _earlier(first.shape[1])
    # Acceptance depends on earlier draws only, so iterating the rule reaches a fixed point; chains of draws that start
    # inside each other are short, so a few iterations suffice.
    accepted_BR = np.ones(first_BR.shape, bool)
    while True:
        accepted_BQ = _packed(accepted_BR)
        covered_BR = np.zeros(first_BR.shape, np.uint64)
        for word in range(accepted_BQ.shape[1]):
            covered_BR |= inside_BRQ[:, :, word] & accepted_BQ[:, None, word]
        updated_BR: Flags = covered_BR == 0
        if np.array_equal(updated_BR, accepted_BR):
            return accepted_BR
        accepted_BR = updated_BR


@lru_cache(maxsize=64)
def _earlier(count: int) -> Draws:
    """(R, Q) the draws before each draw, as bits."""
    return _packed(np.tri(count, k=-1, dtype=bool))


def _packed(flags: Flags) -> Draws:
    """(…, R) flags to (…, Q) 64-bit words."""
    packed = np.packbits(flags, axis=-1)
    words = np.zeros((*packed.shape[:-1], -(-packed.shape[-1] // 8) * 8), np.uint8)
    words[..., : packed.shape[-1]] = packed
    return words.view(np.uint64)


def _first_arrival(units: Units, first_BR: Integers, last_BR: Integers, accepted_BR: Flags) -> NDArray[np.int32]:
    """(U,) the first accepted draw that covers each unit; R if none does."""
    count = first_BR.shape[1]
    # int32: the caller's pass over all units is memory-bound.
    arrival = np.full(len(units.starts), count, np.int32)
    # In reverse, so that of two draws that cover the same unit the earlier one is assigned last.
    block, draw_index = (indices[::-1] for indices in np.nonzero(accepted_BR))
    first = first_BR[block, draw_index]
    lengths = last_BR[block, draw_index] - first + 1
    covered = concatenated_ranges(units.firsts[block] + first, lengths)
    arrival[covered] = np.repeat(draw_index, lengths)
    return arrival


def _as_far_as_fits(lengths: Integers, blocks: Integers, left: Integers, cut_last_word: bool) -> Integers:
    """How many tokens of each unit of the last draws are masked, left to right, until `left` (B,) is used up.

    After a unit that does not fit, no later one is masked either: its length still counts against the budget.
    """
    total = np.cumsum(lengths)
    first = np.ones(len(blocks), bool)
    first[1:] = blocks[1:] != blocks[:-1]
    block_starts = np.flatnonzero(first)
    before = np.repeat(total[block_starts] - lengths[block_starts], distances(block_starts, len(blocks)))
    available = left[blocks] - (total - lengths - before)
    return np.clip(available, 0, lengths) if cut_last_word else np.where(lengths <= available, lengths, 0)
