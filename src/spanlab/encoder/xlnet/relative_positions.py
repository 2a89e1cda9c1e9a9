"""Distances between tokens as vectors: the sinusoids of Transformer-XL, read forwards or backwards.

A query at place i and a key at place j of M + T (M of memory, T of the sequence itself) are M + i - j apart. The table
has a row for every distance that occurs, from M + T down to 1 - T, so that a query's keys are neighbouring rows.

Shapes: M memory, T tokens, S keys (M + T), R distances (S + T), D width.
"""

import torch
from torch import Tensor


def distance_table(
    keys: int, queries: int, width: int, *, max_distance: int | None, device: torch.device, backwards: bool = False
) -> Tensor:
    """(R, D): sines of every wavelength, then cosines.

    Args:
        keys: S.
        queries: T.
        width: D.
        max_distance: larger distances are clamped to it; None for no limit.
        device: where the table is made.
        backwards: for text that is read from its end: distances count the other way.
    """
    distance_R = torch.arange(keys, -queries, -1, dtype=torch.float32, device=device)
    if max_distance is not None:
        distance_R = distance_R.clamp(-max_distance, max_distance)
    frequency = 10_000.0 ** -(torch.arange(0, width, 2, dtype=torch.float32, device=device) / width)
    angle = (-distance_R if backwards else distance_R)[:, None] * frequency
    return torch.cat([angle.sin(), angle.cos()], dim=-1)
