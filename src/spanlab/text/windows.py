"""Overlapping windows over a long text.

What enters is a number of tokens and the length that a model takes; what leaves is token ranges that cover every token.
A token in several windows is best represented by the one in which it has most context (the rule of BERT's SQuAD code).
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
        length: Tokens the model takes, special tokens included.
        stride: From the start of one window to the start of the next.
        reserved: Tokens of each window kept for special tokens and a prefix such as a question.
    """
    available = length - reserved
    if available < 1:
        raise ConfigError(
            f"windows of {length} tokens leave none for text: {reserved} are reserved",
            fix="use longer windows or a shorter question",
        )
    if not 1 <= stride <= available:
        raise ConfigError(
            f"the stride is {stride}, but a window has {available} tokens of text",
            fix=f"use a stride from 1 to {available}",
        )
    steps = max(0, -(-(count - available) // stride))
    return [Window(step * stride, min(step * stride + available, count)) for step in range(steps + 1)]


def best_windows(windows: Sequence[Window], count: int) -> np.ndarray:
    """(N,) the index of the window in which each token has most context: the smaller of its two sides counts.

    Ties go to the longer window, then to the earlier one.
    """
    best = np.full(count, -1, dtype=np.int64)
    most = np.full(count, -1, dtype=np.int64)
    longest = max(map(len, windows), default=0) + 1
    for index, window in enumerate(windows):
        left = np.arange(len(window))
        context = np.minimum(left, left[::-1]) * longest + len(window)
        inside = slice(window.start, window.end)
        better = context > most[inside]
        best[inside][better] = index
        most[inside][better] = context[better]
    assert count == 0 or best.min() >= 0, "the windows leave out a token"
    return best
