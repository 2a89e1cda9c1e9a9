"""Similarity of sentences: how well predicted scores follow the gold ones.

What enters is two rows of numbers; what leaves is `pearson` (do they lie on a line) and `spearman` (are they in the
same order, ties at the mean of their ranks), from -1 to 1. A correlation with a row that never varies is undefined;
it is 0 here, because a model that says the same of every pair has told nothing, and because a mean or a comparison
over tasks must not become NaN for it.
"""

from collections.abc import Sequence

import numpy as np
from scipy.stats import rankdata

from spanlab.errors import InputError
from spanlab.metrics.pairing import check_paired


def score_similarity(gold: Sequence[float], predicted: Sequence[float]) -> dict[str, float]:
    """`pearson` and `spearman`."""
    return {"pearson": pearson(gold, predicted), "spearman": spearman(gold, predicted)}


def pearson(gold: Sequence[float], predicted: Sequence[float]) -> float:
    """Pearson's correlation; 0 when either row is constant."""
    return _correlation(*_rows(gold, predicted))


def spearman(gold: Sequence[float], predicted: Sequence[float]) -> float:
    """Spearman's rank correlation, ties sharing their mean rank; 0 when either row is constant."""
    wanted, found = _rows(gold, predicted)
    return _correlation(rankdata(wanted), rankdata(found))


def _rows(gold: Sequence[float], predicted: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """Both rows as float64, every number finite."""
    check_paired(gold, predicted, "scores")
    wanted, found = np.asarray(gold, dtype=np.float64), np.asarray(predicted, dtype=np.float64)
    for row, name in ((wanted, "gold"), (found, "predicted")):
        if not np.isfinite(row).all():
            place = int(np.flatnonzero(~np.isfinite(row))[0])
            raise InputError(f"the {name} score {place + 1} is {row[place]}", fix="scores must be finite numbers")
    return wanted, found


def _correlation(first: np.ndarray, second: np.ndarray) -> float:
    # Asked of the numbers themselves: the mean of equal numbers may differ from them in the last bit.
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return 0.0
    first, second = _centred(first), _centred(second)
    return float(np.clip(first @ second, -1.0, 1.0))


def _centred(row: np.ndarray) -> np.ndarray:
    """The row about its mean and of length one, scaled before it is squared lest the squares vanish or overflow."""
    row = row / np.abs(row).max()
    row = row - row.mean()
    row = row / np.abs(row).max()
    unit: np.ndarray = row / np.linalg.norm(row)
    return unit
