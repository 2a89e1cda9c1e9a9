"""What a model carries from one step of continuous streams to the next: XLNet's memory, the states of ELMo's LSTMs.

What enters are the rows that the sequences of a batch leave behind; what leaves are the rows that the next sequences of
the same streams begin with. Rows belong to a stream, whichever batch or process works on it, so that a run can be
restored by one that deals out its streams in another way. Streams that come together lie in one tensor, which is
handed on as it is. Nothing is carried into the first step of a stream, or over a gap, and nothing is differentiated
through.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from spanlab.arrays import Integers
from spanlab.errors import InputError

Rows = dict[str, Tensor]
"""By name, a row for each of the streams that lie together."""
_STEP = "step"


@dataclass(frozen=True)
class _Left:
    step: int
    """The step that goes on from it."""
    rows: Rows


class RecurrentState:
    """Rows by stream. Sample t·C + c is step t of stream c; without streams (C = 0) nothing is carried."""

    def __init__(self) -> None:
        self._left: dict[tuple[int, ...], _Left] = {}
        self._single: dict[int, _Left] = {}
        """Streams without their axis: of a saved state, until they are read (with several processes some never are), or
        left over from a group that is dealt out anew."""

    def begin(self, indices: Integers, columns: int, device: torch.device) -> Rows | None:
        """The rows that the samples `indices` (B,) begin with, in their order; None where they begin with nothing."""
        if not columns:
            return None
        streams, step = _places(indices, columns)
        if step and streams in self._left:
            left = self._left[streams]
            return left.rows if left.step == step else None
        found = [self._one(stream) for stream in streams] if step else []
        if not found or any(left is None or left.step != step for left in found):
            return None
        rows = [left.rows for left in found if left is not None]
        return {name: torch.stack([row[name] for row in rows]).to(device) for name in rows[0]}

    def keep(self, indices: Integers, columns: int, rows: Mapping[str, Tensor]) -> None:
        """Keep what the samples leave behind, row by row, in place of what was known of their streams."""
        if not columns:
            return
        streams, step = _places(indices, columns)
        for group in [group for group in self._left if group != streams and set(streams) & set(group)]:
            self._single.update({stream: self._of(group, stream) for stream in group})
            del self._left[group]
        for stream in streams:
            self._single.pop(stream, None)
        self._left[streams] = _Left(step + 1, {name: row.detach() for name, row in rows.items()})

    def tensors(self) -> dict[str, Tensor]:
        """All that is carried, by stream and name, and the step that each stream goes on with."""
        kept = {stream: self._of(group, stream) for group in self._left for stream in group}
        return {
            f"{stream}.{name}": tensor.clone()
            for stream, left in sorted((kept or self._single).items())
            for name, tensor in {**left.rows, _STEP: torch.tensor(left.step)}.items()
        }

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on from what `tensors` returned, here or in several processes."""
        found: dict[int, Rows] = defaultdict(dict)
        for name, tensor in tensors.items():
            stream, _, own = name.partition(".")
            found[int(stream)][own] = tensor.clone()
        self._left = {}
        self._single = {stream: _Left(int(rows.pop(_STEP)), rows) for stream, rows in found.items()}

    def _one(self, stream: int) -> _Left | None:
        """What one stream left, without the axis of streams."""
        group = next((group for group in self._left if stream in group), None)
        return self._single.get(stream) if group is None else self._of(group, stream)

    def _of(self, group: tuple[int, ...], stream: int) -> _Left:
        left, place = self._left[group], group.index(stream)
        return _Left(left.step, {name: rows[place] for name, rows in left.rows.items()})


def _places(indices: Integers, columns: int) -> tuple[tuple[int, ...], int]:
    """The stream of each sample, and the step that all are at."""
    steps = set((indices // columns).tolist())
    if len(steps) != 1:
        raise InputError("the examples of a batch must be at the same step of their streams, for something is carried")
    return tuple((indices % columns).tolist()), steps.pop()
