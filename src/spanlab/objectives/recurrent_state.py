"""State that a model carries from one step of continuous streams to the next: XLNet's memory, ELMo's LSTM states.

`put` takes the state after the sequences of a batch, one row a sequence; `get` returns the rows that the next sequences
of the same streams start from. Rows belong to a stream, not to a batch or process, so a run can be resumed on another
number of processes. The rows of streams that are batched together stay in one tensor, which is returned as it is.
There is no state before the first step of a stream or after a gap, and no gradient flows through it.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from spanlab.arrays import Integers
from spanlab.errors import InputError

Rows = dict[str, Tensor]
"""Tensors by name, with a row for each stream of a group."""
_STEP = "step"


@dataclass(frozen=True)
class _State:
    next_step: int
    """The step that starts from it."""
    rows: Rows


class RecurrentState:
    """State by stream. Sample t·C + c is step t of stream c; without streams (C = 0) nothing is kept."""

    def __init__(self) -> None:
        self._groups: dict[tuple[int, ...], _State] = {}
        """By the streams that were last in one batch."""
        self._single: dict[int, _State] = {}
        """By stream, without the axis of streams: loaded from a checkpoint and not read yet (with several processes
        some never are), or left over from a group whose streams are now batched differently."""

    def get(self, indices: Integers, stream_count: int, device: torch.device) -> Rows | None:
        """The rows that the samples `indices` (B,) start from, in their order; None if there is no state for them."""
        if not stream_count:
            return None
        streams, step = _streams_and_step(indices, stream_count)
        if step and streams in self._groups:
            group = self._groups[streams]
            return group.rows if group.next_step == step else None
        states = [self._of_stream(stream) for stream in streams] if step else []
        rows = [state.rows for state in states if state is not None and state.next_step == step]
        if not rows or len(rows) < len(streams):
            return None
        return {name: torch.stack([row[name] for row in rows]).to(device) for name in rows[0]}

    def put(self, indices: Integers, stream_count: int, rows: Mapping[str, Tensor]) -> None:
        """Keep the state after the samples, one row each, in place of the earlier state of their streams."""
        if not stream_count:
            return
        streams, step = _streams_and_step(indices, stream_count)
        for group in [group for group in self._groups if group != streams and set(streams) & set(group)]:
            self._single.update({stream: self._of_group(group, stream) for stream in group})
            del self._groups[group]
        for stream in streams:
            self._single.pop(stream, None)
        self._groups[streams] = _State(step + 1, {name: row.detach() for name, row in rows.items()})

    def tensors(self) -> dict[str, Tensor]:
        """The state by `STREAM.NAME`, with the next step of each stream as `STREAM.step`."""
        grouped = {stream: self._of_group(group, stream) for group in self._groups for stream in group}
        return {
            f"{stream}.{name}": tensor.clone()
            for stream, state in sorted((grouped or self._single).items())
            for name, tensor in {**state.rows, _STEP: torch.tensor(state.next_step)}.items()
        }

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore what `tensors` returned, in this process or, merged, in several."""
        by_stream: dict[int, Rows] = defaultdict(dict)
        for key, tensor in tensors.items():
            stream, _, name = key.partition(".")
            by_stream[int(stream)][name] = tensor.clone()
        self._groups = {}
        self._single = {stream: _State(int(rows.pop(_STEP)), rows) for stream, rows in by_stream.items()}

    def _of_stream(self, stream: int) -> _State | None:
        """The state of one stream, without the axis of streams."""
        group = next((group for group in self._groups if stream in group), None)
        return self._single.get(stream) if group is None else self._of_group(group, stream)

    def _of_group(self, group: tuple[int, ...], stream: int) -> _State:
        state, row = self._groups[group], group.index(stream)
        return _State(state.next_step, {name: rows[row] for name, rows in state.rows.items()})


def _streams_and_step(indices: Integers, stream_count: int) -> tuple[tuple[int, ...], int]:
    """The stream of each sample, and the step, which all samples must share."""
    steps = set((indices // stream_count).tolist())
    if len(steps) != 1:
        raise InputError("all samples of a batch must be at the same step of their streams to carry recurrent state")
    return tuple((indices % stream_count).tolist()), steps.pop()
