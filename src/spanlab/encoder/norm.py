"""The two norms an encoder may use, by name."""

from typing import Literal

from torch import nn


def build_norm(kind: Literal["layer", "rms"], width: int, eps: float) -> nn.Module:
    """LayerNorm, or RMSNorm (no mean, no bias), over the last axis."""
    return nn.LayerNorm(width, eps=eps) if kind == "layer" else nn.RMSNorm(width, eps=eps)
