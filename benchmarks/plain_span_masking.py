"""SpanBERT's masking scheme as a careful programmer would write it in plain Python: one sequence, one draw at a time.

It draws the same numbers as `spanlab.corruption` (splitmix64 on the sample's key), so the two agree token for token: it
is the oracle of the tests and the peer of the benchmark.
"""

from bisect import bisect_right
from collections.abc import Sequence
from math import ceil

import numpy as np
from numpy.typing import NDArray

from spanlab.corpus.randomness import draw, sample_keys
from spanlab.corruption.span_law import LengthLaw

WORD = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15


def mix(value: int) -> int:
    """splitmix64's finaliser on a Python integer."""
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & WORD
    return value ^ (value >> 31)


class PlainSpanMasking:
    """Masks one sequence at a time with geometric lengths: whole words, one decision per merged span."""

    def __init__(
        self,
        mask_id: int,
        allowed_ids: Sequence[int],
        *,
        ratio: float = 0.15,
        p: float = 0.2,
        longest: int = 10,
        mask_share: float = 0.8,
        random_share: float = 0.1,
    ) -> None:
        self.mask_id, self.allowed_ids, self.ratio = mask_id, allowed_ids, ratio
        self.mask_share, self.random_share = mask_share, random_share
        total, self.thresholds = 0.0, []
        for chance in LengthLaw(p, longest).probabilities[:-1]:
            total += float(chance)
            self.thresholds.append(ceil(total * 2.0**32))

    @staticmethod
    def keys(seed: int, epoch: int, indices: NDArray[np.int64]) -> tuple[list[int], list[int]]:
        """What the draws of each sample are keyed by: for choosing words, and for replacing tokens."""
        base = sample_keys(seed=seed, purpose="masking", epoch=epoch, index=indices)
        return draw(base, 2).tolist(), draw(base, 3).tolist()

    def choose(self, word_starts: Sequence[int], end: int, key: int) -> list[bool]:
        """Which words are masked; word w holds the tokens from word_starts[w] to the next start, the last to `end`."""
        starts = [*word_starts, end]
        words = len(word_starts)
        masked = [False] * words
        left = min(ceil(self.ratio * (end - starts[0]) - 1e-9), end - starts[0] - 1)
        number = 0
        while left > 0:
            number += 1
            value = mix((key + number * GOLDEN) & WORD)
            first = ((value >> 32) * words) >> 32
            if masked[first]:
                continue
            length = 1 + bisect_right(self.thresholds, value & 0xFFFFFFFF)
            for word in range(first, min(first + length, words)):
                if masked[word]:
                    continue
                size = starts[word + 1] - starts[word]
                if size > left:
                    return masked
                masked[word] = True
                left -= size
                if left == 0:
                    return masked
        return masked

    def __call__(
        self, ids: list[int], word_starts: Sequence[int], end: int, key: int, replace_key: int
    ) -> tuple[list[int], list[int], list[int], list[int], list[int]]:
        """Corrupted ids, masked positions, their neighbours left and right of the span, their offsets in it."""
        masked = self.choose(word_starts, end, key)
        starts = [*word_starts, end]
        seen = ids.copy()
        positions: list[int] = []
        left: list[int] = []
        right: list[int] = []
        offsets: list[int] = []
        id_key = mix(replace_key)
        word, words = 0, len(masked)
        while word < words:
            if not masked[word]:
                word += 1
                continue
            first = starts[word]
            while word < words and masked[word]:
                word += 1
            stop = starts[word]
            size = stop - first
            positions += range(first, stop)
            left += [first - 1] * size
            right += [stop] * size
            offsets += range(size)
            choice = (mix((replace_key + (first + 1) * GOLDEN) & WORD) >> 11) * 2.0**-53
            if choice < self.mask_share:
                seen[first:stop] = [self.mask_id] * size
            elif choice < self.mask_share + self.random_share:
                allowed = len(self.allowed_ids)
                for place in range(first, stop):
                    value = mix((id_key + (place + 1) * GOLDEN) & WORD)
                    seen[place] = self.allowed_ids[((value >> 32) * allowed) >> 32]
        return seen, positions, left, right, offsets
