"""Positions that are computed, not learned: the sinusoids of the original Transformer, and rotary angles.

Shapes: N tokens, H heads, W width of a head.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from spanlab.arrays import sinusoids

RotaryAngles = tuple[Tensor, Tensor]
"""Cosine and sine, each (N, 1, 1, W/2)."""


def sinusoid_table(length: int, width: int) -> Tensor:
    """(length, width): the sinusoids of each position."""
    if torch.get_default_device().type == "meta":  # only the shape is wanted, and torch takes seconds to prepare more
        return torch.empty(length, width)
    return torch.from_numpy(sinusoids(length, width))


def rotary_angles(position_ids_N: Tensor, head_width: int, base: float = 10_000.0) -> RotaryAngles:
    """Cosine and sine of the angle by which each position rotates each pair of a head's features."""
    exponent = torch.arange(0, head_width, 2, dtype=torch.float32, device=position_ids_N.device) / head_width
    angle = position_ids_N.float().unsqueeze(1) * (base**-exponent)
    return angle.cos()[:, None, None], angle.sin()[:, None, None]


def rotate_(qkv_ND3: Tensor, heads: int, angles: RotaryAngles) -> Tensor:
    """Rotate queries and keys by their positions, so that their product depends on the distance alone.

    (N, 3·D) in and out: queries, keys and values, changed in place, which a linear layer's output may be.
    """
    rotated: Tensor = _Rotation.apply(qkv_ND3, heads, *angles)  # type: ignore[no-untyped-call]
    return rotated


class _Rotation(torch.autograd.Function):
    """Its gradient is the rotation back, so nothing but the angles is kept for the backward pass."""

    @staticmethod
    def forward(ctx: Any, qkv_ND3: Tensor, heads: int, cosine: Tensor, sine: Tensor) -> Tensor:  # noqa: ANN401
        ctx.heads = heads
        ctx.save_for_backward(cosine, sine)
        ctx.mark_dirty(qkv_ND3)
        return _rotate_first_two(qkv_ND3, heads, cosine, sine)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient_ND3: Tensor) -> tuple[Tensor, None, None, None]:  # noqa: ANN401
        cosine, sine = ctx.saved_tensors
        return _rotate_first_two(gradient_ND3.clone(), ctx.heads, cosine, -sine), None, None, None


def _rotate_first_two(x_ND3: Tensor, heads: int, cosine: Tensor, sine: Tensor) -> Tensor:
    """Rotate the first two of three parts in place; a head's features i and i + W/2 are a pair."""
    x_N2HW = x_ND3.view(len(x_ND3), 3, heads, -1)[:, :2]
    first, second = x_N2HW.chunk(2, dim=-1)
    rotated = first * cosine - second * sine
    second.copy_(second * cosine + first * sine)
    first.copy_(rotated)
    return x_ND3
