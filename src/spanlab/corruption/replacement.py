"""What replaces a masked token: [MASK], a random token, or the token itself.

The choice is made once per token, word or span, keyed by its first token, never by the order of evaluation. Random
tokens are drawn uniformly from the vocabulary or by their frequency in the corpus; special tokens are never drawn.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from spanlab.arrays import Integers
from spanlab.corpus.randomness import Draws, below, draw_at, mix, uniform
from spanlab.errors import ConfigError, InputError

ReplacePer = Literal["token", "word", "span"]


@dataclass(frozen=True)
class Shares:
    """Shares of the masked tokens that become [MASK], become a random token, or are kept; they add up to 1."""

    mask: float = 0.8
    random: float = 0.1
    keep: float = 0.1

    def __post_init__(self) -> None:
        if min(self.mask, self.random, self.keep) < 0 or abs(self.mask + self.random + self.keep - 1) > 1e-6:
            shares = f"{self.mask} + {self.random} + {self.keep}"
            raise ConfigError(f"mask_share, random_share and keep_share are {shares}", fix="make them add up to 1")


class RandomTokens:
    """Draws ids that are not special, uniformly or in proportion to their counts in a corpus."""

    def __init__(self, vocab_size: int, special_ids: tuple[int, ...], unigram_counts: Integers | None = None) -> None:
        allowed = np.setdiff1d(np.arange(vocab_size), np.asarray(special_ids, np.int64))
        if unigram_counts is not None:
            allowed = allowed[unigram_counts[allowed] > 0]
        if not len(allowed):
            raise InputError("the vocabulary has no token to draw at random: all are special or unused")
        self._ids = allowed
        self._cumulative = None if unigram_counts is None else np.cumsum(unigram_counts[allowed])

    def draw(self, values: Draws) -> Integers:
        """One id per draw."""
        if self._cumulative is None:
            return self._ids[below(values, len(self._ids))]
        threshold = uniform(values) * self._cumulative[-1]
        chosen: Integers = self._ids[np.searchsorted(self._cumulative, threshold, side="right")]
        return chosen


def decide(keys: Draws, positions: Integers) -> NDArray[np.float64]:
    """Uniform numbers in [0, 1), keyed by positions in blocks (K,) and the keys of their samples (K,)."""
    return uniform(draw_at(keys, positions))


def replace_tokens(
    original: Integers,
    choice: NDArray[np.float64],
    keys: Draws,
    positions: Integers,
    *,
    mask_id: int,
    shares: Shares,
    random_tokens: RandomTokens,
) -> Integers:
    """(K,) the input ids at the masked tokens, decided by the uniform numbers `choice` (K,).

    `positions` (K,) are positions in blocks, `keys` (K,) the keys of the samples.
    """
    input_ids = np.where(choice < shares.mask, mask_id, original)
    swapped = np.flatnonzero((choice >= shares.mask) & (choice < shares.mask + shares.random))
    # A second key for the ids makes them independent of the choice.
    input_ids[swapped] = random_tokens.draw(draw_at(mix(keys[swapped]), positions[swapped]))
    return input_ids
