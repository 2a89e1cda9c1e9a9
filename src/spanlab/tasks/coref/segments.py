"""A document cut into the segments that an encoder takes one at a time, and its tokens found again in them.

What enters are the tokens of a document, where its sentences end and where its words begin; what leaves are windows
over the tokens. Independent segments follow each other and end with a sentence where one ends in reach, else with a
word. Overlapping ones begin in the middle of the one before, so each token but the outermost is seen twice.

Shapes: N tokens of a document, K segments.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spanlab.text.windows import Window, cut_windows

Integers = NDArray[np.int64]


def cut_segments(count: int, room: int, sentence_ends: Integers, word_ends: Integers) -> list[Window]:
    """Windows that follow each other, each of at most `room` tokens.

    Args:
        count: N.
        room: the most tokens of a segment.
        sentence_ends: token numbers after the last token of each sentence, ascending.
        word_ends: the same of each word; only a word longer than `room` is cut.
    """
    windows, start = [], 0
    while start < count:
        limit = min(start + room, count)
        end = limit
        if limit < count:
            end = _last_within(sentence_ends, start, limit) or _last_within(word_ends, start, limit) or limit
        windows.append(Window(start, end))
        start = end
    return windows


def _last_within(ends: Integers, start: int, limit: int) -> int | None:
    """The last end that lies after `start` and not after `limit`."""
    place = int(np.searchsorted(ends, limit, side="right")) - 1
    return int(ends[place]) if place >= 0 and ends[place] > start else None


def cut_overlapping(count: int, room: int) -> list[Window]:
    """Windows of `room` tokens, each beginning in the middle of the one before."""
    return cut_windows(count, length=room, stride=max(1, room // 2))


@dataclass(frozen=True, kw_only=True, eq=False)
class TokenPlaces:
    """Where the tokens of a document stand among the tokens of all its sequences, laid end to end."""

    first: Integers
    """(N,) in the first segment that holds the token."""
    second: Integers
    """(N,) in the last one that does: another where segments overlap."""
    segment: Integers
    """(N,) the number of the first."""


def locate_tokens(windows: Sequence[Window], sequence_starts: Sequence[int], text_starts: Sequence[int]) -> TokenPlaces:
    """The places of all tokens.

    Args:
        windows: (K,) the segments, which leave out no token.
        sequence_starts: (K,) where each one's sequence begins among all.
        text_starts: (K,) where the text begins in each sequence, after special tokens.
    """
    count = windows[-1].end
    first, second, segment = (np.full(count, -1, dtype=np.int64) for _ in range(3))
    for number, window in enumerate(windows):
        here = slice(window.start, window.end)
        places = sequence_starts[number] + text_starts[number] + np.arange(len(window))
        new = first[here] < 0
        first[here][new] = places[new]
        segment[here][new] = number
        second[here] = places
    return TokenPlaces(first=first, second=second, segment=segment)
