"""Who sees whom: what the tokens of a batch, and the places to be predicted, may attend to.

The content stream sees what the order allows and itself; the query stream sees what the order allows and not itself.
Memory is always seen and counts as segment 0.

Shapes: B sequences, T tokens of each, M memory, S keys (M + T), Q queries, K predicted places of each sequence.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

HIDDEN = -1e30
"""Added to the score of a key that must not be seen."""


@dataclass(frozen=True, kw_only=True)
class AttentionMask:
    """What the queries of a batch see, the same in every layer."""

    tokens: int
    """T, the tokens of a sequence without its memory."""
    hidden_B1QS: Tensor | None = None
    """0 where a key is seen, a large negative number where not; None: everything is seen."""
    other_segment_B1QS: Tensor | None = None
    """1 where a key is of another segment than the query; None: all are of one segment."""
    places_BQ: Tensor | None = None
    """Where each query stands in its sequence; None: query i at token i."""
    seeing_BQ1: Tensor | None = None
    """False for a query that sees nothing at all; None: each sees something."""
    backward_rows: int = 0
    """So many sequences, the last ones, are read from their end."""


def sight_of_tokens(
    tokens: int,
    *,
    visible_BTT: Tensor | None = None,
    segment_ids_BT: Tensor | None = None,
    past: int = 0,
    backward_rows: int = 0,
) -> AttentionMask:
    """Of the content stream; `past` is M."""
    hidden = None
    if visible_BTT is not None:
        itself = torch.eye(tokens, dtype=torch.bool, device=visible_BTT.device)
        hidden = _hide(visible_BTT | itself, past)
    other = None if segment_ids_BT is None else _other_segment(segment_ids_BT, segment_ids_BT, past)
    return AttentionMask(tokens=tokens, hidden_B1QS=hidden, other_segment_B1QS=other, backward_rows=backward_rows)


def sight_of_places(
    tokens: int,
    places_BK: Tensor,
    *,
    visible_BTT: Tensor,
    segment_ids_BT: Tensor | None = None,
    past: int = 0,
    backward_rows: int = 0,
) -> AttentionMask:
    """Of the query stream."""
    visible_BKT = visible_BTT.gather(1, places_BK[..., None].expand(-1, -1, tokens))
    other = None
    if segment_ids_BT is not None:
        other = _other_segment(segment_ids_BT.gather(1, places_BK), segment_ids_BT, past)
    seeing_BK1 = visible_BKT.any(-1, keepdim=True) if past == 0 else None
    return AttentionMask(
        tokens=tokens,
        hidden_B1QS=_hide(visible_BKT, past),
        other_segment_B1QS=other,
        places_BQ=places_BK,
        seeing_BQ1=seeing_BK1,
        backward_rows=backward_rows,
    )


def _hide(visible_BQT: Tensor, past: int) -> Tensor:
    """(B, 1, Q, S)."""
    hidden_BQT = torch.zeros(visible_BQT.shape, device=visible_BQT.device).masked_fill_(~visible_BQT, HIDDEN)
    return F.pad(hidden_BQT, (past, 0)).unsqueeze(1)


def _other_segment(asking_BQ: Tensor, segment_ids_BT: Tensor, past: int) -> Tensor:
    """(B, 1, Q, S)."""
    keys_BS = F.pad(segment_ids_BT, (past, 0))
    return (asking_BQ[:, :, None] != keys_BS[:, None, :]).float().unsqueeze(1)
