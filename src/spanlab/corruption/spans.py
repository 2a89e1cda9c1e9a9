"""Masked tokens as spans: neighbours of one block that are masked together, and what lies just outside them.

Spans that overlap or touch are one span. With [CLS] and [SEP] around a block every span has two outer neighbours;
without them, a span at the edge of a block has one only, and its tokens have no boundary target.

Shapes: K masked tokens, N tokens in a row.
"""

from dataclasses import dataclass

import numpy as np

from spanlab.corruption.example import Flags, Integers
from spanlab.corruption.frame import FramedBatch


@dataclass(frozen=True)
class MaskedSpans:
    """Per masked token: its place, its span, and whether the span has both neighbours."""

    positions: Integers
    """(K,) the masked tokens, ascending."""
    first: Integers
    """(K,) the first token of the span each belongs to."""
    last: Integers
    """(K,) the last token of that span."""
    bounded: Flags
    """(K,) whether the tokens before `first` and behind `last` belong to the same block."""


def find_spans(batch: FramedBatch, masked: Flags) -> MaskedSpans:
    """The spans of the masked tokens (N,)."""
    positions = np.flatnonzero(masked)
    block = batch.block_of[positions]
    begins = np.ones(len(positions), bool)
    begins[1:] = (np.diff(positions) != 1) | (np.diff(block) != 0)
    span_starts = np.flatnonzero(begins)
    sizes = np.diff(span_starts, append=len(positions))
    first, block_of_span = positions[span_starts], block[span_starts]
    last = first + sizes - 1
    ends = batch.starts[block_of_span] + batch.lengths[block_of_span]
    bounded = (first > batch.starts[block_of_span]) & (last + 1 < ends)
    return MaskedSpans(positions, np.repeat(first, sizes), np.repeat(last, sizes), np.repeat(bounded, sizes))
