"""ALBERT's law: n-grams of 1 to 3 whole words, the chance of n proportional to 1/n, never overlapping.

The words of a block are visited in random order, and n is drawn at each. An n-gram that would exceed the budget is
shortened word by word and skipped if a single word is too much; an n-gram with a masked word is skipped. ALBERT's
released code draws n from an unseeded generator; n is drawn from the sample's key here.

Shapes: B blocks, U units of all blocks, W units of the longest block.
"""

import numpy as np
from numpy.typing import NDArray

from spanlab.arrays import Flags, Integers
from spanlab.corpus.randomness import Draws, mix, uniform
from spanlab.corruption.span_law import normalised
from spanlab.corruption.units import Units


def ngram_probabilities(longest: int, *, favour_short: bool = True) -> NDArray[np.float64]:
    """(longest,) P(n) of n = 1, 2, …: proportional to 1/n, or reversed if not `favour_short`."""
    weights = 1.0 / np.arange(1, longest + 1, dtype=np.float64)
    return normalised(weights if favour_short else weights[::-1])


def pick_ngrams(units: Units, keys: Draws, budget: Integers, longest: int, *, favour_short: bool = True) -> Flags:
    """(U,) the units picked in each block, up to a budget (B,) in tokens."""
    values_BW = units.random_values(keys)
    blocks, width = values_BW.shape
    order_BW = np.argsort(values_BW, axis=1)
    cumulative = np.cumsum(ngram_probabilities(longest, favour_short=favour_short))[:-1]
    drawn_BW = 1 + np.searchsorted(cumulative, uniform(mix(values_BW)), "right")
    # The number of tokens before each word of its block, padded for n-grams that extend past the last word.
    tokens_before_BW = np.zeros((blocks, width + longest + 1), np.int64)
    tokens_before_BW[units.blocks, units.indices_in_block + 1] = units.lengths
    np.cumsum(tokens_before_BW, axis=1, out=tokens_before_BW)
    picked_BW = np.zeros((blocks, width + longest), bool)
    remaining_B, row = budget.copy(), np.arange(blocks)
    for visit in range(width):
        if not (remaining_B > 0).any():
            break
        word = order_BW[:, visit]
        size = _fitting(drawn_BW[row, word], word, units.counts, tokens_before_BW, remaining_B)
        size[_touches(picked_BW, row, word, size, longest)] = 0
        for step in range(longest):
            picked_BW[row, word + step] |= size > step
        remaining_B -= tokens_before_BW[row, word + size] - tokens_before_BW[row, word]
    picked: Flags = picked_BW[units.blocks, units.indices_in_block]
    return picked


def _fitting(
    size: Integers, word: Integers, counts: Integers, tokens_before_BW: Integers, remaining_B: Integers
) -> Integers:
    """(B,) how many of the `size` words from `word` on fit the block and the remaining budget."""
    row = np.arange(len(word))
    size = np.clip(np.minimum(size, counts - word), 0, None)
    for _ in range(int(size.max(initial=0))):
        size = size - ((tokens_before_BW[row, word + size] - tokens_before_BW[row, word] > remaining_B) & (size > 0))
    return size


def _touches(picked_BW: Flags, row: Integers, word: Integers, size: Integers, longest: int) -> Flags:
    """(B,) whether any of the `size` words from `word` on is already picked."""
    touched = np.zeros(len(row), bool)
    for step in range(longest):
        touched |= picked_BW[row, word + step] & (step < size)
    return touched
