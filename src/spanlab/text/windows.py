"""A long text cut into overlapping windows, and per-token results put together again.

What enters is a number of tokens and the length a model can take; what leaves is token ranges that cover every token.
Each token of the overlaps has several results: `merge_best` takes the one from the window where the token sees most
of its surroundings (the rule of BERT's SQuAD code), `merge_mean` averages them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spanlab.errors import ConfigError


@dataclass(frozen=True)
class Window:
    """Tokens `start` to `end` (exclusive) of a text."""

    start: int
    end: int

    def __len__(self) -> int:
        return self.end - self.start


def cut_windows(count: int, *, length: int, stride: int, reserved: int = 0) -> list[Window]:
    """Windows over `count` tokens; every token is in at least one, and a text without tokens has one empty window.

    Args:
        count: Tokens of the text.
        length: What the model takes, everything included.
        stride: From the start of one window to the start of the next.
        reserved: Room for special tokens and for a prefix such as a question.
    """
    room = length - reserved
    if room < 1:
        raise ConfigError(
            f"windows of {length} tokens have no room for text beside {reserved} reserved ones",
            fix="use longer windows or a shorter question",
        )
    if not 1 <= stride <= room:
        raise ConfigError(
            f"a stride of {stride} does not fit windows with room for {room} tokens",
            fix=f"use a stride from 1 to {room}",
        )
    steps = max(0, -(-(count - room) // stride))
    return [Window(step * stride, min(step * stride + room, count)) for step in range(steps + 1)]


def best_windows(windows: Sequence[Window], count: int) -> np.ndarray:
    """(N,) the number of the window in which each token has most context: the smaller of its two sides counts.

    Where that is the same, the longer window is better, then the earlier one.
    """
    best = np.full(count, -1, dtype=np.int64)
    most = np.full(count, -1, dtype=np.int64)
    longest = max(map(len, windows), default=0) + 1
    for number, window in enumerate(windows):
        left = np.arange(len(window))
        context = np.minimum(left, left[::-1]) * longest + len(window)
        here = slice(window.start, window.end)
        better = context > most[here]
        best[here][better] = number
        most[here][better] = context[better]
    assert count == 0 or best.min() >= 0, "the windows leave out a token"
    return best


def merge_best(windows: Sequence[Window], results: Sequence[np.ndarray], count: int) -> np.ndarray:
    """(N, …) each token's result from the window where it has most context; `results` holds (len(window), …) each."""
    _check_shapes(windows, results)
    best = best_windows(windows, count)
    merged = np.empty((count, *results[0].shape[1:]), dtype=results[0].dtype)
    for number, (window, result) in enumerate(zip(windows, results, strict=True)):
        here = slice(window.start, window.end)
        chosen = best[here] == number
        merged[here][chosen] = result[chosen]
    return merged


def merge_mean(windows: Sequence[Window], results: Sequence[np.ndarray], count: int) -> np.ndarray:
    """(N, …) the mean of each token's results over the windows that hold it, in double precision."""
    _check_shapes(windows, results)
    total = np.zeros((count, *results[0].shape[1:]), dtype=np.float64)
    times = np.zeros((count, *(1,) * (total.ndim - 1)), dtype=np.int64)
    for window, result in zip(windows, results, strict=True):
        total[window.start : window.end] += result
        times[window.start : window.end] += 1
    assert count == 0 or times.min() > 0, "the windows leave out a token"
    return total / times


def _check_shapes(windows: Sequence[Window], results: Sequence[np.ndarray]) -> None:
    assert len(windows) == len(results) > 0, "one result a window"
    assert all(len(window) == len(result) for window, result in zip(windows, results, strict=True))
