"""A batch of training examples: the output of corruption and the input of the objectives.

Batches are packed: N tokens of B sequences one after the other, special tokens included, no padding. K tokens are
predicted. Positions are indices into the N tokens, so they index an encoder's packed output directly.

`ExampleBatch` has the fields that all objectives use; those of single objectives are in groups that may be None. The
classes are generic in the array type: numpy arrays in this package, tensors in `objectives.batch`.
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

_POSITIONS = {"positions": True}
"""Metadata of fields that hold positions in the packed batch."""


@dataclass(frozen=True, kw_only=True)
class SpanBoundaries(Generic[Array]):
    """The S masked tokens with a span boundary target: those of spans with a token on both sides in their block."""

    positions: Array = field(metadata=_POSITIONS)
    """(S,)"""
    targets: Array
    """(S,) the original ids."""
    left: Array = field(metadata=_POSITIONS)
    """(S,) the position before the span."""
    right: Array = field(metadata=_POSITIONS)
    """(S,) the position after the span."""
    first: Array = field(metadata=_POSITIONS)
    """(S,) the first position of the span."""
    last: Array = field(metadata=_POSITIONS)
    """(S,) the last position of the span."""
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
    """The order in which tokens are predicted (XLNet). All sequences have the same length, and nothing is masked."""

    rank: Array
    """(N,)"""
    visible_below: Array
    """(N,) token i sees token j of the same sequence if rank[j] < visible_below[i]."""
    backward: Array
    """(B,) whether the text is read from right to left."""


@dataclass(frozen=True, kw_only=True)
class ExampleBatch(Generic[Array]):
    """A packed batch of inputs and their targets."""

    indices: Array
    """(B,) sample indices."""
    input_ids: Array
    """(N,) the input of the encoder: corrupted, with special tokens."""
    original_ids: Array
    """(N,) the ids before corruption; at the mask of a collapsed span, its first id."""
    lengths: Array
    """(B,) tokens of each sequence, special tokens included."""
    positions: Array = field(metadata=_POSITIONS)
    """(K,) the tokens to predict, ascending; the mask of a collapsed span, once for each token of the span."""
    targets: Array
    """(K,) their original ids."""
    offsets: Array | None = None
    """(K,) the index of each token in the collapsed span that its position stands for; None: no span is collapsed."""
    boundaries: SpanBoundaries[Array] | None = None
    pairs: SentencePairs[Array] | None = None
    order: PredictionOrder[Array] | None = None
    sampling_uniforms: Array | None = None
    """(K,) random numbers in [0, 1), with which ELECTRA's generator samples a token per position."""
    streams: int = 0
    """C, if samples are steps of C continuous streams: sample t·C + c is step t of stream c. 0: independent samples."""


_GROUPS = (SpanBoundaries, SentencePairs, PredictionOrder)


def map_arrays(group: Any, change: Callable[[NDArray[Any]], Any]) -> dict[str, Any]:  # noqa: ANN401 (any group)
    """The fields of a batch or group by name, with `change` applied to every array."""
    changed = {}
    for field_ in fields(group):
        value = getattr(group, field_.name)
        if isinstance(value, _GROUPS):
            value = type(value)(**map_arrays(value, change))
        changed[field_.name] = change(value) if isinstance(value, np.ndarray) else value
    return changed


def named_arrays(group: Any, prefix: str = "") -> Iterator[tuple[str, NDArray[Any]]]:  # noqa: ANN401 (any group)
    """(name, array) for every array of a batch; arrays of a group have names such as `boundaries.left`."""
    for field_ in fields(group):
        value = getattr(group, field_.name)
        if isinstance(value, _GROUPS):
            yield from named_arrays(value, f"{prefix}{field_.name}.")
        elif isinstance(value, np.ndarray):
            yield prefix + field_.name, value


def move_positions(boundaries: SpanBoundaries, new_positions: Integers) -> SpanBoundaries:
    """The boundaries after position p has become `new_positions[p]`."""
    moved = {
        field_.name: new_positions[getattr(boundaries, field_.name)]
        for field_ in fields(boundaries)
        if "positions" in field_.metadata
    }
    return replace(boundaries, **moved)


def join_examples(batches: Sequence[ExampleBatch]) -> ExampleBatch:
    """Concatenate batches with the same groups; the result is not a batch of streams."""
    if len(batches) == 1:
        return batches[0]
    offsets = np.cumsum([0, *(len(batch.input_ids) for batch in batches[:-1])])
    return ExampleBatch(**{**_joined(batches, offsets), "streams": 0})


def _joined(groups: Sequence[Any], offsets: Integers) -> dict[str, Any]:
    joined: dict[str, Any] = {}
    for field_ in fields(groups[0]):
        values = [getattr(group, field_.name) for group in groups]
        if "positions" in field_.metadata:
            values = [value + start for value, start in zip(values, offsets, strict=True)]
        if isinstance(values[0], _GROUPS):
            joined[field_.name] = type(values[0])(**_joined(values, offsets))
        else:
            joined[field_.name] = np.concatenate(values) if isinstance(values[0], np.ndarray) else values[0]
    return joined
