"""Self-attention by content and distance, for one stream or two.

Queries, keys and values come from one matrix product; distances have a projection of their own; a query meets keys,
distances and segments each with a learned bias (Dai et al. 2019, Transformer-XL; Yang et al. 2019, XLNet). None of the
five matrices has a bias. `relative_kernel` computes the mixture of values from them.

Shapes: N tokens, B sequences of a run, T their length, M memory, S keys (M + T), K queries of the second stream a
sequence, G directions, R distances, D width, H heads, W width of a head.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from spanlab.encoder.packing import Run
from spanlab.encoder.xlnet.attention_mask import AttentionMask
from spanlab.encoder.xlnet.relative_kernel import Operands, relative_attention


def distance_table(
    keys: int, queries: int, width: int, *, max_distance: int | None, device: torch.device, backwards: bool = False
) -> Tensor:
    """(R, D): sines of every wavelength, then cosines.

    Args:
        keys: S.
        queries: T.
        width: D.
        max_distance: larger distances are clamped to it; None for no limit.
        device: where the table is made.
        backwards: for text that is read from its end: distances have the opposite sign.
    """
    distance_R = torch.arange(keys, -queries, -1, dtype=torch.float32, device=device)
    if max_distance is not None:
        distance_R = distance_R.clamp(-max_distance, max_distance)
    frequency = 10_000.0 ** -(torch.arange(0, width, 2, dtype=torch.float32, device=device) / width)
    angle = (-distance_R if backwards else distance_R)[:, None] * frequency
    return torch.cat([angle.sin(), angle.cos()], dim=-1)


@dataclass(frozen=True, kw_only=True)
class RelativeContext:
    """Properties of the batch that attention needs, the same for every layer."""

    runs: tuple[Run, ...]
    distances_GRD: Tensor
    """For the longest run; a shorter one uses the rows in the middle."""
    content: tuple[AttentionMask, ...]
    """What the tokens of each run attend to."""
    query: AttentionMask | None = None
    """What the predicted positions attend to; then there is one run."""
    need_weights: bool = False


class RelativeAttention(nn.Module):
    """Every token attends to the tokens of its own sequence and its memory."""

    def __init__(self, width: int, heads: int, *, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.output = nn.Linear(width, width, bias=False)
        self.position = nn.Linear(width, width, bias=False)
        self.content_bias = nn.Parameter(torch.empty(heads, width // heads))
        self.position_bias = nn.Parameter(torch.empty(heads, width // heads))
        self.segment_bias = nn.Parameter(torch.empty(heads, width // heads))
        self.segment = nn.Parameter(torch.empty(2, heads, width // heads))
        """Keys of the same segment as the query, and of another."""

    def distances(self, context: RelativeContext) -> Tensor:
        """(G, R, H, W) the projected distances."""
        r_GRD: Tensor = self.position(context.distances_GRD)
        return r_GRD.view(*r_GRD.shape[:-1], self.heads, -1)

    def attend(
        self, q_BQHW: Tensor, kv: tuple[Tensor, Tensor], r_GRHW: Tensor, mask: AttentionMask, *, need_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        """(B, Q, D) before the output projection, and the weights (B, H, Q, S) if they are needed."""
        surplus = (r_GRHW.shape[1] - mask.tokens - kv[0].shape[1]) // 2
        operands = Operands(
            q_BQHW=q_BQHW,
            k_BSHW=kv[0],
            v_BSHW=kv[1],
            r_GRHW=r_GRHW[:, surplus : r_GRHW.shape[1] - surplus],
            content_bias_HW=self.content_bias,
            position_bias_HW=self.position_bias,
            segment_BHQ=None if mask.other_segment_B1QS is None else self._segment_term(q_BQHW),
        )
        dropout_p = self.dropout if self.training else 0.0
        context_BQHW, weights = relative_attention(operands, mask, dropout_p=dropout_p, need_weights=need_weights)
        context_BQD = context_BQHW.flatten(2)
        if mask.sees_any_BQ1 is not None:
            # A softmax over masked keys alone is uniform over them; such a query gets nothing instead.
            context_BQD = context_BQD * mask.sees_any_BQ1
        return context_BQD, weights

    def project(self, x_BTD: Tensor, first: int, end: int) -> tuple[Tensor, ...]:
        """(B, T, H, W) for each of queries (0), keys (1) and values (2) from `first` up to `end`."""
        width = x_BTD.shape[-1]
        y_BTD = F.linear(x_BTD, self.qkv.weight[first * width : end * width])
        return y_BTD.view(*x_BTD.shape[:-1], end - first, self.heads, -1).unbind(2)

    def _segment_term(self, q_BQHW: Tensor) -> Tensor:
        """(B, H, Q): the score of a key in another segment minus that of one in the same segment."""
        difference_HW = (self.segment[1] - self.segment[0]) * q_BQHW.shape[-1] ** -0.5
        return torch.einsum("bqhw,hw->bhq", q_BQHW + self.segment_bias, difference_HW).to(q_BQHW.dtype)
