"""One text's tokens: ids, where each token lies in the user's own string, and where words begin."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Tokens:
    """The N tokens of one text, without special tokens."""

    ids: np.ndarray
    """(N,) uint32 vocabulary ids."""
    starts: np.ndarray
    """(N,) int32 first character of each token, in the string the user gave."""
    ends: np.ndarray
    """(N,) int32 end of each token, exclusive. Byte tokens of one character share that character's span."""
    word_starts: np.ndarray
    """(N,) bool, True where a word begins; always True at index 0."""

    def __len__(self) -> int:
        return len(self.ids)
