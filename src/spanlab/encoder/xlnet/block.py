"""One block of XLNet: attention and feed-forward network over the content stream and, with the same weights, the query
stream.

The content stream holds what stands at every token. The query stream holds, for the places to be predicted and no
others, what can be known of a place without its token; it reads the content stream and nobody reads it.

Shapes: N tokens, B sequences, T tokens of each, M memory, K predicted places of each sequence, D width.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from spanlab.encoder.config import EncoderConfig
from spanlab.encoder.feed_forward import FeedForward
from spanlab.encoder.layers import Dropout
from spanlab.encoder.xlnet.relative_attention import LayerContext, RelativeAttention


@dataclass(frozen=True)
class Streams:
    """What goes into a block and comes out of it."""

    content_ND: Tensor | None
    """None once nobody needs it any more."""
    query_BKD: Tensor | None = None
    weights: tuple[Tensor, ...] = ()
    """The content stream's attention of each run, if it was asked for."""


class TwoStreamBlock(nn.Module):
    """Streams in and out."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.attention = RelativeAttention(config.width, config.heads, dropout=config.attention_dropout)
        self.attention_norm = nn.LayerNorm(config.width, eps=config.norm_eps)
        self.feed_forward = FeedForward(config.width, config.inner_width, config.activation)
        self.feed_forward_norm = nn.LayerNorm(config.width, eps=config.norm_eps)
        self.dropout = Dropout(config.dropout)

    def forward(
        self,
        content_ND: Tensor,
        query_BKD: Tensor | None,
        memory_BMD: Tensor | None,
        around: LayerContext,
        head_mask_H: Tensor | None = None,
        want_content: bool = True,
    ) -> Streams:
        """The streams after this block; the content stream is left out unless it is wanted."""
        attention = self.attention
        r_GRHW = attention.distances(around)
        contexts, weights = [], []
        mixed_BKD = None
        parts = torch.split(content_ND, [run.tokens for run in around.runs])
        for part, run, sight in zip(parts, around.runs, around.content, strict=True):
            x_BTD = part.view(run.count, run.length, -1)
            q_BTHW, kv = self._project(x_BTD, memory_BMD, want_content=want_content)
            if q_BTHW is not None:
                context, seen = attention.attend(q_BTHW, kv, r_GRHW, sight, want_weights=around.want_weights)
                contexts.append(context.flatten(0, 1))
                weights += [] if seen is None else [seen]
            if query_BKD is not None and around.query is not None:
                (q_BKHW,) = attention.heads_of(query_BKD, 0, 1)
                mixed_BKD, _ = attention.attend(q_BKHW, kv, r_GRHW, around.query, want_weights=False)
        content = self._finish(content_ND, torch.cat(contexts), head_mask_H) if contexts else None
        query = None
        if query_BKD is not None and mixed_BKD is not None:
            query = self._finish(query_BKD, mixed_BKD, head_mask_H)
        return Streams(content, query, tuple(weights))

    def _project(
        self, x_BTD: Tensor, memory_BMD: Tensor | None, *, want_content: bool
    ) -> tuple[Tensor | None, tuple[Tensor, Tensor]]:
        """Queries, if the content stream is wanted, and keys and values, those of the memory before the others."""
        q_BTHW = None
        if want_content:
            q_BTHW, k_BSHW, v_BSHW = self.attention.heads_of(x_BTD, 0, 3)
        else:
            k_BSHW, v_BSHW = self.attention.heads_of(x_BTD, 1, 3)
        if memory_BMD is not None:
            old_k, old_v = self.attention.heads_of(memory_BMD.to(x_BTD.dtype), 1, 3)
            k_BSHW, v_BSHW = torch.cat([old_k, k_BSHW], dim=1), torch.cat([old_v, v_BSHW], dim=1)
        return q_BTHW, (k_BSHW, v_BSHW)

    def _finish(self, x: Tensor, context: Tensor, head_mask_H: Tensor | None) -> Tensor:
        """Residuals, norms and the feed-forward network, on whichever stream."""
        if head_mask_H is not None:
            by_head = context.view(*context.shape[:-1], self.attention.heads, -1)
            context = (by_head * head_mask_H[:, None].to(context.dtype)).flatten(-2)
        x = self.attention_norm(x + self.dropout(self.attention.output(context)))
        inner: Tensor = self.dropout(self.feed_forward(x))
        return self.feed_forward_norm(x + self.dropout(self.feed_forward.down(inner)))  # type: ignore[no-any-return]
