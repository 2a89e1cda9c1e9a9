"""What an encoder remembers of each stream between one step and the next.

Memory belongs to a column of the corpus, whichever batch or process works on it, so that it can be saved, and restored
by a run that deals out the columns in another way.

Shapes: L layers, B columns of a batch, M memory, D width.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from spanlab.errors import InputError


class StreamMemory:
    """Memory by column; columns that came in one batch lie in one tensor."""

    def __init__(self) -> None:
        self._groups: dict[tuple[int, ...], Tensor] = {}

    def recall(self, columns: Sequence[int], steps: Sequence[int]) -> Tensor | None:
        """(L, B, M, D) of these columns; None at the beginning of the streams, or where nothing is known of them."""
        if len(set(steps)) != 1:
            raise InputError("the examples of a batch with memory must be at the same step of their streams")
        if steps[0] == 0:
            return None
        if tuple(columns) in self._groups:
            return self._groups[tuple(columns)]
        known = [self._column(column) for column in columns]
        there = [memory for memory in known if memory is not None]
        return torch.stack(there, dim=1) if len(there) == len(known) else None

    def keep(self, columns: Sequence[int], memory_LBMD: Tensor) -> None:
        """Put the memory of these columns in place of what was known of them."""
        fresh = set(columns)
        self._groups = {
            group: memory
            for group, memory in self._groups.items()
            if group != tuple(columns) and not fresh & set(group)
        } | {tuple(columns): memory_LBMD}

    def state(self) -> dict[str, Tensor]:
        """By column, to be saved."""
        return {
            f"memory.{column}": memory_LBMD[:, place].contiguous()
            for group, memory_LBMD in self._groups.items()
            for place, column in enumerate(group)
        }

    def load(self, state: Mapping[str, Tensor]) -> None:
        """What `state` gave."""
        self._groups = {(int(name.removeprefix("memory.")),): memory.unsqueeze(1) for name, memory in state.items()}

    def _column(self, column: int) -> Tensor | None:
        found = (memory[:, group.index(column)] for group, memory in self._groups.items() if column in group)
        return next(found, None)
