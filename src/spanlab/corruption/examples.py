"""What a corruption hands to the objectives: one batch of training examples, packed, everything gathered already.

All arrays are numpy, flat over the batch: N tokens of B sequences in a row, special tokens included, no padding.
K tokens are predicted. Positions point into the flat row and can be used on an encoder's packed output as they are.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spanlab.arrays import Flags, Integers

Ranks = NDArray[np.int16]


@dataclass(frozen=True, kw_only=True)
class PredictionOrder:
    """In which order the tokens of examples of one length are predicted."""

    rank: Ranks
    sight: Ranks
    """(N,) token i sees token j of its own sequence if rank[j] < sight[i]."""
    backward: Flags
    """(B,) whether the text is given from its end to its beginning."""


@dataclass(frozen=True, kw_only=True)
class ExampleBatch:
    """Corrupted examples and their targets."""

    indices: Integers
    """(B,) which samples these are."""
    input_ids: Integers
    """(N,) what the encoder sees: corrupted, with special tokens."""
    original_ids: Integers
    """(N,) what was there before; the same length as `input_ids` unless spans were collapsed."""
    lengths: Integers
    """(B,) tokens of each sequence, special tokens included."""
    segment_ids: Integers | None
    """(N,) 0 for the first segment, 1 for the second; None where every example has one segment."""
    positions: Integers
    """(K,) the tokens to predict, ascending."""
    targets: Integers
    """(K,) their true ids."""
    boundary_positions: Integers
    """(S,) of every masked token that has a span boundary target, where it stands; as `positions` unless collapsed."""
    boundary_targets: Integers
    """(S,) their true ids."""
    left: Integers
    """(S,) the token just outside the span on the left."""
    right: Integers
    """(S,) the token just outside the span on the right."""
    first: Integers
    """(S,) the first token inside the span."""
    last: Integers
    """(S,) the last token inside the span."""
    offsets: Integers
    """(S,) the place of each token in its span, from 0."""
    uniforms: NDArray[np.float64]
    """(K,) one number in [0, 1) for each predicted token: what a generator samples with (ELECTRA); else empty."""
    pair_labels: Integers
    """(B,) 0 the second segment follows the first, 1 it does not (or they are swapped), -1 nothing is asked."""
    order: PredictionOrder | None = None
    """For permutation language modelling, where nothing is masked; else None."""
    columns: int = 0
    """C, where samples are steps of C continuous streams: sample t·C + c is step t of stream c. 0: they are not."""


_PLACES = ("positions", "boundary_positions", "left", "right", "first", "last")
"""The fields that point into the row of tokens."""


def join_examples(batches: Sequence[ExampleBatch]) -> ExampleBatch:
    """Several batches as one, in their order, no longer as streams; what one has (segment ids, an order), all have."""
    if len(batches) == 1:
        return batches[0]
    starts = np.cumsum([0, *(len(batch.input_ids) for batch in batches[:-1])])
    joined: dict[str, Any] = {}
    for field in fields(ExampleBatch):
        parts = [getattr(batch, field.name) for batch in batches]
        if field.name in _PLACES:
            parts = [part + start for part, start in zip(parts, starts, strict=True)]
        if isinstance(parts[0], np.ndarray):
            joined[field.name] = np.concatenate(parts)
        elif isinstance(parts[0], PredictionOrder):
            joined[field.name] = PredictionOrder(
                **{name: np.concatenate([vars(part)[name] for part in parts]) for name in vars(parts[0])}
            )
    return ExampleBatch(**{"segment_ids": None, **joined})
