"""State that is kept from one step of continuous streams to the next: XLNet's memory, the states of ELMo's LSTMs.

After a step the rows of its sequences are stored; the next sequences of the same streams start from them. Rows belong
to a stream, not to a batch or process, so that a run can be resumed with another number of processes. Streams that are
batched together share one tensor, which is passed on without a copy. The first step of a stream, or one after a gap,
starts without state. No gradient flows through the state.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from spanlab.arrays import Integers
from spanlab.errors import InputError

Rows = dict[str, Tensor]
"""By name, a tensor with a row for each stream of a batch."""
_STEP = "step"


@dataclass(frozen=True)
class _State:
    step: int
    """The step that continues from it."""
    rows: Rows


class RecurrentState:
    """Rows by stream. Sample t·C + c is step t of stream c; without streams (C = 0) there is no state."""

    def __init__(self) -> None:
        self._groups: dict[tuple[int, ...], _State] = {}
        self._single: dict[int, _State] = {}
        """Rows of single streams, without the axis of streams: of a saved state until first used, or of a group that
        was split up."""

    def begin(self, indices: Integers, stream_count: int, device: torch.device) -> Rows | None:
        """The rows from which the samples `indices` (B,) start, in their order; None: they start without state."""
        if not stream_count:
            return None
        streams, step = _streams_and_step(indices, stream_count)
        if step and streams in self._groups:
            state = self._groups[streams]
            return state.rows if state.step == step else None
        states = [self._of_stream(stream) for stream in streams] if step else []
        if not states or any(state is None or state.step != step for state in states):
            return None
        rows = [state.rows for state in states if state is not None]
        return {name: torch.stack([row[name] for row in rows]).to(device) for name in rows[0]}

    def keep(self, indices: Integers, stream_count: int, rows: Mapping[str, Tensor]) -> None:
        """Store the rows after the samples `indices` (B,), replacing those of their streams."""
        if not stream_count:
            return
        streams, step = _streams_and_step(indices, stream_count)
        for group in [group for group in self._groups if group != streams and set(streams) & set(group)]:
            self._single.update({stream: self._member(group, stream) for stream in group})
            del self._groups[group]
        for stream in streams:
            self._single.pop(stream, None)
        self._groups[streams] = _State(step + 1, {name: row.detach() for name, row in rows.items()})

    def tensors(self) -> dict[str, Tensor]:
        """All rows by stream and name, and the step with which each stream continues."""
        kept = {stream: self._member(group, stream) for group in self._groups for stream in group}
        return {
            f"{stream}.{name}": tensor.clone()
            for stream, state in sorted((kept or self._single).items())
            for name, tensor in {**state.rows, _STEP: torch.tensor(state.step)}.items()
        }

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore what `tensors` returned, in this process or in several."""
        by_stream: dict[int, Rows] = defaultdict(dict)
        for name, tensor in tensors.items():
            stream, _, row_name = name.partition(".")
            by_stream[int(stream)][row_name] = tensor.clone()
        self._groups = {}
        self._single = {stream: _State(int(rows.pop(_STEP)), rows) for stream, rows in by_stream.items()}

    def _of_stream(self, stream: int) -> _State | None:
        """The state of one stream, without the axis of streams."""
        group = next((group for group in self._groups if stream in group), None)
        return self._single.get(stream) if group is None else self._member(group, stream)

    def _member(self, group: tuple[int, ...], stream: int) -> _State:
        state, row = self._groups[group], group.index(stream)
        return _State(state.step, {name: rows[row] for name, rows in state.rows.items()})


def _streams_and_step(indices: Integers, stream_count: int) -> tuple[tuple[int, ...], int]:
    """The stream of each sample, and the step of all of them."""
    steps = set((indices // stream_count).tolist())
    if len(steps) != 1:
        raise InputError("the examples of a batch must be at the same step of their streams, which have a state")
    return tuple((indices % stream_count).tolist()), steps.pop()
