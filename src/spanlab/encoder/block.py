"""One Transformer block: attention, then the feed-forward network, each with a residual and a norm.

`post` normalises after adding (BERT, GPT-1), `pre` before each part (GPT-2).
"""

import torch
from torch import Tensor, nn

from spanlab.encoder.attention import LayerContext, SelfAttention
from spanlab.encoder.config import EncoderConfig
from spanlab.encoder.feed_forward import FeedForward
from spanlab.encoder.layers import Dropout, build_norm


class Block(nn.Module):
    """(N, D) in and out."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.attention = SelfAttention(
            config.width, config.heads, dropout=config.attention_dropout, causal=config.causal
        )
        self.attention_norm = build_norm(config.norm, config.width, config.norm_eps)
        gated = config.feed_forward == "glu"
        self.feed_forward = FeedForward(config.width, config.inner_width, config.activation, gated=gated)
        self.feed_forward_norm = build_norm(config.norm, config.width, config.norm_eps)
        self.dropout = Dropout(config.dropout)
        self.pre_norm = config.norm_place == "pre"

    def forward(
        self, x_ND: Tensor, around: LayerContext, head_mask_H: Tensor | None = None, skip_chance: float = 0.0
    ) -> tuple[Tensor, tuple[Tensor, ...] | None]:
        """The new hidden states, and the attention weights of each run if they are wanted.

        `skip_chance` is the chance, in training, that a sequence passes this block unchanged (stochastic depth).
        """
        passes_N1 = _draw_passes(x_ND, around, skip_chance) if self.training and skip_chance > 0.0 else None
        attended = self.attention(self.attention_norm(x_ND) if self.pre_norm else x_ND, around, head_mask_H)
        x_ND = self._add(x_ND, attended.context_ND, self.attention.output, passes_N1)
        x_ND = x_ND if self.pre_norm else self.attention_norm(x_ND)
        inner_NI = self.feed_forward(self.feed_forward_norm(x_ND) if self.pre_norm else x_ND)
        x_ND = self._add(x_ND, inner_NI, self.feed_forward.down, passes_N1)
        return x_ND if self.pre_norm else self.feed_forward_norm(x_ND), attended.weights

    def _add(self, x_ND: Tensor, inner: Tensor, projection: nn.Linear, passes_N1: Tensor | None) -> Tensor:
        """The residual and the projection of what a part computed, with dropout and stochastic depth on the latter."""
        if not self.training and not torch.is_grad_enabled() and not torch.is_autocast_enabled(x_ND.device.type):
            # One pass over memory less: the matrix product adds onto the residual.
            return torch.add(x_ND, projection.bias).addmm_(inner, projection.weight.t())
        change_ND: Tensor = self.dropout(projection(inner))
        return x_ND + (change_ND if passes_N1 is None else change_ND * passes_N1)


def _draw_passes(x_ND: Tensor, around: LayerContext, skip_chance: float) -> Tensor:
    """(N, 1): 0 for the tokens of skipped sequences, and what keeps the expectation for the others."""
    lengths = torch.tensor([run.length for run in around.runs for _ in range(run.count)], device=x_ND.device)
    keep_B = torch.rand(len(lengths), device=x_ND.device) >= skip_chance
    passes_B = keep_B.to(x_ND.dtype) / (1.0 - skip_chance)
    return torch.repeat_interleave(passes_B, lengths).unsqueeze(1)
