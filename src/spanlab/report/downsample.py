"""Fewer points for a curve: as many as a screen can show, chosen so that the curve looks the same."""

from itertools import pairwise

import numpy as np

from spanlab.report.run_history import Series

MOST_POINTS = 600


def thin(series: Series, most: int = MOST_POINTS) -> Series:
    """The lowest and the highest point of each stretch of steps: no spike is lost. Short series stay as they are."""
    if len(series) <= most:
        return series
    edges = np.linspace(0, len(series), most // 2).astype(np.int64)  # room for the first and the last point
    chosen = {0, len(series) - 1}
    for first, last in pairwise(edges.tolist()):
        stretch = series.values[first:last]
        chosen |= {first + int(stretch.argmin()), first + int(stretch.argmax())}
    kept = np.array(sorted(chosen))
    return Series(series.steps[kept], series.values[kept])


def smooth(series: Series, most: int = MOST_POINTS) -> Series:
    """The mean over a fiftieth of the run around each point (less at the ends), which lags behind nothing."""
    count = len(series)
    kept = np.unique(np.linspace(0, count - 1, min(most, count)).astype(np.int64))
    first = np.maximum(kept - count // 100, 0)
    last = np.minimum(kept + count // 100 + 1, count)
    sums = np.concatenate([[0.0], np.cumsum(series.values)])
    return Series(series.steps[kept], (sums[last] - sums[first]) / (last - first))
