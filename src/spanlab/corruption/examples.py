"""A batch of training examples: what corruption hands to the objectives.

All arrays are flat over the batch: N tokens of B sequences in a row, special tokens included, no padding. K tokens are
predicted. Positions count through the row of all tokens, so they index an encoder's packed output directly.

`ExampleBatch` has what all objectives use; what only some use is a group that is None elsewhere. The classes are
generic in the array type: numpy arrays here, tensors in `objectives.batch`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Generic

import numpy as np
from numpy.typing import NDArray
from typing_extensions import TypeVar

from spanlab.arrays import Integers

Ranks = NDArray[np.int16]
Array = TypeVar("Array", default=NDArray[Any])

_INTO_ROW = {"into_row": True}
"""Metadata of fields whose values are positions in the row of tokens."""


@dataclass(frozen=True, kw_only=True)
class SpanBoundaries(Generic[Array]):
    """The S masked tokens that have a span boundary target; all of them unless a span touches the edge of its block."""

    positions: Array = field(metadata=_INTO_ROW)
    """(S,)"""
    targets: Array
    """(S,) the original ids."""
    left: Array = field(metadata=_INTO_ROW)
    """(S,) the token just outside the span on the left."""
    right: Array = field(metadata=_INTO_ROW)
    """(S,) the token just outside the span on the right."""
    first: Array = field(metadata=_INTO_ROW)
    """(S,) the first token inside the span."""
    last: Array = field(metadata=_INTO_ROW)
    """(S,) the last token inside the span."""
    offsets: Array
    """(S,) the index of each token in its span, from 0."""


@dataclass(frozen=True, kw_only=True)
class SentencePairs(Generic[Array]):
    """Sequences of two segments."""

    segment_ids: Array
    """(N,) 0 for the first segment, 1 for the second; XLNet's class token has 2."""
    labels: Array
    """(B,) 0 the second segment follows the first, 1 it does not (or they are swapped), -1 no label."""


@dataclass(frozen=True, kw_only=True)
class PredictionOrder(Generic[Array]):
    """The order in which the tokens of sequences of one length are predicted (XLNet); nothing is masked then."""

    rank: Array
    visible_below: Array
    """(N,) token i sees token j of its own sequence if rank[j] < visible_below[i]."""
    backward: Array
    """(B,) whether the text is read from its end to its beginning."""


@dataclass(frozen=True, kw_only=True)
class ExampleBatch(Generic[Array]):
    """Examples and their targets."""

    indices: Array
    """(B,) the index of each sample."""
    input_ids: Array
    """(N,) the input of the encoder: corrupted, with special tokens."""
    original_ids: Array
    """(N,) the ids before corruption; of a collapsed span only the first."""
    lengths: Array
    """(B,) tokens of each sequence, special tokens included."""
    positions: Array = field(metadata=_INTO_ROW)
    """(K,) the tokens to predict, ascending."""
    targets: Array
    """(K,) their original ids."""
    boundaries: SpanBoundaries[Array] | None = None
    pairs: SentencePairs[Array] | None = None
    order: PredictionOrder[Array] | None = None
    sampling_uniforms: Array | None = None
    """(K,) in [0, 1), from which ELECTRA's generator samples a token for each position."""
    streams: int = 0
    """C, if samples are steps of C continuous streams: sample t·C + c is step t of stream c. 0: independent samples."""


_GROUPS = (SpanBoundaries, SentencePairs, PredictionOrder)


def map_arrays(group: Any, change: Callable[[NDArray[Any]], Any]) -> dict[str, Any]:  # noqa: ANN401 (any group)
    """The fields of a batch or of one of its groups, with `change` applied to every array in them."""
    changed = {}
    for item in fields(group):
        value = getattr(group, item.name)
        if isinstance(value, _GROUPS):
            value = type(value)(**map_arrays(value, change))
        changed[item.name] = change(value) if isinstance(value, np.ndarray) else value
    return changed


def named_arrays(group: Any, prefix: str = "") -> Iterator[tuple[str, NDArray[Any]]]:  # noqa: ANN401 (any group)
    """(name, array) of a batch; those of a group are named `boundaries.left`."""
    for item in fields(group):
        value = getattr(group, item.name)
        if isinstance(value, _GROUPS):
            yield from named_arrays(value, f"{prefix}{item.name}.")
        elif isinstance(value, np.ndarray):
            yield prefix + item.name, value


def move_positions(boundaries: SpanBoundaries, new_positions: Integers) -> SpanBoundaries:
    """The same boundaries in a row of tokens in which position p is now `new_positions[p]`."""
    moved = {
        item.name: new_positions[getattr(boundaries, item.name)]
        for item in fields(boundaries)
        if "into_row" in item.metadata
    }
    return replace(boundaries, **moved)


def join_examples(batches: Sequence[ExampleBatch]) -> ExampleBatch:
    """Several batches as one, in their order, no longer as streams. All must have the same groups."""
    if len(batches) == 1:
        return batches[0]
    row_starts = np.cumsum([0, *(len(batch.input_ids) for batch in batches[:-1])])
    return ExampleBatch(**{**_joined(batches, row_starts), "streams": 0})


def _joined(groups: Sequence[Any], row_starts: Integers) -> dict[str, Any]:
    joined: dict[str, Any] = {}
    for item in fields(groups[0]):
        values = [getattr(group, item.name) for group in groups]
        if "into_row" in item.metadata:
            values = [value + start for value, start in zip(values, row_starts, strict=True)]
        if isinstance(values[0], _GROUPS):
            joined[item.name] = type(values[0])(**_joined(values, row_starts))
        else:
            joined[item.name] = np.concatenate(values) if isinstance(values[0], np.ndarray) else values[0]
    return joined
