"""softmax(content + distance + segment)·v, the attention of Transformer-XL and XLNet, forwards and backwards.

Written out rather than left to autograd, for the scores are the largest tensors of a training step and its time goes
to walking over them: a few sequences at a time they stay in the processor's cache, are updated in place, and leave
one tensor behind for the backward pass. torch's fused kernel takes no part: it has no gradient for an additive term.

- The distance term q·r of query i and key j is column T - i + j of q·Rᵀ: a view with a shorter row stride when every
  token is a query, a gather when only some are. Nothing of size T × T × D is ever made.
- A segment term that is the same for all keys of a query changes no softmax, so only the difference between "other
  segment" and "same segment" is added.
- Dropped attention weights are stored with a negative sign: one tensor holds the weights and the dropout mask.

Shapes: B sequences, C of them in a chunk, H heads, Q queries, T tokens, S keys, R distances, W width of a head,
G directions of reading (forwards, backwards).
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from spanlab.encoder.layers import draw_signs
from spanlab.encoder.xlnet.attention_mask import AttentionMask

CHUNK_SCORES = 1 << 18
"""Scores computed at a time on a CPU: 1 MB of them."""


@dataclass(frozen=True, kw_only=True)
class Operands:
    """Queries, keys, values, distances, and the biases of the queries."""

    q_BQHW: Tensor
    k_BSHW: Tensor
    v_BSHW: Tensor
    r_GRHW: Tensor
    """Distances, forwards and, if there are backward rows, backwards."""
    content_bias_HW: Tensor
    """Added to the queries that meet the keys."""
    position_bias_HW: Tensor
    """Added to the queries that meet the distances."""
    segment_BHQ: Tensor | None = None
    """What a key of another segment adds to a score."""


_FIELDS = tuple(field.name for field in fields(Operands))


def relative_attention(
    operands: Operands, mask: AttentionMask, *, dropout_p: float = 0.0, need_weights: bool = False
) -> tuple[Tensor, Tensor | None]:
    """The context (B, Q, H, W) and, if they are needed, the weights (B, H, Q, S), which carry no gradient."""
    keep = need_weights or torch.is_grad_enabled()
    with torch.autocast(operands.k_BSHW.device.type, enabled=False):
        context_BQHW, signed_BHQS = _RelativeAttention.apply(  # type: ignore[no-untyped-call]
            mask, dropout_p, keep, *(getattr(operands, name) for name in _FIELDS)
        )
    return context_BQHW, signed_BHQS.clamp_min(0.0).div_(1.0 - dropout_p) if need_weights else None


class _RelativeAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401 (torch's context)
        mask: AttentionMask,
        dropout_p: float,
        keep: bool,
        *given: Tensor | None,
    ) -> tuple[Tensor, Tensor | None]:
        operands = Operands(**dict(zip(_FIELDS, given, strict=True)))  # type: ignore[arg-type]
        q_BQHW, keys = operands.q_BQHW, operands.k_BSHW.shape[1]
        context_BQHW = q_BQHW.new_empty(q_BQHW.shape)
        shape = (q_BQHW.shape[0], q_BQHW.shape[2], q_BQHW.shape[1], keys)
        signed_BHQS = q_BQHW.new_empty(shape) if keep else None
        for rows, direction in _chunks(shape, q_BQHW.device, mask.backward_rows):
            part = _Part(operands, mask, rows, direction)
            weights_CHQS = torch.softmax(part.scores(), dim=-1)
            if dropout_p > 0.0:
                weights_CHQS *= draw_signs(weights_CHQS, dropout_p)
            if signed_BHQS is not None:
                signed_BHQS[rows] = weights_CHQS
            kept_CHQS = weights_CHQS.clamp_min_(0.0) if dropout_p > 0.0 else weights_CHQS
            context_BQHW[rows] = torch.matmul(kept_CHQS, part.v_CHSW).div_(1.0 - dropout_p).transpose(1, 2)
        if keep:
            ctx.save_for_backward(*given, signed_BHQS, context_BQHW)
            ctx.mask, ctx.scale = mask, 1.0 / (1.0 - dropout_p)
            ctx.mark_non_differentiable(signed_BHQS)
        return context_BQHW, signed_BHQS

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_BQHW: Tensor, *_: Tensor | None) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        *given, signed_BHQS, context_BQHW = ctx.saved_tensors
        operands, mask = Operands(**dict(zip(_FIELDS, given, strict=True))), ctx.mask
        gradients = _Gradients(operands)
        with torch.autocast(grad_BQHW.device.type, enabled=False):
            for rows, direction in _chunks(signed_BHQS.shape, signed_BHQS.device, mask.backward_rows):
                part = _Part(operands, mask, rows, direction)
                grad_CHQW = grad_BQHW[rows].transpose(1, 2).to(part.dtype)
                signed_CHQS = signed_BHQS[rows].to(part.dtype)
                kept_CHQS = signed_CHQS.clamp_min(0.0).mul_(ctx.scale)
                gradients.v_BSHW[rows] = torch.matmul(kept_CHQS.transpose(-1, -2), grad_CHQW).transpose(1, 2)
                # Softmax: what a row's weights times their gradients add up to is its context times its gradient.
                sums_CHQ1 = (grad_CHQW * context_BQHW[rows].transpose(1, 2)).sum(-1, keepdim=True)
                errors_CHQS = kept_CHQS.mul_(torch.matmul(grad_CHQW, part.v_CHSW.transpose(-1, -2)))
                errors_CHQS.addcmul_(signed_CHQS.abs(), sums_CHQ1, value=-1.0)
                gradients.add(part, errors_CHQS)
        return (None, None, None, *gradients.in_order())


class _Part:
    """The sequences of one chunk, in the dtype that is worked in."""

    def __init__(self, operands: Operands, mask: AttentionMask, rows: slice, direction: int) -> None:
        self.dtype = dtype = _working_dtype(operands.k_BSHW)
        self.rows, self.direction, self.mask = rows, direction, mask
        q_CHQW = operands.q_BQHW[rows].transpose(1, 2).to(dtype)
        self.scale = q_CHQW.shape[-1] ** -0.5
        self.content_CHQW = (q_CHQW + operands.content_bias_HW[:, None].to(dtype)).mul_(self.scale)
        self.distance_HQW = _by_head((q_CHQW + operands.position_bias_HW[:, None].to(dtype)).mul_(self.scale))
        self.k_CHSW = operands.k_BSHW[rows].transpose(1, 2).to(dtype)
        self.v_CHSW = operands.v_BSHW[rows].transpose(1, 2).to(dtype)
        self.r_HRW = operands.r_GRHW[direction].transpose(0, 1).to(dtype)
        self.segment_CHQ = None if operands.segment_BHQ is None else operands.segment_BHQ[rows].to(dtype)
        other = mask.other_segment_B1QS
        self.other_segment_C1QS = None if other is None else other[rows].to(dtype)
        shape = torch.Size((*self.content_CHQW.shape[:3], self.k_CHSW.shape[2]))
        self.distances = _Distances(mask, rows, shape, self.r_HRW.shape[1])

    def scores(self) -> Tensor:
        """(C, H, Q, S)."""
        far_CHQS = self.distances.view(torch.bmm(self.distance_HQW, self.r_HRW.transpose(-1, -2)))
        hidden = self.mask.bias_B1QS
        scores_CHQS = torch.empty(self.distances.shape, dtype=self.dtype, device=far_CHQS.device)
        # What the product of queries and keys is added to, so that no pass over the scores is spent on adding it.
        if hidden is None:
            scores_CHQS.copy_(far_CHQS)
        else:
            torch.add(far_CHQS, hidden[self.rows].to(self.dtype), out=scores_CHQS)
        scores_CHQS.flatten(0, 1).baddbmm_(self.content_CHQW.flatten(0, 1), self.k_CHSW.flatten(0, 1).transpose(-1, -2))
        if self.segment_CHQ is not None and self.other_segment_C1QS is not None:
            scores_CHQS.addcmul_(self.other_segment_C1QS, self.segment_CHQ[..., None])
        return scores_CHQS


class _Gradients:
    """The gradients of all operands, filled chunk by chunk."""

    def __init__(self, operands: Operands) -> None:
        self.operands = operands
        self.far_HQR: Tensor | None = None
        self.q_BQHW, self.k_BSHW, self.v_BSHW = (
            torch.empty(x.shape, dtype=x.dtype, device=x.device)
            for x in (operands.q_BQHW, operands.k_BSHW, operands.v_BSHW)
        )
        # Sums over chunks, so not in half precision.
        self.r_GHRW, self.content_bias_HW, self.position_bias_HW = (
            torch.zeros(shape, dtype=_working_dtype(operands.k_BSHW), device=operands.k_BSHW.device)
            for shape in (
                operands.r_GRHW.transpose(1, 2).shape,
                operands.content_bias_HW.shape,
                operands.position_bias_HW.shape,
            )
        )
        self.segment_BHQ = None if operands.segment_BHQ is None else torch.zeros_like(operands.segment_BHQ)

    def add(self, part: _Part, errors_CHQS: Tensor) -> None:
        """What follows from the gradients of a chunk's scores."""
        rows = part.rows
        content_CHQW = torch.matmul(errors_CHQS, part.k_CHSW).mul_(part.scale)
        keys_CHSW = torch.matmul(errors_CHQS.transpose(-1, -2), part.content_CHQW)
        self.k_BSHW[rows] = keys_CHSW.transpose(1, 2)
        self.far_HQR = far_HQR = part.distances.put_back(errors_CHQS, self.far_HQR)
        distance_HQW = torch.bmm(far_HQR, part.r_HRW).mul_(part.scale)
        self.r_GHRW[part.direction].baddbmm_(far_HQR.transpose(-1, -2), part.distance_HQW)
        self.content_bias_HW += content_CHQW.sum((0, 2))
        self.position_bias_HW += distance_HQW.sum(1)
        self.q_BQHW[rows] = content_CHQW.add_(_by_sequence(distance_HQW, len(content_CHQW))).transpose(1, 2)
        if self.segment_BHQ is not None and part.other_segment_C1QS is not None:
            self.segment_BHQ[rows] = (errors_CHQS * part.other_segment_C1QS).sum(-1)

    def in_order(self) -> tuple[Tensor | None, ...]:
        """As the operands are, in their dtypes."""
        operands = self.operands
        return (
            self.q_BQHW,
            self.k_BSHW,
            self.v_BSHW,
            self.r_GHRW.transpose(1, 2).to(operands.r_GRHW.dtype),
            self.content_bias_HW.to(operands.content_bias_HW.dtype),
            self.position_bias_HW.to(operands.position_bias_HW.dtype),
            self.segment_BHQ,
        )


