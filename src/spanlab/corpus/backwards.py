"""Blocks read from their end to their beginning.

XLNet trains half of its streams that way. A word, and a sentence, then begins where it used to end.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from spanlab.arrays import Numbers, offsets
from spanlab.corpus.blocks import BlockBatch


def turn_round(batch: BlockBatch, turned: NDArray[np.bool_]) -> BlockBatch:
    """The batch with some of its blocks (B,) turned round; they must have one segment."""
    firsts = offsets(batch.lengths)
    places = np.arange(len(batch.ids))
    mirrored = np.repeat(2 * firsts + batch.lengths - 1, batch.lengths) - places
    turned_N = np.repeat(turned, batch.lengths)
    order = np.where(turned_N, mirrored, places)
    return replace(
        batch,
        ids=batch.ids[order],
        word_starts=np.where(turned_N, _ends(batch.word_starts, batch)[order], batch.word_starts),
        sentence_starts=np.where(turned_N, _ends(batch.sentence_starts, batch)[order], batch.sentence_starts),
        sources=None,
    )


def _ends(starts: NDArray[np.bool_], batch: BlockBatch) -> NDArray[np.bool_]:
    """(N,) where what begins at `starts` ends."""
    ends = np.append(starts[1:], True)
    lasts: Numbers = np.cumsum(batch.lengths)[batch.lengths > 0] - 1
    ends[lasts] = True
    return ends
