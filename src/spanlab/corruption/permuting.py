"""Permuting: a batch of blocks of a stream in, a batch of examples with their orders out.

Nothing is masked: the encoder sees true tokens, and the order decides who may know them.
"""

import numpy as np
from numpy.typing import ArrayLike

from spanlab.corruption.examples import ExampleBatch, Order
from spanlab.corruption.permutation import Permutation, PermutationConfig, permute
from spanlab.corruption.special_tokens import FramedBatch
from spanlab.errors import InputError


class Permuting:
    """Draws orders for batches of blocks by a config."""

    def __init__(
        self, config: PermutationConfig, *, columns: int = 1, reuse: int | None = None, both_ways: bool = False
    ) -> None:
        """Blocks are those of a `StreamBlocks` with so many columns, of which half are read backwards or none.

        `reuse` is how many tokens of a block, its first ones, the next block remembers: they are a part by themselves.
        """
        self.config, self._columns, self._reuse, self._both_ways = config, columns, reuse, both_ways

    def __call__(self, batch: FramedBatch, *, seed: int, epoch: ArrayLike = 0) -> ExampleBatch:
        """The examples of a batch; the same sample gives the same example in whatever batch it comes."""
        order = self.order(batch, seed=seed, epoch=epoch)
        columns = batch.indices % self._columns
        backward = (columns >= self._columns // 2) if self._both_ways else np.zeros(len(columns), bool)
        positions, none = np.flatnonzero(order.predicted_BT), np.empty(0, np.int64)
        return ExampleBatch(
            indices=batch.indices,
            input_ids=batch.ids,
            original_ids=batch.ids,
            lengths=batch.lengths,
            segment_ids=batch.segment_ids,
            positions=positions,
            targets=batch.ids[positions],
            boundary_positions=none,
            boundary_targets=none,
            left=none,
            right=none,
            first=none,
            last=none,
            offsets=none,
            uniforms=np.empty(0),
            pair_labels=batch.pair_labels,
            order=Order(
                rank=order.rank_BT.ravel(),
                sight=order.sight_BT.ravel(),
                backward=backward,
            ),
            columns=self._columns,
        )

    def order(self, batch: FramedBatch, *, seed: int, epoch: ArrayLike = 0) -> Permutation:
        """Who sees whom in each block."""
        length = int(batch.lengths[0])
        if (batch.lengths != length).any():
            raise InputError("blocks of several lengths in one batch cannot be permuted", fix="leave out short ones")
        if self._reuse is not None and not 1 <= self._reuse < length:
            raise InputError(f"a reuse of {self._reuse} tokens leaves nothing of blocks of {length}")
        shape = (len(batch.lengths), length)
        return permute(
            batch.maskable.reshape(shape),
            batch.word_starts.reshape(shape),
            self.config,
            parts=(length,) if self._reuse is None else (self._reuse, length - self._reuse),
            indices=batch.indices,
            seed=seed,
            epoch=epoch,
        )