class _Distances:
    """Which column of q·Rᵀ belongs to which key, for the sequences of a chunk."""

    def __init__(self, mask: AttentionMask, rows: slice, shape: torch.Size, distances: int) -> None:
        self.shape, self.distances, self.tokens = shape, distances, mask.tokens
        self.columns_HCQS: Tensor | None = None
        if mask.positions_BQ is not None:
            first_CQ = mask.tokens - mask.positions_BQ[rows]
            columns_CQS = first_CQ[..., None] + torch.arange(shape[3], device=first_CQ.device)
            self.columns_HCQS = columns_CQS.expand(shape[1], *columns_CQS.shape)

    def view(self, far_HQR: Tensor) -> Tensor:
        """(C, H, Q, S) of the distance terms (H, C·Q, R)."""
        if self.columns_HCQS is None:
            return self._shifted(far_HQR)
        return self._split(far_HQR).gather(-1, self.columns_HCQS).transpose(0, 1)

    def put_back(self, errors_CHQS: Tensor, used_HQR: Tensor | None) -> Tensor:
        """(H, C·Q, R): the inverse of `view`, zero where no key is; written over what the chunk before left behind."""
        sequences, heads, queries, _ = self.shape
        shape = (heads, sequences * queries, self.distances)
        if self.columns_HCQS is not None:
            far_HQR = errors_CHQS.new_zeros(shape)
            self._split(far_HQR).scatter_(-1, self.columns_HCQS, errors_CHQS.transpose(0, 1))
            return far_HQR
        # The zeros are in the same places for every chunk.
        far_HQR = used_HQR if used_HQR is not None and used_HQR.shape == shape else errors_CHQS.new_zeros(shape)
        self._shifted(far_HQR).copy_(errors_CHQS)
        return far_HQR

    def _split(self, far_HQR: Tensor) -> Tensor:
        return far_HQR.view(self.shape[1], self.shape[0], self.shape[2], self.distances)

    def _shifted(self, far_HQR: Tensor) -> Tensor:
        sequences, _, queries, _ = self.shape
        row = self.distances
        strides = (queries * row, sequences * queries * row, row - 1, 1)
        return far_HQR.as_strided(self.shape, strides, far_HQR.storage_offset() + self.tokens)


