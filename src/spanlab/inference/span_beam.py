"""The best filling of a whole run of masks, which is not the row of each mask's best token.

The law: places are filled from left to right, and the text is encoded anew with what is filled in, so that every token
is chosen in sight of those before it. By the chain rule this gives every filling one log probability, the sum of its
tokens' own; a beam search keeps the best few at every place. Another order would give another distribution; left to
right is the one in which all fillings of a beam have the same places filled and can be compared.

Shapes: B fillings in the beam, T tokens of a row, V vocabulary.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from spanlab.inference.masked_text import Span

NextToken = Callable[[Tensor, Span], Tensor]
"""(B, V) log probabilities of the first place of a span that is still masked, given rows (B, T)."""


@dataclass(frozen=True, kw_only=True)
class TokenFilling:
    """Tokens for a run, and how likely each was when it was chosen."""

    ids: tuple[int, ...]
    log_probabilities: tuple[float, ...]

    @property
    def score(self) -> float:
        """The mean log probability of a token."""
        return sum(self.log_probabilities) / len(self.log_probabilities)


def fill_jointly(
    row_T: Tensor, span: Span, next_token: NextToken, allowed_V: Tensor, *, width: int
) -> list[TokenFilling]:
    """Fillings of a masked span of a row, the best first, at most `width`; only `allowed_V` tokens are put in."""
    rows_BT, logs_BK = row_T[None], torch.zeros(1, 0, device=row_T.device)
    for place in range(span.first, span.last + 1):
        logs_BV = next_token(rows_BT, Span(first=place, last=span.last)).masked_fill(~allowed_V, float("-inf"))
        totals = (logs_BK.sum(dim=1, keepdim=True) + logs_BV).flatten()
        best = totals.topk(min(width, int(totals.isfinite().sum()))).indices
        parent_B, token_B = best // logs_BV.shape[1], best % logs_BV.shape[1]
        rows_BT = rows_BT[parent_B]
        rows_BT[:, place] = token_B
        logs_BK = torch.cat([logs_BK[parent_B], logs_BV[parent_B, token_B][:, None]], dim=1)
    return [
        TokenFilling(ids=tuple(row[span.first : span.last + 1]), log_probabilities=tuple(logs))
        for row, logs in zip(rows_BT.tolist(), logs_BK.tolist(), strict=True)
    ]
