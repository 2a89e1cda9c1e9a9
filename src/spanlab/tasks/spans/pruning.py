"""Which of many scored spans are kept: the best of each group, none that crosses or overlaps a better one.

What enters are arrays on the host, what leaves is the numbers of the spans kept. Taking the best of each group is one
sort. Taking spans greedily so that no two conflict depends on what was taken before, so it walks the candidates from
the best on; each costs two look-ups in short slices, and the walk ends once enough are kept.

Shapes: S spans, G groups (windows, documents).
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from spanlab.arrays import Integers

Conflict = Literal["crossing", "overlapping"]


def without_conflicts(
    first: Integers, last: Integers, scores: NDArray[np.floating], *, conflict: Conflict, keep: int | None = None
) -> Integers:
    """The numbers of spans taken from the best on, none in conflict with a better one, in ascending order.

    Args:
        first: (S,) first places.
        last: (S,) last places, inclusive.
        scores: (S,).
        conflict: Two spans cross if each holds one end of the other; they overlap if they share any place.
        keep: At most so many; None keeps all that do not conflict.
    """
    if not len(first):
        return np.zeros(0, dtype=np.int64)
    start = int(first.min())
    places = int(last.max()) - start + 1
    taken: list[int] = []
    limit = len(first) if keep is None else keep
    furthest_end = np.full(places, -1)  # of the spans taken that begin at each place
    nearest_start = np.full(places, places)  # of the spans taken that end at each place
    covered = np.zeros(places, dtype=bool)
    for number in np.argsort(-scores, kind="stable").tolist():  # of equals the earlier comes first
        if len(taken) == limit:
            break
        a, b = int(first[number]) - start, int(last[number]) - start
        if conflict == "overlapping":
            if covered[a : b + 1].any():
                continue
            covered[a : b + 1] = True
        elif (furthest_end[a + 1 : b + 1] > b).any() or (nearest_start[a:b] < a).any():
            continue
        furthest_end[a] = max(furthest_end[a], b)
        nearest_start[b] = min(nearest_start[b], a)
        taken.append(number)
    return np.sort(np.array(taken, dtype=np.int64))
