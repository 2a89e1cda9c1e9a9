"""Autoregressive examples: nothing is corrupted, and the target of every token is the one that follows it.

What enters are sequences in a row, what leaves are examples without each sequence's last token, which is only a target:
its hidden state would be computed for nothing. A sequence of one token is kept, and predicts nothing.

Shapes: B sequences, N tokens.
"""

import numpy as np

from spanlab.corruption.examples import ExampleBatch, Integers
from spanlab.corruption.special_tokens import FramedBatch


def next_tokens(batch: FramedBatch, *, columns: int = 0) -> ExampleBatch:
    """Every token but the first of each sequence is predicted from those before it."""
    return shifted(batch.indices, batch.ids, batch.lengths, segment_ids=batch.segment_ids, columns=columns)


def shifted(
    indices: Integers, ids: Integers, lengths: Integers, *, segment_ids: Integers | None = None, columns: int = 0
) -> ExampleBatch:
    """The examples of sequences `lengths` (B,) long that lie in a row in `ids` (N,)."""
    ends = np.cumsum(lengths)
    seen = np.ones(len(ids), bool)
    seen[ends - 1] = lengths == 1
    is_target = np.ones(len(ids), bool)
    is_target[ends - lengths] = False
    predicts = np.ones(len(ids), bool)
    predicts[ends - 1] = False
    positions = np.flatnonzero(predicts[seen])
    none = np.empty(0, np.int64)
    return ExampleBatch(
        indices=indices,
        input_ids=ids[seen],
        original_ids=ids[seen],
        lengths=np.maximum(lengths - 1, 1),
        segment_ids=None if segment_ids is None else segment_ids[seen],
        positions=positions,
        targets=ids[is_target],
        boundary_positions=none,
        boundary_targets=none,
        left=none,
        right=none,
        first=none,
        last=none,
        offsets=none,
        uniforms=np.empty(0),
        pair_labels=np.full(len(lengths), -1, np.int64),
        columns=columns,
    )
