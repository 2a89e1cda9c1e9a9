"""The order of samples: a keyed permutation of 0 … count - 1 that is computed, never stored.

What enters is (seed, epoch) and positions in the order; what leaves is sample indices. Positions go through a
Feistel network over the next power of two and walk on until they fall inside the range, so memory is that of the
requested positions alone, any position can be computed first (resuming skips nothing), and ranks or workers take
their share of the positions of one global order. The trade-off against a stored shuffle: about a microsecond a sample.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from spanlab.arrays import Integers
from spanlab.corpus.randomness import Draws, draws, mix, sample_keys

_ROUNDS = 8


@dataclass(frozen=True)
class SampleOrder:
    """The order of `count` samples in every epoch; a pure function of (seed, epoch)."""

    count: int
    seed: int

    def __post_init__(self) -> None:
        if not 0 < self.count < 1 << 62:
            raise ValueError(f"an order needs at least one sample, not {self.count}")

    def indices(self, epoch: int, start: int, stop: int, step: int = 1) -> Integers:
        """The samples at positions start, start + step, … below stop of an epoch.

        Rank r of w processes asks for `start + r` with step w; all ranks together see the positions of one process.
        """
        if not 0 <= start <= stop <= self.count:
            raise ValueError(f"positions {start} to {stop} are not within an epoch of {self.count} samples")
        return self._permute(epoch, np.arange(start, stop, step, dtype=np.uint64))

    def samples(self, start: int, stop: int, step: int = 1) -> tuple[Integers, Integers]:
        """(epochs, indices) of the samples start, start + step, … below stop counted from the first epoch on.

        The count runs through epochs without a gap: a batch may begin in one and end in the next.
        """
        if start < 0:
            raise ValueError(f"samples are counted from 0, not {start}")
        return self.at(np.arange(start, stop, step, dtype=np.int64))

    def at(self, positions: Integers) -> tuple[Integers, Integers]:
        """(epochs, indices) of the samples at positions counted from the first epoch on."""
        epochs, epoch_positions = positions // self.count, positions % self.count
        indices = np.empty_like(positions)
        for epoch in np.unique(epochs).tolist():
            in_epoch = epochs == epoch
            indices[in_epoch] = self._permute(epoch, epoch_positions[in_epoch].astype(np.uint64))
        return epochs, indices

    def _permute(self, epoch: ArrayLike, positions: Draws) -> Integers:
        bits = max(6, (self.count - 1).bit_length())
        key = sample_keys(seed=self.seed, purpose="order", epoch=epoch, index=0)
        round_keys = draws(key, _ROUNDS)[0]
        values = _feistel(positions, bits, round_keys)
        outside = np.flatnonzero(values >= np.uint64(self.count))
        while outside.size:
            values[outside] = _feistel(values[outside], bits, round_keys)
            outside = outside[values[outside] >= np.uint64(self.count)]
        return values.astype(np.int64)


def _feistel(values: Draws, bits: int, round_keys: Draws) -> Draws:
    """A permutation of the `bits`-bit numbers; halves of unequal width swap their widths every round."""
    low = bits // 2
    high = bits - low
    for round_key in round_keys:
        left, right = values >> np.uint64(low), values & np.uint64((1 << low) - 1)
        scramble = mix(right + round_key) >> np.uint64(64 - high)
        values = (right << np.uint64(high)) | (left ^ scramble)
        low, high = high, low
    return values
