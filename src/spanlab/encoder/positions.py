"""Positions that are computed, not learned: the sinusoids of the original Transformer, and rotary angles.

Shapes: N tokens, H heads, W width of a head.
"""

import math

import torch
from torch import Tensor


def sinusoid_table(length: int, width: int) -> Tensor:
    """(length, width): sines in the even columns, cosines in the odd ones, wavelengths from 2π to 10,000·2π."""
    position = torch.arange(length, dtype=torch.float64).unsqueeze(1)
    frequency = torch.exp(torch.arange(0, width, 2, dtype=torch.float64) * (-math.log(10_000.0) / width))
    table = torch.zeros(length, width, dtype=torch.float64)
    table[:, 0::2] = torch.sin(position * frequency)
    table[:, 1::2] = torch.cos(position * frequency)[:, : width // 2]
    return table.float()


def rotary_angles(position_ids_N: Tensor, head_width: int) -> tuple[Tensor, Tensor]:
    """Cosine and sine, each (N, 1, W), of the angle by which each position rotates each pair of a head's features."""
    exponent = torch.arange(0, head_width, 2, dtype=torch.float32, device=position_ids_N.device) / head_width
    angle = position_ids_N.float().unsqueeze(1) * (10_000.0**-exponent)
    angle = torch.cat([angle, angle], dim=-1).unsqueeze(1)
    return angle.cos(), angle.sin()


def rotate(x_NHW: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Rotate queries or keys by their positions, so that their product depends on the distance alone."""
    first, second = x_NHW.chunk(2, dim=-1)
    swapped = torch.cat([-second, first], dim=-1)
    return (x_NHW * cosine + swapped * sine).to(x_NHW.dtype)
