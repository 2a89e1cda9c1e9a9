"""Two segments behind the reused part of every block of a stream: [reused | first … | second …] (XLNet).

The second segment begins at a sentence. In half of the blocks it goes on with the stream; in the others it is a stretch
from another block, read in the same direction. Only the reused part, which is always of the stream, is remembered, so
what comes from elsewhere never gets into the memory.

Shapes: B blocks, T tokens of each.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from spanlab.arrays import Numbers
from spanlab.corpus.blocks import BlockBatch
from spanlab.corpus.randomness import draws, sample_keys, uniform
from spanlab.corpus.text_streams import StreamBlocks


class StreamPairBlocks:
    """The blocks of streams, all of one length, with a second segment each."""

    def __init__(self, blocks: StreamBlocks, *, reused: int, random_share: float = 0.5, seed: int = 0) -> None:
        self._blocks, self._reused, self._random_share, self._seed = blocks, reused, random_share, seed

    def __len__(self) -> int:
        return len(self._blocks)

    def first_tokens(self) -> Numbers:
        """(blocks,) where each block begins in the corpus."""
        return self._blocks.first_tokens()

    def stretches(self) -> tuple[Numbers, Numbers]:
        """(streams,) where the text of each stream begins in the corpus, and where it ends."""
        return self._blocks.stretches()

    def batch(self, indices: ArrayLike) -> BlockBatch:
        """The blocks at `indices` (B,), in that order."""
        batch = self._blocks.batch(indices)
        keys = sample_keys(seed=self._seed, purpose="stream pairs", epoch=0, index=batch.indices)
        draws_B3 = draws(keys, 3)
        shape = (len(batch.lengths), -1)
        starts_BT = batch.sentence_starts.reshape(shape)
        cut_B, found_B = _cut(starts_BT, self._reused, uniform(draws_B3[:, 0]))
        random_B = ~found_B | (uniform(draws_B3[:, 1]) < self._random_share)
        other = self._blocks.batch(self._blocks.same_direction(batch.indices, draws_B3[:, 2]))
        place_T = np.arange(starts_BT.shape[1])
        second_BT = place_T >= cut_B[:, None]
        # The stretch from elsewhere is the beginning of the other block, moved to where the second segment begins.
        source_BT = np.where(second_BT, place_T - cut_B[:, None], 0)
        swapped_BT = second_BT & random_B[:, None]

        def mixed(own: np.ndarray, theirs: np.ndarray) -> np.ndarray:
            moved_BT = np.take_along_axis(theirs.reshape(shape), source_BT, axis=1)
            return np.where(swapped_BT, moved_BT, own.reshape(shape)).reshape(-1)

        word_starts = mixed(batch.word_starts, other.word_starts)
        word_starts.reshape(shape)[np.arange(len(cut_B)), cut_B] = True
        return replace(
            batch,
            ids=mixed(batch.ids, other.ids),
            word_starts=word_starts,
            sentence_starts=mixed(batch.sentence_starts, other.sentence_starts),
            first_lengths=cut_B,
            sources=None,
            labels=random_B.astype(np.int8),
        )


def _cut(starts_BT: np.ndarray, reused: int, share_B: np.ndarray) -> tuple[Numbers, np.ndarray]:
    """(B,) a random sentence start behind the reused part, and whether there is one; else the middle of the rest."""
    after_BT = starts_BT.copy()
    after_BT[:, : reused + 1] = False
    count_B = after_BT.sum(axis=1)
    wanted_B = (share_B * count_B).astype(np.int64) + 1
    chosen_B = (np.cumsum(after_BT, axis=1) >= wanted_B[:, None]).argmax(axis=1)
    return np.where(count_B > 0, chosen_B, (reused + starts_BT.shape[1]) // 2), count_B > 0
