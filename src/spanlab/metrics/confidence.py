"""Confidence of a mean score: bootstrap intervals over the examples of a test set.

What enters is a score for each example (of one system, or of two on the same examples); what leaves is the mean, or the
mean difference, and its interval at the given confidence: percentiles of the means of test sets drawn from this one
with replacement (Efron 1979; paired for two systems, Koehn 2004). It is for means of scores per example, such as exact
match, not for corpus-wide scores such as micro F1.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spanlab.errors import InputError
from spanlab.metrics.precision_recall import check_paired


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A mean and its confidence bounds."""

    mean: float
    low: float
    high: float


def mean_interval(
    scores: Sequence[float], *, confidence: float = 0.95, resamples: int = 2000, seed: int = 0
) -> Interval:
    """The mean of the scores and its interval; the same seed gives the same interval."""
    values = np.asarray(scores, dtype=np.float64)
    if not values.size:
        raise InputError("there are no scores to average")
    if not 0 < confidence < 1:
        raise InputError(f"the confidence is {confidence}; it must be between 0 and 1", fix="use 0.95, for example")
    generator = np.random.default_rng(seed)
    draws = (values[generator.integers(0, values.size, values.size)].mean() for _ in range(resamples))
    tail = (1 - confidence) / 2
    low, high = np.quantile(np.fromiter(draws, np.float64, resamples), [tail, 1 - tail])
    return Interval(mean=float(values.mean()), low=float(low), high=float(high))


def difference_interval(
    scores: Sequence[float],
    baseline: Sequence[float],
    *,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Interval:
    """The mean difference to a baseline on the same examples; significant when the interval excludes 0."""
    check_paired(scores, baseline, "scores")
    paired = np.asarray(scores, dtype=np.float64) - np.asarray(baseline, dtype=np.float64)
    return mean_interval(paired.tolist(), confidence=confidence, resamples=resamples, seed=seed)
