"""Autoregressive examples: nothing is corrupted, and the target of every token is the token after it.

Packed sequences in, examples out. The last token of a sequence is only a target and not part of the input, since
nothing would use its hidden state. A sequence of one token is kept and has no target.

Shapes: B sequences, N tokens of all sequences.
"""

from dataclasses import replace

import numpy as np

from spanlab.arrays import Integers, offsets
from spanlab.corpus.blocks import BlockBatch
from spanlab.corruption.examples import ExampleBatch, SentencePairs
from spanlab.corruption.special_tokens import TokenBatch


def next_token_examples(batch: TokenBatch, *, streams: int = 0) -> ExampleBatch:
    """Every token but the first of each sequence is predicted from the tokens before it."""
    return shifted(batch.indices, batch.ids, batch.lengths, pairs=batch.pairs, streams=streams)


def shifted(
    indices: Integers, ids: Integers, lengths: Integers, *, pairs: SentencePairs | None = None, streams: int = 0
) -> ExampleBatch:
    """Next-token examples from packed `ids` (N,) of sequences of `lengths` (B,)."""
    ends = np.cumsum(lengths)
    is_input = np.ones(len(ids), bool)
    is_input[ends - 1] = lengths == 1  # an input needs at least one token
    is_target = np.ones(len(ids), bool)
    is_target[ends - lengths] = False
    predicts = np.ones(len(ids), bool)
    predicts[ends - 1] = False
    return ExampleBatch(
        indices=indices,
        input_ids=ids[is_input],
        original_ids=ids[is_input],
        lengths=np.maximum(lengths - 1, 1),
        positions=np.flatnonzero(predicts[is_input]),
        targets=ids[is_target],
        pairs=None if pairs is None else SentencePairs(segment_ids=pairs.segment_ids[is_input], labels=pairs.labels),
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
    """(N,) packed sequences with the tokens of each in reverse; the order of the sequences stays."""
    ends = np.cumsum(lengths)
    # In a sequence [a, b), position p gets the token at a + b - 1 - p.
    mirrored = np.repeat(2 * ends - lengths - 1, lengths) - np.arange(len(ids))
    return ids[mirrored]


def mirror_steps(indices: Integers, streams: int, count: int) -> Integers:
    """(B,) the blocks that the backward LSTM reads while the forward LSTM reads `indices` (B,), of `count` blocks."""
    steps, stream = np.divmod(indices, streams)
    last = (count - 1 - stream) // streams
    return (last - steps) * streams + stream


def mark_sentences(blocks: BlockBatch, *, begin_id: int, end_id: int) -> BlockBatch:
    """The blocks with `end_id` and `begin_id` inserted between sentences.

    None are inserted at the start of a block: adjacent blocks of a stream share a token, so a sentence that starts
    with it was marked at the end of the block before.
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
