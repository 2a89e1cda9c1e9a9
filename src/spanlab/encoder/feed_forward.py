"""The position-wise network of a block: up, activation, down; or its gated variant."""

import torch
from torch import Tensor, nn

from spanlab.encoder.layers import ACTIVATIONS, Dropout, activate_in_place


class FeedForward(nn.Module):
    """D → I → D. With `gated`, the up projection yields a gate and a value, and their product goes down (GLU)."""

    def __init__(
        self,
        width: int,
        inner_width: int,
        activation: str,
        *,
        gated: bool = False,
        bias: bool = True,
        inner_dropout: float = 0.0,
    ) -> None:
        """`inner_dropout` applies before the down projection, as in XLNet."""
        super().__init__()
        self.gated = gated
        self.up = nn.Linear(width, inner_width * (2 if gated else 1), bias=bias)
        self.down = nn.Linear(inner_width, width, bias=bias)
        self.activation = activation
        self.dropout = Dropout(inner_dropout)

    def forward(self, x_ND: Tensor) -> Tensor:
        """(…, D) in and out."""
        return self.down(self.inner(x_ND))  # type: ignore[no-any-return]

    def inner(self, x_ND: Tensor) -> Tensor:
        """(…, I): what the down projection is applied to."""
        inner: Tensor = self.up(x_ND)
        if self.gated:
            gate, value = inner.chunk(2, dim=-1)
            inner = ACTIVATIONS[self.activation](gate) * value
        elif torch.is_grad_enabled():
            inner = ACTIVATIONS[self.activation](inner)
        else:
            inner = activate_in_place(self.activation, inner)
        return self.dropout(inner)  # type: ignore[no-any-return]
