"""Greedy selection of scored spans, so that none crosses or overlaps a better one.

Arrays on the host enter; the indices of the kept spans leave. Whether a span is kept depends on those kept before it,
so candidates are visited in order of score; each costs two look-ups in short slices, and the loop ends once enough are
kept.

Shapes: S spans.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from spanlab.arrays import Integers

Conflict = Literal["crossing", "overlapping"]


def without_conflicts(
    first: Integers, last: Integers, scores: NDArray[np.floating], *, conflict: Conflict, keep: int | None = None
) -> Integers:
    """The indices of the spans that do not conflict with a better kept one, in ascending order.

    Args:
        first: (S,) first positions.
        last: (S,) last positions, inclusive.
        scores: (S,).
        conflict: Two spans cross if each contains one end of the other; they overlap if they share a position.
        keep: The maximum number of spans; None: no limit.
    """
    if not len(first):
        return np.zeros(0, dtype=np.int64)
    base = int(first.min())
    length = int(last.max()) - base + 1
    kept: list[int] = []
    limit = len(first) if keep is None else keep
    furthest_end = np.full(length, -1)  # of the kept spans that start at each position
    nearest_start = np.full(length, length)  # of the kept spans that end at each position
    covered = np.zeros(length, dtype=bool)
    for index in np.argsort(-scores, kind="stable").tolist():  # ties: the earlier span first
        if len(kept) == limit:
            break
        start, end = int(first[index]) - base, int(last[index]) - base
        if conflict == "overlapping":
            if covered[start : end + 1].any():
                continue
            covered[start : end + 1] = True
        elif (furthest_end[start + 1 : end + 1] > end).any() or (nearest_start[start:end] < start).any():
            continue
        furthest_end[start] = max(furthest_end[start], end)
        nearest_start[end] = min(nearest_start[end], start)
        kept.append(index)
    return np.sort(np.array(kept, dtype=np.int64))
