"""Masked tokens as spans: neighbours of one block that are masked together, and what lies just outside them.

Spans that overlap or touch are one span. With [CLS] and [SEP] around a block every span has two outer neighbours;
without them, a span at the edge of a block has one only, and its tokens have no boundary target.

Shapes: K masked tokens, S spans, N tokens in a row.
"""

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from spanlab.corruption.examples import Flags, Integers
from spanlab.corruption.special_tokens import FramedBatch
from spanlab.corruption.units import distances

Value = TypeVar("Value", bound=np.generic)


@dataclass(frozen=True)
class MaskedSpans:
    """Spans, and the masked tokens they consist of."""

    positions: Integers
    """(K,) the masked tokens, ascending."""
    first: Integers
    """(S,) the first token of each span."""
    sizes: Integers
    """(S,) its tokens."""
    bounded: Flags
    """(S,) whether the tokens just before and just behind it belong to the same block."""

    def per_token(self, values: NDArray[Value]) -> NDArray[Value]:
        """(K,) what is known of spans (S,), for each of their tokens."""
        return np.repeat(values, self.sizes)


def find_spans(batch: FramedBatch, masked: Flags) -> MaskedSpans:
    """The spans of the masked tokens (N,)."""
    positions = np.flatnonzero(masked)
    block = batch.block_of[positions]
    begins = np.ones(len(positions), bool)
    begins[1:] = (positions[1:] != positions[:-1] + 1) | (block[1:] != block[:-1])
    span_starts = np.flatnonzero(begins)
    sizes = distances(span_starts, len(positions))
    first, block_of_span = positions[span_starts], block[span_starts]
    last = first + sizes - 1
    ends = batch.starts[block_of_span] + batch.lengths[block_of_span]
    bounded = (first > batch.starts[block_of_span]) & (last + 1 < ends)
    return MaskedSpans(positions, first, sizes, bounded)
