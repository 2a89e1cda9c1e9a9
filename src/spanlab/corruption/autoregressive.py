"""Autoregressive examples: nothing is corrupted, and the target of every token is the one that follows it.

What enters are sequences in a row, what leaves are examples without each sequence's last token, which is only a target:
its hidden state would be computed for nothing. A sequence of one token is kept, and predicts nothing.

Shapes: B sequences, N tokens.
"""

from dataclasses import replace

import numpy as np

from spanlab.arrays import Integers, offsets
from spanlab.corpus.blocks import BlockBatch
from spanlab.corruption.examples import ExampleBatch, SentencePairs
from spanlab.corruption.special_tokens import TokenBatch


def next_token_examples(batch: TokenBatch, *, streams: int = 0) -> ExampleBatch:
    """Every token but the first of each sequence is predicted from those before it."""
    return shifted(batch.indices, batch.ids, batch.lengths, pairs=batch.pairs, streams=streams)


def shifted(
    indices: Integers, ids: Integers, lengths: Integers, *, pairs: SentencePairs | None = None, streams: int = 0
) -> ExampleBatch:
    """The examples of sequences `lengths` (B,) long that lie in a row in `ids` (N,)."""
    ends = np.cumsum(lengths)
    seen = np.ones(len(ids), bool)
    seen[ends - 1] = lengths == 1
    is_target = np.ones(len(ids), bool)
    is_target[ends - lengths] = False
    predicts = np.ones(len(ids), bool)
    predicts[ends - 1] = False
    return ExampleBatch(
        indices=indices,
        input_ids=ids[seen],
        original_ids=ids[seen],
        lengths=np.maximum(lengths - 1, 1),
        positions=np.flatnonzero(predicts[seen]),
        targets=ids[is_target],
        pairs=None if pairs is None else SentencePairs(segment_ids=pairs.segment_ids[seen], labels=pairs.labels),
        streams=streams,
    )


def bidirectional_examples(forward: TokenBatch, backward: TokenBatch, *, streams: int = 0) -> ExampleBatch:
    """The forward sequences and, reversed, the backward ones."""
    return shifted(
        np.concatenate([forward.indices, forward.indices]),
        np.concatenate([forward.ids, reverse(backward.ids, backward.lengths)]),
        np.concatenate([forward.lengths, backward.lengths]),
        streams=streams,
    )


def reverse(ids: Integers, lengths: Integers) -> Integers:
    """Each of the sequences in a row turned round, in the order of the sequences."""
    ends = np.cumsum(lengths)
    # Position p of a sequence [a, b) takes what was at a + b - 1 - p.
    mirrored = np.repeat(2 * ends - lengths - 1, lengths) - np.arange(len(ids))
    return ids[mirrored]


def mirror_steps(indices: Integers, streams: int, count: int) -> Integers:
    """The blocks that the backward reader is at when the forward reader is at `indices`, of `count` blocks in all."""
    steps, stream = np.divmod(indices, streams)
    last = (count - 1 - stream) // streams
    return (last - steps) * streams + stream


def mark_sentences(blocks: BlockBatch, *, begin_id: int, end_id: int) -> BlockBatch:
    """The blocks with the two marks between sentences; none where a block begins, since the one before it may have it.

    A sentence that begins with the last token of a block is marked in it, for a stream's blocks share that token.
    """
    starts = blocks.sentence_starts.copy()
    starts[offsets(blocks.lengths)] = False
    positions = np.flatnonzero(starts)
    marks = np.repeat(positions, 2)
    block_of = np.repeat(np.arange(len(blocks.lengths)), blocks.lengths)
    added = 2 * np.bincount(block_of[positions], minlength=len(blocks.lengths))
    lengths = blocks.lengths + added
    return replace(
        blocks,
        ids=np.insert(blocks.ids, marks, np.tile([end_id, begin_id], len(positions))),
        lengths=lengths,
        word_starts=np.insert(blocks.word_starts, marks, True),
        sentence_starts=np.insert(blocks.sentence_starts, marks, False),
        first_lengths=lengths,
        sources=None,
    )
