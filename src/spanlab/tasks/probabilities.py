"""Scores to probabilities on the host, in double precision."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def softmax(scores: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """Probabilities that sum to one along the last axis."""
    highest = scores.max(axis=-1, keepdims=True, initial=-np.inf)
    exponentials = np.exp(scores.astype(np.float64) - highest)
    shares: NDArray[np.float64] = exponentials / exponentials.sum(axis=-1, keepdims=True)
    return shares


def sigmoid(scores: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """Independent probabilities."""
    # exp of minus the absolute value never overflows.
    decay = np.exp(-np.abs(scores.astype(np.float64)))
    shares: NDArray[np.float64] = np.where(scores >= 0, 1.0, decay) / (1.0 + decay)
    return shares
