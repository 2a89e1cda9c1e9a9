"""One block of XLNet: attention and feed-forward network over the content stream and, with the same weights, the query
stream.

The content stream encodes every token. The query stream encodes the positions to be predicted, without their tokens; it
attends to the content stream, and nothing attends to it.

Shapes: N tokens, B sequences, T tokens of each, M memory, K predicted positions of each sequence, D width.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from spanlab.encoder.config import EncoderConfig
from spanlab.encoder.feed_forward import FeedForward
from spanlab.encoder.layers import Dropout
from spanlab.encoder.xlnet.relative_attention import RelativeAttention, RelativeContext


@dataclass(frozen=True)
class Streams:
    """The output of a block."""

    content_ND: Tensor | None
    """None where it is not needed any more."""
    query_BKD: Tensor | None = None
    weights: tuple[Tensor, ...] = ()
    """The content stream's attention weights of each run, if they are needed."""


class TwoStreamBlock(nn.Module):
    """Streams in and out."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.attention = RelativeAttention(config.width, config.heads, dropout=config.attention_dropout)
        self.attention_norm = nn.LayerNorm(config.width, eps=config.norm_eps)
        self.feed_forward = FeedForward(
            config.width, config.inner_width, config.activation, inner_dropout=config.dropout
        )
        self.feed_forward_norm = nn.LayerNorm(config.width, eps=config.norm_eps)
        self.dropout = Dropout(config.dropout)

    def forward(
        self,
        content_ND: Tensor,
        query_BKD: Tensor | None,
        memory_BMD: Tensor | None,
        context: RelativeContext,
        head_mask_H: Tensor | None = None,
        need_content: bool = True,
    ) -> Streams:
        """The streams after this block; the content stream only if it is needed."""
        attention = self.attention
        r_GRHW = attention.distances(context)
        mixed, weights = [], []
        mixed_BKD = None
        parts = torch.split(content_ND, [run.tokens for run in context.runs])
        for part, run, mask in zip(parts, context.runs, context.content, strict=True):
            x_BTD = part.view(run.count, run.length, -1)
            q_BTHW, kv = self._project(x_BTD, memory_BMD, need_content=need_content)
            if q_BTHW is not None:
                mixed_BTD, run_weights = attention.attend(q_BTHW, kv, r_GRHW, mask, need_weights=context.need_weights)
                mixed.append(mixed_BTD.flatten(0, 1))
                weights += [] if run_weights is None else [run_weights]
            if query_BKD is not None and context.query is not None:
                (q_BKHW,) = attention.project(query_BKD, 0, 1)
                mixed_BKD, _ = attention.attend(q_BKHW, kv, r_GRHW, context.query, need_weights=False)
        content = self._finish(content_ND, torch.cat(mixed), head_mask_H) if mixed else None
        query = None
        if query_BKD is not None and mixed_BKD is not None:
            query = self._finish(query_BKD, mixed_BKD, head_mask_H)
        return Streams(content, query, tuple(weights))

    def _project(
        self, x_BTD: Tensor, memory_BMD: Tensor | None, *, need_content: bool
    ) -> tuple[Tensor | None, tuple[Tensor, Tensor]]:
        """Queries, if the content stream is needed, and keys and values, those of the memory first."""
        q_BTHW = None
        if need_content:
            q_BTHW, k_BSHW, v_BSHW = self.attention.project(x_BTD, 0, 3)
        else:
            k_BSHW, v_BSHW = self.attention.project(x_BTD, 1, 3)
        if memory_BMD is not None:
            old_k, old_v = self.attention.project(memory_BMD.to(x_BTD.dtype), 1, 3)
            k_BSHW, v_BSHW = torch.cat([old_k, k_BSHW], dim=1), torch.cat([old_v, v_BSHW], dim=1)
        return q_BTHW, (k_BSHW, v_BSHW)

    def _finish(self, x: Tensor, mixed: Tensor, head_mask_H: Tensor | None) -> Tensor:
        """Residuals, norms and the feed-forward network, of either stream."""
        if head_mask_H is not None:
            by_head = mixed.view(*mixed.shape[:-1], self.attention.heads, -1)
            mixed = (by_head * head_mask_H[:, None].to(mixed.dtype)).flatten(-2)
        x = self.attention_norm(x + self.dropout(self.attention.output(mixed)))
        return self.feed_forward_norm(x + self.dropout(self.feed_forward(x)))  # type: ignore[no-any-return]
