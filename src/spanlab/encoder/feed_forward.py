"""The position-wise network of a block: up, activation, down; or its gated variant.

The down projection is held here and applied by the block, which can add the residual in the same matrix product.
"""

import torch
from torch import Tensor, nn

from spanlab.encoder.layers import ACTIVATIONS, activate_in_place


class FeedForward(nn.Module):
    """D → I → D. With `gated`, the up projection yields a gate and a value, and their product goes down (GLU)."""

    def __init__(self, width: int, inner_width: int, activation: str, *, gated: bool = False) -> None:
        super().__init__()
        self.gated = gated
        self.up = nn.Linear(width, inner_width * (2 if gated else 1))
        self.down = nn.Linear(inner_width, width)
        self.activation = activation

    def forward(self, x_ND: Tensor) -> Tensor:
        """(…, D) in, (…, I) before the down projection out."""
        inner: Tensor = self.up(x_ND)
        if self.gated:
            gate, value = inner.chunk(2, dim=-1)
            return ACTIVATIONS[self.activation](gate) * value
        if torch.is_grad_enabled():
            return ACTIVATIONS[self.activation](inner)
        return activate_in_place(self.activation, inner)
