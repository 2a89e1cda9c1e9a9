"""From the user's batch to one flat token axis without padding, and back.

Every layer of the encoder works on N tokens in a row, whatever the layout of the batch: padding is removed on the way
in and restored, as zeros, on the way out. Sequences are sorted by length, so that those of equal length are adjacent
and attend in one batched call. A batch without padding is already flat and is not copied.

Shapes: B sequences, T padded length, N tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor

from spanlab.errors import InputError


@dataclass(frozen=True)
class Run:
    """`count` adjacent sequences of `length` tokens each on the flat axis."""

    count: int
    length: int

    @property
    def tokens(self) -> int:
        """The length of the run on the flat axis."""
        return self.count * self.length


@dataclass(frozen=True)
class Packing:
    """The layout of a batch on the flat axis."""

    shape: tuple[int, ...]
    """The user's layout: (B, T) padded or (N,) packed."""
    runs: tuple[Run, ...]
    order_B: Tensor | None
    """The index in the batch of each sequence on the flat axis; None: the same order."""
    source_N: Tensor | None
    """The index of each flat token in the user's layout, flattened; None: the same."""

    @property
    def sequence_lengths(self) -> list[int]:
        """The length of each sequence in the order of the flat axis."""
        return [run.length for run in self.runs for _ in range(run.count)]

    def flatten(self, x: Tensor) -> Tensor:
        """(B, T, …) or (N, …) as the user gave it → (N, …) on the flat axis."""
        x = x.reshape(-1, *x.shape[len(self.shape) :])
        return x if self.source_N is None else x.index_select(0, self.source_N)

    def restore(self, x_ND: Tensor) -> Tensor:
        """(N, D) on the flat axis → the user's layout, zero where there is padding."""
        if self.source_N is not None:
            rows = torch.Size(self.shape).numel()
            x_ND = x_ND.new_zeros(rows, *x_ND.shape[1:]).index_copy_(0, self.source_N, x_ND)
        return x_ND.view(*self.shape, *x_ND.shape[1:])

    def first_tokens(self, device: torch.device) -> Tensor:
        """(B,) the index of each sequence's first token on the flat axis, in the user's order of sequences."""
        lengths = torch.tensor(self.sequence_lengths, device=device)
        return self._unsorted(torch.cumsum(lengths, 0) - lengths)

    def last_tokens(self, device: torch.device) -> Tensor:
        """(B,) the index of each sequence's last token on the flat axis, in the user's order of sequences."""
        return self._unsorted(torch.cumsum(torch.tensor(self.sequence_lengths, device=device), 0) - 1)

    def _unsorted(self, x_B: Tensor) -> Tensor:
        return x_B if self.order_B is None else x_B[torch.argsort(self.order_B)]


def pack(mask_BT: Tensor) -> Packing:
    """The packing of a padded batch; `mask_BT` is true where there is a token."""
    batch, width = mask_BT.shape
    lengths = mask_BT.sum(dim=1).tolist()
    if min(lengths, default=0) == width:
        return Packing((batch, width), (Run(batch, width),), None, None)
    runs, order_B = _runs_by_length(lengths, mask_BT.device)
    row, column = mask_BT[order_B].nonzero(as_tuple=True)
    return Packing((batch, width), runs, order_B, order_B[row] * width + column)


def pack_lengths(total: int, lengths_B: Tensor) -> Packing:
    """The packing of a batch that is packed already, its sequences one after the other."""
    lengths = lengths_B.tolist()
    if sum(lengths) != total:
        raise InputError(f"lengths add up to {sum(lengths)}, but there are {total} tokens")
    if len(set(lengths)) == 1:
        return Packing((total,), (Run(len(lengths), lengths[0]),), None, None)
    runs, order_B = _runs_by_length(lengths, lengths_B.device)
    starts_B = (torch.cumsum(lengths_B, 0) - lengths_B)[order_B]
    sorted_B = lengths_B[order_B]
    offset_N = torch.arange(total, device=lengths_B.device)
    offset_N = offset_N - torch.repeat_interleave(torch.cumsum(sorted_B, 0) - sorted_B, sorted_B)
    return Packing((total,), runs, order_B, torch.repeat_interleave(starts_B, sorted_B) + offset_N)


def _runs_by_length(lengths: Sequence[int], device: torch.device) -> tuple[tuple[Run, ...], Tensor]:
    if not lengths or min(lengths) < 1:
        empty = lengths.index(0) if lengths else 0
        raise InputError(f"sequence {empty} of the batch has no token", fix="remove it")
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    runs = tuple(Run(len(list(same)), length) for length, same in groupby(lengths[index] for index in order))
    return runs, torch.tensor(order, device=device)
