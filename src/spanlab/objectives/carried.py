"""What a model carries from one step of a continuous stream to the next.

What enters are the rows that the sequences of a batch leave behind; what leaves are the rows that the sequences of the
next batch begin with. Rows are kept by stream, each with the step it belongs to, so a batch may hold any of the
streams in any order, as micro-batches and processes do. A sequence that does not go on where its stream was left (the
first of an epoch, or after a gap) begins with zeros. What is carried is never differentiated through.

Shapes: B sequences of a batch, C streams.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from spanlab.corruption.example import Integers

_STEPS = "steps"


class CarriedState:
    """Named rows by stream. Sample t·C + c is step t of stream c; without streams (C = 0) nothing is carried."""

    def __init__(self) -> None:
        self._rows: dict[str, Tensor] = {}

    def begin(self, indices: Integers, columns: int, new: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """What each of the samples begins with; `new` are the rows (B, …) of those that go on with nothing."""
        if not columns or len(self._rows.get(_STEPS, ())) != columns:
            return dict(new)
        streams_B, steps_B = _places(indices, columns)
        goes_on_B = self._rows[_STEPS][streams_B] == steps_B
        begun = {}
        for name, zeros in new.items():
            kept = self._rows[name].to(zeros.device, zeros.dtype).index_select(0, streams_B.to(zeros.device))
            goes_on = goes_on_B.to(zeros.device).view(-1, *[1] * (zeros.dim() - 1))
            begun[name] = torch.where(goes_on, kept, zeros)
        return begun

    def keep(self, indices: Integers, columns: int, left: Mapping[str, Tensor]) -> None:
        """Keep what the samples leave behind for the next steps of their streams."""
        if not columns:
            return
        if len(self._rows.get(_STEPS, ())) != columns:
            self._rows = {name: rows.new_zeros(columns, *rows.shape[1:]) for name, rows in left.items()}
            self._rows[_STEPS] = torch.full((columns,), -1)
        streams_B, steps_B = _places(indices, columns)
        self._rows[_STEPS][streams_B] = steps_B + 1
        for name, rows in left.items():
            self._rows[name] = self._rows[name].to(rows.device, rows.dtype)
            self._rows[name][streams_B.to(rows.device)] = rows.detach()

    def tensors(self) -> dict[str, Tensor]:
        """All rows by name, and under `steps` the step that each stream is at; -1 where it was not read yet."""
        return {name: rows.clone() for name, rows in self._rows.items()}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on from what `tensors` returned."""
        self._rows = {name: rows.clone() for name, rows in tensors.items()}


def _places(indices: Integers, columns: int) -> tuple[Tensor, Tensor]:
    """(B,) the stream of each sample, and the step it is at."""
    indices_B = torch.from_numpy(indices)
    return indices_B % columns, indices_B // columns
