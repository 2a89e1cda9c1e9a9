"""ALBERT's law: n-grams of 1 to 3 whole words, the chance of n proportional to 1/n, never overlapping.

The words of a block are visited in random order. At each a length is drawn; an n-gram that would exceed the budget is
shortened, word by word, and passed over if even one word is too much; one that holds a masked word is passed over.
ALBERT's own code draws the length from a generator that its seed does not reach; here it follows from the sample's key.

Shapes: B blocks, U units in a row, W units of the longest block.
"""

import numpy as np
from numpy.typing import NDArray

from spanlab.arrays import Flags, Integers
from spanlab.corpus.randomness import Draws, mix, uniform
from spanlab.corruption.span_law import normalised
from spanlab.corruption.units import Units


def ngram_probabilities(longest: int, *, favour_short: bool = True) -> NDArray[np.float64]:
    """(longest,) of n = 1, 2, …: proportional to 1/n, or, reversed, favouring long ones."""
    weights = 1.0 / np.arange(1, longest + 1, dtype=np.float64)
    return normalised(weights if favour_short else weights[::-1])


def pick_ngrams(units: Units, keys: Draws, budget: Integers, longest: int, *, favour_short: bool = True) -> Flags:
    """(U,) the units picked in each block; the budget (B,) is in tokens."""
    values_BW = units.random_values(keys)
    blocks, width = values_BW.shape
    order_BW = np.argsort(values_BW, axis=1)
    cumulative = np.cumsum(ngram_probabilities(longest, favour_short=favour_short))[:-1]
    drawn_BW = 1 + np.searchsorted(cumulative, uniform(mix(values_BW)), "right")
    # Tokens before each word of its block, with room for n-grams that reach past its end.
    ends_BW = np.zeros((blocks, width + longest + 1), np.int64)
    ends_BW[units.blocks, units.indices_in_block + 1] = units.lengths
    np.cumsum(ends_BW, axis=1, out=ends_BW)
    picked_BW = np.zeros((blocks, width + longest), bool)
    left_B, row = budget.copy(), np.arange(blocks)
    for visit in range(width):
        if not (left_B > 0).any():
            break
        word = order_BW[:, visit]
        size = _fitting(drawn_BW[row, word], word, units.counts, ends_BW, left_B)
        size[_touches(picked_BW, row, word, size, longest)] = 0
        for step in range(longest):
            picked_BW[row, word + step] |= size > step
        left_B -= ends_BW[row, word + size] - ends_BW[row, word]
    picked: Flags = picked_BW[units.blocks, units.indices_in_block]
    return picked


def _fitting(size: Integers, word: Integers, counts: Integers, ends_BW: Integers, left_B: Integers) -> Integers:
    """(B,) how many words from `word` on fit both the block and what is left of the budget; 0 if not even one."""
    row = np.arange(len(word))
    size = np.clip(np.minimum(size, counts - word), 0, None)
    for _ in range(int(size.max(initial=0))):
        size = size - ((ends_BW[row, word + size] - ends_BW[row, word] > left_B) & (size > 0))
    return size


def _touches(picked_BW: Flags, row: Integers, word: Integers, size: Integers, longest: int) -> Flags:
    """(B,) whether any of the `size` words from `word` on is picked already."""
    touched = np.zeros(len(row), bool)
    for step in range(longest):
        touched |= picked_BW[row, word + step] & (step < size)
    return touched
