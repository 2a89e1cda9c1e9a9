"""Names of common array types, and concatenated ranges of different lengths without a loop."""

import math

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]


def concatenated_ranges(starts: Integers, lengths: Integers) -> Integers:
    """(N,) the integers start, start + 1, … of each of R ranges, concatenated: (2, 7), (3, 1) → 2 3 4 7."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total) + np.repeat(starts - ends + lengths, lengths)


def sinusoids(length: int, width: int) -> NDArray[np.float32]:
    """(length, width): sines in the even columns, cosines in the odd ones, wavelengths from 2π to 10,000·2π."""
    frequency = np.exp(np.arange(0, width, 2) * (-math.log(10_000.0) / width))
    angle = np.arange(length)[:, None] * frequency
    table = np.zeros((length, width))
    table[:, 0::2] = np.sin(angle)
    table[:, 1::2] = np.cos(angle)[:, : width // 2]
    return table.astype(np.float32)


def offsets(lengths: Integers) -> Integers:
    """(R,) the start of each range after concatenation."""
    return np.cumsum(lengths) - lengths