def _chunks(shape: Sequence[int], device: torch.device, backward_rows: int) -> Iterator[tuple[slice, int]]:
    """Sequences that are worked on together, and whether they are read forwards (0) or backwards (1)."""
    batch, *rest = shape
    # An accelerator is kept busy by the whole batch at once.
    size = max(1, CHUNK_SCORES // max(1, math.prod(rest))) if device.type == "cpu" else batch
    bounds = ((0, batch - backward_rows), (batch - backward_rows, batch))
    for direction, (first, end) in enumerate(bounds):
        for start in range(first, end, size):
            yield slice(start, min(start + size, end)), direction


def _by_head(x_CHQW: Tensor) -> Tensor:
    """(C, H, Q, W) → (H, C·Q, W)."""
    return x_CHQW.transpose(0, 1).reshape(x_CHQW.shape[1], -1, x_CHQW.shape[3])


def _by_sequence(x_HQW: Tensor, sequences: int) -> Tensor:
    """(H, C·Q, W) → (C, H, Q, W)."""
    return x_HQW.view(x_HQW.shape[0], sequences, -1, x_HQW.shape[2]).transpose(0, 1)


def _working_dtype(x: Tensor) -> torch.dtype:
    """What scores are computed in: single precision wherever half precision is not the machine's own."""
    if x.dtype in {torch.float32, torch.float64}:
        return x.dtype
    native = x.dtype == torch.bfloat16 and (x.device.type != "cpu" or _cpu_has_bf16())
    return torch.bfloat16 if native else torch.float32


@cache
def _cpu_has_bf16() -> bool:
    from spanlab.machine import has_bf16_instructions

    return has_bf16_instructions()
