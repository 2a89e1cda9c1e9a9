"""Sentence similarity: correlation of predicted and gold scores.

What enters is two lists of numbers; what leaves is `pearson` (linear) and `spearman` (of ranks, ties at their mean
rank), from -1 to 1. The correlation with a constant list is undefined; it is 0 here, because a model that gives every
pair the same score has predicted nothing, and a mean over tasks must not become NaN.
"""

from collections.abc import Sequence

import numpy as np
from scipy.stats import rankdata

from spanlab.errors import InputError
from spanlab.metrics.precision_recall import check_paired


def score_similarity(gold: Sequence[float], predicted: Sequence[float]) -> dict[str, float]:
    """`pearson` and `spearman`."""
    return {"pearson": pearson(gold, predicted), "spearman": spearman(gold, predicted)}


def pearson(gold: Sequence[float], predicted: Sequence[float]) -> float:
    """Pearson's correlation; 0 when either row is constant."""
    return _correlation(*_rows(gold, predicted))


def spearman(gold: Sequence[float], predicted: Sequence[float]) -> float:
    """Spearman's rank correlation, ties sharing their mean rank; 0 when either row is constant."""
    gold_row, predicted_row = _rows(gold, predicted)
    return _correlation(rankdata(gold_row), rankdata(predicted_row))


def _rows(gold: Sequence[float], predicted: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """Both rows as float64, every number finite."""
    check_paired(gold, predicted, "scores")
    rows = np.asarray(gold, dtype=np.float64), np.asarray(predicted, dtype=np.float64)
    for row, name in zip(rows, ("gold", "predicted"), strict=True):
        if not np.isfinite(row).all():
            index = int(np.flatnonzero(~np.isfinite(row))[0])
            raise InputError(f"the {name} score {index + 1} is {row[index]}", fix="scores must be finite numbers")
    return rows


def _correlation(first: np.ndarray, second: np.ndarray) -> float:
    # Not by the deviation from the mean: the mean of equal numbers may differ from them in the last bit.
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return 0.0
    first, second = _centred(first), _centred(second)
    return float(np.clip(first @ second, -1.0, 1.0))


def _centred(row: np.ndarray) -> np.ndarray:
    """The row minus its mean, of length one; scaled before squaring so that squares neither underflow nor overflow."""
    row = row / np.abs(row).max()
    row = row - row.mean()
    row = row / np.abs(row).max()
    unit: np.ndarray = row / np.linalg.norm(row)
    return unit
