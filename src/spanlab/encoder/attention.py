"""Multi-head self-attention over packed sequences.

Queries, keys and values come from one matrix product; how they attend to each other is `attention_paths`' affair.

Shapes: N tokens, D width, H heads, W width of a head.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from spanlab.encoder.attention_kernels import AttentionOutput, attend
from spanlab.encoder.cache import LayerCache
from spanlab.encoder.packing import Run
from spanlab.encoder.positions import rotate


@dataclass(frozen=True)
class LayerContext:
    """What attention must know of the batch, the same for every layer."""

    runs: Sequence[Run]
    rotary: tuple[Tensor, Tensor] | None = None
    """Cosine and sine of every token's position, where positions are rotary."""
    want_weights: bool = False
    prefixes: Sequence[int] | None = None
    """Of every sequence, how many first tokens are seen by all of it, where the others see only what came before."""
    cache: LayerCache | None = None
    """What the block kept of earlier tokens, where sequences go on."""


class SelfAttention(nn.Module):
    """Every token looks at the tokens of its own sequence."""

    def __init__(self, width: int, heads: int, *, dropout: float, causal: bool) -> None:
        super().__init__()
        self.heads, self.dropout, self.causal = heads, dropout, causal
        self.qkv = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)

    def forward(self, x_ND: Tensor, around: LayerContext, head_mask_H: Tensor | None = None) -> AttentionOutput:
        """(N, D) in; context (N, D) before the output projection, and the weights if they are wanted, out."""
        qkv_N3HW = self.qkv(x_ND).view(x_ND.shape[0], 3, self.heads, -1)
        if around.rotary is not None:
            q_NHW, k_NHW, v_NHW = qkv_N3HW.unbind(1)
            qkv_N3HW = torch.stack([rotate(q_NHW, *around.rotary), rotate(k_NHW, *around.rotary), v_NHW], dim=1)
        if around.cache is not None:
            around.cache.write(qkv_N3HW)
        if around.cache is not None and not around.cache.step.fresh:
            attended = AttentionOutput(around.cache.attend(qkv_N3HW[:, 0]))
        else:
            attended = attend(
                qkv_N3HW,
                around.runs,
                causal=self.causal,
                prefixes=around.prefixes,
                dropout_p=self.dropout if self.training else 0.0,
                want_weights=around.want_weights,
            )
        context_ND, weights = attended.context_ND, attended.weights
        if head_mask_H is not None:
            # Scaling a head's weights and scaling its context is the same, and this keeps the fast path.
            context_NHW = context_ND.view(x_ND.shape[0], self.heads, -1)
            context_ND = (context_NHW * head_mask_H[:, None].to(context_ND.dtype)).flatten(1)
            weights = weights and tuple(weight * head_mask_H[:, None, None] for weight in weights)
        return AttentionOutput(context_ND, weights)
