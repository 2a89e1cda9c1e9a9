"""Ranges of different lengths laid one after the other, without a loop."""

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]


def flat_ranges(firsts: Numbers, lengths: Numbers) -> Numbers:
    """(N,) the numbers first, first + 1, … of every range (R,), `lengths` (R,) of them each."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total) + np.repeat(firsts - ends + lengths, lengths)


def offsets(lengths: Numbers) -> Numbers:
    """(R,) where each range begins when they are laid one after the other."""
    return np.cumsum(lengths) - lengths
