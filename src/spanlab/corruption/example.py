"""What a corruption hands to the objectives: one batch of training examples, packed, everything gathered already.

All arrays are numpy, flat over the batch: N tokens of B sequences in a row, special tokens included, no padding.
K tokens are predicted. Positions point into the flat row and can be used on an encoder's packed output as they are.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]


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
    pair_labels: NDArray[np.int64]
    """(B,) 0 the second segment follows the first, 1 it does not (or they are swapped), -1 nothing is asked."""
    columns: int = 0
    """C, where samples are steps of C continuous streams: sample t·C + c is step t of stream c. 0: they are not."""
