"""Names of common array types, and concatenated ranges of different lengths without a loop."""

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]


def concatenated_ranges(starts: Integers, lengths: Integers) -> Integers:
    """(N,) the integers start, start + 1, … of each of R ranges, concatenated: (2, 7), (3, 1) → 2 3 4 7."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total) + np.repeat(starts - ends + lengths, lengths)


def offsets(lengths: Integers) -> Integers:
    """(R,) the start of each range after concatenation."""
    return np.cumsum(lengths) - lengths
