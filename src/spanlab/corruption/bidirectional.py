"""Examples of a bidirectional language model: the next token forwards, and the one before it backwards.

What enters are two batches of sequences: what the forward direction reads, and what the backward direction reads. In
samples of their own both are the same. In continuous streams they differ: a backward reader must begin at the end of
its stream, so that at step t, where the forward reader is at block t from the front, it is at block t from the back.
What leaves is one batch of 2 B sequences: the first half as they are, the second half reversed.

Sentences are marked as in ELMo's own training data: each ends with </S> and the next begins with <S>.
"""

from dataclasses import replace

import numpy as np

from spanlab.corpus.blocks import BlockBatch
from spanlab.corruption.examples import ExampleBatch, Integers
from spanlab.corruption.next_token import shifted
from spanlab.corruption.special_tokens import FramedBatch


def both_ways(forward: FramedBatch, backward: FramedBatch, *, columns: int = 0) -> ExampleBatch:
    """The forward sequences and, reversed, the backward ones."""
    return shifted(
        np.concatenate([forward.indices, forward.indices]),
        np.concatenate([forward.ids, reverse(backward.ids, backward.lengths)]),
        np.concatenate([forward.lengths, backward.lengths]),
        columns=columns,
    )


def reverse(ids: Integers, lengths: Integers) -> Integers:
    """Each of the sequences in a row turned round, in the order of the sequences."""
    ends = np.cumsum(lengths)
    # Place p of a sequence [a, b) takes what stood at a + b - 1 - p.
    mirrored = np.repeat(2 * ends - lengths - 1, lengths) - np.arange(len(ids))
    return ids[mirrored]


def mirror_steps(indices: Integers, columns: int, count: int) -> Integers:
    """The blocks that the backward reader is at when the forward reader is at `indices`, of `count` blocks in all."""
    steps, column = np.divmod(indices, columns)
    last = (count - 1 - column) // columns
    return (last - steps) * columns + column


def mark_sentences(blocks: BlockBatch, *, begin_id: int, end_id: int) -> BlockBatch:
    """The blocks with the two marks between sentences; none where a block begins, since the one before it may have it.

    A sentence that begins with the last token of a block is marked in it, for a stream's blocks share that token.
    """
    starts = blocks.sentence_starts.copy()
    starts[np.cumsum(blocks.lengths) - blocks.lengths] = False
    places = np.flatnonzero(starts)
    marks = np.repeat(places, 2)
    block_of = np.repeat(np.arange(len(blocks.lengths)), blocks.lengths)
    added = 2 * np.bincount(block_of[places], minlength=len(blocks.lengths))
    lengths = blocks.lengths + added
    return replace(
        blocks,
        ids=np.insert(blocks.ids, marks, np.tile([end_id, begin_id], len(places))),
        lengths=lengths,
        word_starts=np.insert(blocks.word_starts, marks, True),
        sentence_starts=np.insert(blocks.sentence_starts, marks, False),
        first_lengths=lengths,
        sources=None,
    )
