"""One Transformer block: attention, then the feed-forward network, each with a residual and a norm.

`post` normalises after adding (BERT, GPT-1), `pre` before each part (GPT-2, ModernBERT). A block of a decoder attends,
between the two, to the hidden states of an encoder.
"""

from functools import partial

import torch
from torch import Tensor, nn

from spanlab.encoder.attention import LayerContext, SelfAttention
from spanlab.encoder.config import EncoderConfig
from spanlab.encoder.cross_attention import CrossAttention
from spanlab.encoder.feed_forward import FeedForward
from spanlab.encoder.layers import Dropout, add_linear, build_norm


class Block(nn.Module):
    """(N, D) in and out."""

    def __init__(self, config: EncoderConfig, layer: int = 0, *, memory_width: int | None = None) -> None:
        """`layer` counts from 0; it matters where layers are not all alike (ModernBERT).

        With `memory_width` the block attends to an encoder of that width, too.
        """
        super().__init__()
        self.attention = SelfAttention(
            config.width,
            config.heads,
            dropout=config.attention_dropout,
            causal=config.causal,
            bias=config.attention_bias,
            window=config.local_window if config.is_local(layer) else None,
        )
        norm = partial(build_norm, config.norm, config.width, config.norm_eps, bias=config.norm_bias)
        self.attention_norm = norm() if layer > 0 or config.first_attention_norm else nn.Identity()
        self.cross_attention: CrossAttention | None = None
        self.cross_attention_norm: nn.Module | None = None
        if memory_width is not None:
            self.cross_attention = CrossAttention(
                config.width, config.heads, memory_width=memory_width, dropout=config.attention_dropout
            )
            self.cross_attention_norm = norm()
        self.feed_forward = FeedForward(
            config.width,
            config.inner_width,
            config.activation,
            gated=config.feed_forward == "glu",
            bias=config.feed_forward_bias,
        )
        self.feed_forward_norm = norm()
        self.dropout = Dropout(config.dropout)
        self.pre_norm = config.norm_place == "pre"

    def forward(
        self, x_ND: Tensor, context: LayerContext, head_mask_H: Tensor | None = None, skip_chance: float = 0.0
    ) -> tuple[Tensor, tuple[Tensor, ...] | None]:
        """The new hidden states, and the attention weights of each run if they are needed.

        `skip_chance` is the chance, in training, that a sequence passes this block unchanged (stochastic depth).
        """
        fused = not (self.training or torch.is_grad_enabled() or torch.is_autocast_enabled(x_ND.device.type))
        keep_N1 = _draw_kept(x_ND, context, skip_chance) if self.training and skip_chance > 0.0 else None
        attention, feed_forward = self.attention, self.feed_forward

        input_ND = self.attention_norm(x_ND) if self.pre_norm else x_ND
        if fused:
            mixed_ND, weights = attention.mix(input_ND, context, head_mask_H)
            x_ND = add_linear(x_ND, mixed_ND, attention.output)
        else:
            change_ND, weights = attention(input_ND, context, head_mask_H)
            x_ND = self._add(x_ND, change_ND, keep_N1)
            del change_ND  # not needed by the backward pass: its memory is free for the feed-forward network
        x_ND = x_ND if self.pre_norm else self.attention_norm(x_ND)
        if self.cross_attention is not None:
            x_ND = self._attend_to_memory(x_ND, context)

        input_ND = self.feed_forward_norm(x_ND) if self.pre_norm else x_ND
        if fused:
            x_ND = add_linear(x_ND, feed_forward.inner(input_ND), feed_forward.down)
        else:
            x_ND = self._add(x_ND, feed_forward(input_ND), keep_N1)
        return x_ND if self.pre_norm else self.feed_forward_norm(x_ND), weights

    def _attend_to_memory(self, x_ND: Tensor, context: LayerContext) -> Tensor:
        assert self.cross_attention is not None
        assert self.cross_attention_norm is not None
        assert context.cross is not None, "a decoder's block needs a memory"
        input_ND = self.cross_attention_norm(x_ND) if self.pre_norm else x_ND
        x_ND = self._add(x_ND, self.cross_attention(input_ND, context.cross), None)
        return x_ND if self.pre_norm else self.cross_attention_norm(x_ND)

    def _add(self, x_ND: Tensor, change_ND: Tensor, keep_N1: Tensor | None) -> Tensor:
        """Residual connection: `x + change`, with dropout and stochastic depth on the change."""
        change_ND = self.dropout(change_ND)
        return x_ND + (change_ND if keep_N1 is None else change_ND * keep_N1)


def _draw_kept(x_ND: Tensor, context: LayerContext, skip_chance: float) -> Tensor:
    """(N, 1): 0 for the tokens of skipped sequences, 1 / (1 - skip_chance) for the others."""
    lengths = torch.tensor([run.length for run in context.runs for _ in range(run.count)], device=x_ND.device)
    keep_B = torch.rand(len(lengths), device=x_ND.device) >= skip_chance
    scale_B = keep_B.to(x_ND.dtype) / (1.0 - skip_chance)
    return torch.repeat_interleave(scale_B, lengths).unsqueeze(1)
