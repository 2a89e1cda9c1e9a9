"""Tokens as arrays: ids, character offsets in the user's string, and where words begin."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np


@dataclass(frozen=True, eq=False)
class Tokens:
    """The N tokens of one text, without special tokens."""

    ids: np.ndarray
    """(N,) uint32 vocabulary ids."""
    starts: np.ndarray
    """(N,) int32 first character of each token, in the string the user gave; a leading space is not counted in."""
    ends: np.ndarray
    """(N,) int32 end of each token, exclusive. Byte tokens of one character share that character's span."""
    word_starts: np.ndarray
    """(N,) bool, True where a word begins; always True at index 0."""

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, eq=False, kw_only=True)
class TokenTable:
    """The tokens of several texts, concatenated; `counts` (B,) says how many belong to each. Offsets are per text."""

    ids: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    word_starts: np.ndarray
    counts: np.ndarray

    def split(self) -> list[Tokens]:
        """One `Tokens` per text, as views into the table."""
        bounds = np.concatenate(([0], np.cumsum(self.counts))).tolist()
        return [
            Tokens(self.ids[a:b], self.starts[a:b], self.ends[a:b], self.word_starts[a:b]) for a, b in pairwise(bounds)
        ]
