"""Which of many scored spans are kept: the best of each group, none that crosses or overlaps a better one.

What enters are arrays on the host, what leaves is the numbers of the spans kept. Taking the best of each group is one
sort. Taking spans greedily so that no two conflict depends on what was taken before, so it walks the candidates from
the best on; each costs two look-ups in short slices, and the walk ends once enough are kept.

Shapes: S spans, G groups (windows, documents).
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from spanlab.arrays import Integers, offsets

Conflict = Literal["crossing", "overlapping"]


def by_score(scores: NDArray[np.floating]) -> Integers:
    """(S,) the spans' numbers from the best to the worst; of equals the earlier comes first."""
    return np.argsort(-scores, kind="stable")


def best_of_groups(scores: NDArray[np.floating], groups: Integers, keep: Integers) -> Integers:
    """The numbers of the best `keep[g]` spans of each group g, in ascending order.

    Args:
        scores: (S,).
        groups: (S,) the group of each span, from 0.
        keep: (G,) how many of each are kept; a group may have fewer.
    """
    order = np.lexsort((np.arange(len(scores)), -scores, groups))
    sizes = np.bincount(groups, minlength=len(keep))
    rank = np.arange(len(order)) - np.repeat(offsets(sizes), sizes)
    return np.sort(order[rank < np.repeat(keep, sizes)])


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
    for number in by_score(scores).tolist():
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
