"""Sentence similarity: correlation of predicted and gold scores.

What enters is two lists of numbers; what leaves is `pearson` (linear) and `spearman` (of ranks, ties at their mean
rank), from -1 to 1. The correlation with a constant list is undefined; it is 0 here, because a model that gives every
pair the same score has predicted nothing, and a mean over tasks must not become NaN.
"""

from collections.abc import Sequence

import numpy as np

from spanlab.errors import InputError
from spanlab.metrics.precision_recall import check_paired


def score_similarity(gold: Sequence[float], predicted: Sequence[float]) -> dict[str, float]:
    """`pearson` and `spearman`."""
    return {"pearson": pearson(gold, predicted), "spearman": spearman(gold, predicted)}


def pearson(gold: Sequence[float], predicted: Sequence[float]) -> float:
    """Pearson's correlation; 0 when either list is constant."""
    return _correlation(*_as_arrays(gold, predicted))


def spearman(gold: Sequence[float], predicted: Sequence[float]) -> float:
    """Spearman's rank correlation, ties sharing their mean rank; 0 when either list is constant."""
    gold_scores, predicted_scores = _as_arrays(gold, predicted)
    return _correlation(_ranks(gold_scores), _ranks(predicted_scores))


def _as_arrays(gold: Sequence[float], predicted: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """Both lists as float64; raises an error at a number that is not finite."""
    check_paired(gold, predicted, "scores")
    arrays = np.asarray(gold, dtype=np.float64), np.asarray(predicted, dtype=np.float64)
    for scores, name in zip(arrays, ("gold", "predicted"), strict=True):
        if not np.isfinite(scores).all():
            index = int(np.flatnonzero(~np.isfinite(scores))[0])
            raise InputError(f"the {name} score {index + 1} is {scores[index]}", fix="scores must be finite numbers")
    return arrays


def _ranks(scores: np.ndarray) -> np.ndarray:
    """The rank of each score, from 1; equal scores share the mean of theirs."""
    # scipy.stats has it, too, and takes longer to import than all else that scoring needs.
    _, index, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks: np.ndarray = (np.cumsum(counts) - (counts - 1) / 2)[index]
    return ranks


def _correlation(first: np.ndarray, second: np.ndarray) -> float:
    # Not by the standard deviation: the mean of equal numbers may differ from them in the last bit.
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return 0.0
    first, second = _centred_unit(first), _centred_unit(second)
    return float(np.clip(first @ second, -1.0, 1.0))


def _centred_unit(scores: np.ndarray) -> np.ndarray:
    """The scores minus their mean, as a unit vector; rescaled first so that squares neither underflow nor overflow."""
    scores = scores / np.abs(scores).max()
    scores = scores - scores.mean()
    scores = scores / np.abs(scores).max()
    unit: np.ndarray = scores / np.linalg.norm(scores)
    return unit
