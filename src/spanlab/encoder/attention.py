"""Multi-head self-attention over packed sequences.

Queries, keys and values come from one matrix product; `attention_kernels` computes how they attend to each other.

Shapes: N tokens, D width, H heads, W width of a head; C sequences of a run, T their length.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from spanlab.encoder.attention_kernels import AttentionOutput, attend
from spanlab.encoder.cache import LayerCache
from spanlab.encoder.cross_attention import CrossContext
from spanlab.encoder.packing import Run
from spanlab.encoder.positions import RotaryAngles, rotate_


@dataclass(frozen=True)
class LayerContext:
    """Properties of the batch that attention needs, the same for every layer."""

    runs: Sequence[Run]
    rotary: RotaryAngles | None = None
    """Cosine and sine of every token's position, where positions are rotary."""
    local_rotary: RotaryAngles | None = None
    """The same for layers with local attention."""
    need_weights: bool = False
    prefixes: Sequence[int] | None = None
    """The number of first tokens of each sequence that all of its tokens see, in a causal encoder."""
    cache: LayerCache | None = None
    """The block's keys and values of earlier tokens, where sequences are continued."""
    cross: CrossContext | None = None
    """What the blocks of a decoder attend to beside their own sequence."""


class SelfAttention(nn.Module):
    """Every token attends to the tokens of its own sequence, or to those near it."""

    def __init__(
        self, width: int, heads: int, *, dropout: float, causal: bool, bias: bool = True, window: int | None = None
    ) -> None:
        """`window`: local attention, half of it to the left and half to the right; None: the whole sequence."""
        super().__init__()
        self.heads, self.dropout, self.causal = heads, dropout, causal
        self.reach = None if window is None else window // 2
        self.qkv = nn.Linear(width, 3 * width, bias=bias)
        self.output = nn.Linear(width, width, bias=bias)

    def forward(self, x_ND: Tensor, context: LayerContext, head_mask_H: Tensor | None = None) -> AttentionOutput:
        """(N, D) in and out, and the attention weights if they are needed."""
        mixed_ND, weights = self.mix(x_ND, context, head_mask_H)
        return AttentionOutput(self.output(mixed_ND), weights)

    def mix(self, x_ND: Tensor, context: LayerContext, head_mask_H: Tensor | None = None) -> AttentionOutput:
        """(N, D) the weighted sums of the values, before the output projection."""
        qkv_ND3 = self.qkv(x_ND)
        rotary = context.rotary if self.reach is None else context.local_rotary
        if rotary is not None:
            qkv_ND3 = rotate_(qkv_ND3, self.heads, rotary)
        qkv_N3HW = qkv_ND3.view(x_ND.shape[0], 3, self.heads, -1)
        if context.cache is not None:
            context.cache.write(qkv_N3HW)
        if context.cache is not None and not context.cache.step.is_first:
            mixed_ND, weights = context.cache.attend(qkv_N3HW[:, 0]), None
        else:
            mixed_ND, weights = attend(
                qkv_N3HW,
                context.runs,
                causal=self.causal,
                prefixes=context.prefixes,
                reach=self.reach,
                dropout_p=self.dropout if self.training else 0.0,
                need_weights=context.need_weights,
            )
        if head_mask_H is not None:
            # Scaling a head's output equals scaling its weights, and works with the fused kernels.
            mixed_NHW = mixed_ND.view(x_ND.shape[0], self.heads, -1)
            mixed_ND = (mixed_NHW * head_mask_H[:, None].to(mixed_ND.dtype)).flatten(1)
            weights = weights and tuple(weight * head_mask_H[:, None, None] for weight in weights)
        return AttentionOutput(mixed_ND, weights)
