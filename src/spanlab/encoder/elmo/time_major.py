"""The order in which a recurrent network reads packed sequences: step by step, all sequences that still go on at once.

What enters are the lengths of sequences that lie one after the other; what leaves says where each step's tokens lie.

Shapes: B sequences, N tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class TimeMajor:
    """Packed tokens in the order of reading."""

    order_N: Tensor
    """The packed token at each place of the order: all first tokens, longest sequence first, then all second ones."""
    places_N: Tensor
    """The other way: the place in the order of each packed token."""
    rows_B: Tensor
    """The sequences, longest first."""
    sizes: tuple[int, ...]
    """How many sequences there are at each step."""


def time_major(lengths: Sequence[int], device: torch.device | str, *, backward: bool = False) -> TimeMajor:
    """The order for sequences of these lengths; `backward` begins with the last token of each."""
    lengths_B = torch.tensor(lengths)
    rows_B = torch.argsort(lengths_B, descending=True, stable=True)
    sorted_B = lengths_B[rows_B]
    starts_B = (torch.cumsum(lengths_B, 0) - lengths_B)[rows_B]
    steps_T = torch.arange(int(sorted_B[0]))
    going_TB = steps_T[:, None] < sorted_B
    offsets_TB = sorted_B - 1 - steps_T[:, None] if backward else steps_T[:, None].expand(-1, len(rows_B))
    order_N = (starts_B + offsets_TB)[going_TB]
    places_N = torch.empty_like(order_N)
    places_N[order_N] = torch.arange(len(order_N))
    sizes = tuple(going_TB.sum(dim=1).tolist())
    return TimeMajor(order_N.to(device), places_N.to(device), rows_B.to(device), sizes)
