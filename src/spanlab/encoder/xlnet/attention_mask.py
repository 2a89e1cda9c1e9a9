"""Attention masks of XLNet's two streams: an order of prediction and segments in, additive masks out.

In the content stream a token attends to what the order allows and to itself, in the query stream not to itself.
Memory is always visible and counts as segment 0.

Shapes: B sequences, T tokens of each, M memory, S keys (M + T), Q queries, K predicted positions of each sequence.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

MASKED = -1e30
"""Added to the score of a masked key."""


@dataclass(frozen=True, kw_only=True)
class AttentionMask:
    """What the queries of a batch attend to, the same in every layer."""

    tokens: int
    """T, the tokens of a sequence without its memory."""
    bias_B1QS: Tensor | None = None
    """0 where a key is visible, a large negative number where it is masked; None: everything is visible."""
    other_segment_B1QS: Tensor | None = None
    """1 where a key is in another segment than the query; None: there is one segment."""
    positions_BQ: Tensor | None = None
    """The position of each query in its sequence; None: query i is token i."""
    sees_any_BQ1: Tensor | None = None
    """False for a query that attends to nothing; None: each attends to something."""
    backward_rows: int = 0
    """How many sequences, the last of the batch, are read from their end."""


def content_mask(
    tokens: int,
    *,
    visible_BTT: Tensor | None = None,
    segment_ids_BT: Tensor | None = None,
    past: int = 0,
    backward_rows: int = 0,
) -> AttentionMask:
    """The mask of the content stream; `past` is M."""
    bias = None
    if visible_BTT is not None:
        itself = torch.eye(tokens, dtype=torch.bool, device=visible_BTT.device)
        bias = _mask_bias(visible_BTT | itself, past)
    other = None if segment_ids_BT is None else _other_segment(segment_ids_BT, segment_ids_BT, past)
    return AttentionMask(tokens=tokens, bias_B1QS=bias, other_segment_B1QS=other, backward_rows=backward_rows)


def query_mask(
    tokens: int,
    positions_BK: Tensor,
    *,
    visible_BTT: Tensor,
    segment_ids_BT: Tensor | None = None,
    past: int = 0,
    backward_rows: int = 0,
) -> AttentionMask:
    """The mask of the query stream."""
    visible_BKT = visible_BTT.gather(1, positions_BK[..., None].expand(-1, -1, tokens))
    other = None
    if segment_ids_BT is not None:
        other = _other_segment(segment_ids_BT.gather(1, positions_BK), segment_ids_BT, past)
    sees_any_BK1 = visible_BKT.any(-1, keepdim=True) if past == 0 else None
    return AttentionMask(
        tokens=tokens,
        bias_B1QS=_mask_bias(visible_BKT, past),
        other_segment_B1QS=other,
        positions_BQ=positions_BK,
        sees_any_BQ1=sees_any_BK1,
        backward_rows=backward_rows,
    )


def _mask_bias(visible_BQT: Tensor, past: int) -> Tensor:
    """(B, 1, Q, S)."""
    bias_BQT = torch.zeros(visible_BQT.shape, device=visible_BQT.device).masked_fill_(~visible_BQT, MASKED)
    return F.pad(bias_BQT, (past, 0)).unsqueeze(1)


def _other_segment(query_segments_BQ: Tensor, segment_ids_BT: Tensor, past: int) -> Tensor:
    """(B, 1, Q, S)."""
    keys_BS = F.pad(segment_ids_BT, (past, 0))
    return (query_segments_BQ[:, :, None] != keys_BS[:, None, :]).float().unsqueeze(1)
