"""Kernels for softmax(q·k)·v over packed sequences, and the choice among them.

Queries, keys and values of N packed tokens and the runs of sequences of equal length go in; one vector per token and,
if needed, the attention weights come out. No kernel attends across sequences.

The choice is a fixed rule on device, dtype, length and mode, not a stopwatch at start-up: a resumed run must take the
same kernel as the run it continues. The rule comes from `python -m benchmarks.attention`: torch's fused kernel wins
everywhere except in bf16 training on short sequences, where its backward pass is slow, and wherever attention dropout
is on, which it has no fused form for.

Local attention sees `reach` tokens to each side. Long sequences are cut into blocks of `reach` queries, each of which
attends to its own block and its two neighbours, so that the cost grows linearly with the length.

Shapes: N tokens, C sequences of a run, T their length, H heads, W width of a head; local: G blocks, R the reach.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from spanlab.encoder.layers import dropout
from spanlab.encoder.packing import Run

MATMUL_LENGTH_BF16 = 192
"""Up to this many keys of a query, plain matrix products are faster than the fused kernel in bf16 training on a CPU."""

BLOCKS_LENGTH = 4
"""Local attention on sequences longer than this many times the reach is computed block by block.

Measured with a reach of 64 on one core: blocks and a mask break even at 4.0 in inference, at 4.8 in fp32 training and
at 3.4 in bf16 training; at 8, blocks are 1.5 to 2 times faster.
"""


class AttentionOutput(NamedTuple):
    """One vector per token, and per run the weights (C, H, T, T) if needed."""

    hidden_ND: Tensor
    weights: tuple[Tensor, ...] | None = None


def attend(
    qkv_N3HW: Tensor,
    runs: Sequence[Run],
    *,
    causal: bool,
    prefixes: Sequence[int] | None = None,
    reach: int | None = None,
    dropout_p: float = 0.0,
    need_weights: bool = False,
) -> AttentionOutput:
    """Attention within each sequence by the kernel that suits the device, dtype, length and mode.

    `prefixes` has, for each sequence, the number of first tokens that all of its tokens see even if `causal`; `reach`
    is how far a token sees to either side, None for the whole sequence.
    """
    assert reach is None or not causal, "local attention looks to both sides"
    if prefixes is None and _varlen_fits(qkv_N3HW, len(runs), dropout_p=dropout_p, need_weights=need_weights):
        return AttentionOutput(_varlen(qkv_N3HW, runs, causal=causal, reach=reach))
    contexts: list[Tensor] = []
    weights: list[Tensor] = []
    parts = torch.split(qkv_N3HW, [run.tokens for run in runs])
    prefix_masks: Sequence[Tensor | None] = [None] * len(runs)
    if causal and prefixes is not None:
        prefix_masks = _prefix_masks(runs, prefixes, qkv_N3HW.device)
    # Autocast would compute the softmax in fp32 and cast its result back; the kernels do that inside, without copies.
    with torch.autocast(qkv_N3HW.device.type, enabled=False):
        for part, run, prefix_mask in zip(parts, runs, prefix_masks, strict=True):
            q_CHTW, k_CHTW, v_CHTW = part.view(run.count, run.length, *part.shape[1:]).permute(2, 0, 3, 1, 4)
            multiplies = need_weights or dropout_p > 0.0 or matmul_is_faster(q_CHTW, run.length)
            if reach is not None and run.length > BLOCKS_LENGTH * reach and not multiplies:
                # No mask of the whole sequence here: to make it would take longer than to attend.
                context_CHTW = _by_blocks(q_CHTW, k_CHTW, v_CHTW, reach)
            else:
                mask = prefix_mask if reach is None else _local_mask(run.length, reach, q_CHTW.device)
                if multiplies:
                    mask = _causal_mask(q_CHTW) if causal and mask is None else mask
                    context_CHTW, weights_CHTT = by_matmul(q_CHTW, k_CHTW, v_CHTW, mask=mask, dropout_p=dropout_p)
                    weights.append(weights_CHTT)
                else:
                    context_CHTW = F.scaled_dot_product_attention(
                        q_CHTW, k_CHTW, v_CHTW, attn_mask=mask, is_causal=causal and mask is None
                    )
            contexts.append(context_CHTW.transpose(1, 2).reshape(run.tokens, -1))
    context_ND = contexts[0] if len(contexts) == 1 else torch.cat(contexts)
    return AttentionOutput(context_ND, tuple(weights) if need_weights else None)


def matmul_is_faster(queries: Tensor, keys: int) -> bool:
    """By the number of keys that each query is compared with."""
    in_training = torch.is_grad_enabled() and queries.requires_grad
    short = keys <= MATMUL_LENGTH_BF16
    return queries.device.type == "cpu" and queries.dtype == torch.bfloat16 and in_training and short


def by_matmul(
    q_CHTW: Tensor, k_CHTW: Tensor, v_CHTW: Tensor, *, mask: Tensor | None, dropout_p: float
) -> tuple[Tensor, Tensor]:
    """The weighted sums of the values, and the weights; `mask` is true where a query attends to a key."""
    scores_CHTT = torch.matmul(q_CHTW * q_CHTW.shape[-1] ** -0.5, k_CHTW.transpose(-1, -2))
    if mask is not None:
        scores_CHTT = scores_CHTT.masked_fill(~mask, float("-inf"))
    weights_CHTT = scores_CHTT.softmax(dim=-1)
    weights_CHTT = dropout(weights_CHTT, dropout_p, training=True)
    return torch.matmul(weights_CHTT, v_CHTW), weights_CHTT


def _causal_mask(q_CHTW: Tensor) -> Tensor:
    """(T, T) true at the keys that a token attends to: itself and those before it."""
    length = q_CHTW.shape[2]
    return torch.ones(length, length, dtype=torch.bool, device=q_CHTW.device).tril()


def _by_blocks(q_CHTW: Tensor, k_CHTW: Tensor, v_CHTW: Tensor, reach: int) -> Tensor:
    """(C, H, T, W) local attention of G blocks of R queries, each over 3 R keys: its own block and its neighbours."""
    count, heads, length, width = q_CHTW.shape
    blocks = -(-length // reach)
    filling = blocks * reach - length
    q_XGRW = F.pad(q_CHTW, (0, 0, 0, filling)).reshape(count * heads, blocks, reach, width)
    # Windows of 3 R keys at steps of R: views, so that nothing is copied but the padding at both ends.
    k_XGKW, v_XGKW = (
        F.pad(x_CHTW, (0, 0, reach, filling + reach)).flatten(0, 1).unfold(1, 3 * reach, reach).transpose(2, 3)
        for x_CHTW in (k_CHTW, v_CHTW)
    )
    query_R = torch.arange(reach, device=q_CHTW.device)
    key_K = torch.arange(-reach, 2 * reach, device=q_CHTW.device)
    near_RK = (key_K - query_R[:, None]).abs() <= reach
    key_GK = key_K + reach * torch.arange(blocks, device=q_CHTW.device)[:, None]
    mask_GRK = near_RK & ((key_GK >= 0) & (key_GK < length))[:, None]
    # The queries of the padding see their own place, since a softmax over nothing is not a number.
    mask_GRK |= (key_K == query_R[:, None]) & (key_GK >= length)[:, None]
    if matmul_is_faster(q_XGRW, 3 * reach):
        context_XGRW, _ = by_matmul(q_XGRW, k_XGKW, v_XGKW, mask=mask_GRK, dropout_p=0.0)
    else:
        context_XGRW = F.scaled_dot_product_attention(q_XGRW, k_XGKW, v_XGKW, attn_mask=mask_GRK.unsqueeze(0))
    return context_XGRW.reshape(count, heads, blocks * reach, width)[:, :, :length]


def _local_mask(length: int, reach: int, device: torch.device) -> Tensor | None:
    """(T, T) true at most `reach` tokens away; None where that is the whole sequence."""
    if length <= reach + 1:
        return None
    position_T = torch.arange(length, device=device)
    return (position_T - position_T[:, None]).abs() <= reach


def _prefix_masks(runs: Sequence[Run], prefixes: Sequence[int], device: torch.device) -> list[Tensor]:
    """(C, 1, T, T) per run: true at the token itself, the tokens before it, and the prefix of its sequence."""
    masks: list[Tensor] = []
    first = 0
    for run in runs:
        prefix_C = torch.tensor(prefixes[first : first + run.count], device=device)
        position_T = torch.arange(run.length, device=device)
        past_TT = position_T <= position_T[:, None]
        masks.append((past_TT | (position_T < prefix_C[:, None, None])).unsqueeze(1))
        first += run.count
    return masks


def _varlen_fits(qkv_N3HW: Tensor, runs: int, *, dropout_p: float, need_weights: bool) -> bool:
    """Whether the CUDA kernel for ragged batches applies: half precision, several lengths, nothing it lacks."""
    half = qkv_N3HW.dtype in {torch.float16, torch.bfloat16}
    return qkv_N3HW.device.type == "cuda" and half and runs > 1 and dropout_p == 0.0 and not need_weights


def _varlen(qkv_N3HW: Tensor, runs: Sequence[Run], *, causal: bool, reach: int | None) -> Tensor:
    from torch.nn.attention.varlen import varlen_attn

    q_NHW, k_NHW, v_NHW = qkv_N3HW.unbind(1)
    lengths = torch.tensor([0] + [run.length for run in runs for _ in range(run.count)], device=qkv_N3HW.device)
    bounds = torch.cumsum(lengths, 0).to(torch.int32)
    longest = max(run.length for run in runs)
    window = (-1, 0) if causal else (-1, -1) if reach is None else (reach, reach)
    context_NHW = varlen_attn(q_NHW, k_NHW, v_NHW, bounds, bounds, longest, longest, window_size=window)
    assert isinstance(context_NHW, Tensor)
    return context_NHW.flatten(1)
