"""Spans of masked tokens, and the examples that are made of them: masked tokens of a batch in, `ExampleBatch` out.

Adjacent masked tokens are one span, whichever draws they come from. A span keeps its length or, collapsed, becomes a
single mask token; either way every masked token is a target.

Shapes: N tokens of all blocks, K masked tokens, S spans.
"""

from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from spanlab.arrays import Flags, Integers
from spanlab.corruption.examples import ExampleBatch, SpanBoundaries, move_positions
from spanlab.corruption.special_tokens import TokenBatch
from spanlab.corruption.units import distances

Value = TypeVar("Value", bound=np.generic)


@dataclass(frozen=True)
class MaskedSpans:
    """Maximal runs of masked tokens within a block."""

    positions: Integers
    """(K,) the masked tokens, ascending."""
    first: Integers
    """(S,) the first token of each span."""
    sizes: Integers
    """(S,) in tokens."""
    bounded: Flags
    """(S,) whether the span has a token on both sides in its block."""

    def per_token(self, values: NDArray[Value]) -> NDArray[Value]:
        """(S,) values of spans to (K,) values of their tokens."""
        return np.repeat(values, self.sizes)


def find_spans(batch: TokenBatch, masked: Flags) -> MaskedSpans:
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


def masked_examples(
    batch: TokenBatch, spans: MaskedSpans, seen: Integers, uniforms: NDArray[np.float64] | None
) -> ExampleBatch:
    """The examples of a batch: `seen` (K,) in the place of its masked tokens, which are the targets."""
    input_ids = batch.ids.copy()
    input_ids[spans.positions] = seen
    targets = batch.ids[spans.positions]
    first, last = spans.per_token(spans.first), spans.per_token(spans.first + spans.sizes - 1)
    positions, boundary_targets = spans.positions, targets
    if not spans.bounded.all():
        bounded = spans.per_token(spans.bounded)
        first, last, positions, boundary_targets = first[bounded], last[bounded], positions[bounded], targets[bounded]
    return ExampleBatch(
        indices=batch.indices,
        input_ids=input_ids,
        original_ids=batch.ids,
        lengths=batch.lengths,
        positions=spans.positions,
        targets=targets,
        boundaries=SpanBoundaries(
            positions=positions,
            targets=boundary_targets,
            left=first - 1,
            right=last + 1,
            first=first,
            last=last,
            offsets=positions - first,
        ),
        pairs=batch.pairs,
        sampling_uniforms=uniforms,
    )


def collapse_spans(examples: ExampleBatch, spans: MaskedSpans, masked_K: Flags) -> ExampleBatch:
    """The examples with each span of [MASK] collapsed into one, which has all tokens of the span as its targets.

    `masked_K` are the tokens that became [MASK]; spans that became random tokens, or were kept, stay as they are.
    """
    offsets_K = np.where(masked_K, spans.positions - spans.per_token(spans.first), 0)
    count = len(examples.input_ids)
    kept = np.ones(count, bool)
    kept[examples.positions[offsets_K > 0]] = False
    new_positions = np.cumsum(kept) - 1  # every token of a collapsed span moves to the span's first
    block_of = np.repeat(np.arange(len(examples.lengths)), examples.lengths)
    boundaries, pairs = examples.boundaries, examples.pairs
    return replace(
        examples,
        input_ids=examples.input_ids[kept],
        original_ids=examples.original_ids[kept],
        lengths=np.bincount(block_of[kept], minlength=len(examples.lengths)),
        positions=new_positions[examples.positions],
        offsets=offsets_K,
        boundaries=boundaries and move_positions(boundaries, new_positions),
        pairs=pairs and replace(pairs, segment_ids=pairs.segment_ids[kept]),
    )
