"""Cross-entropy over the vocabulary, computed in chunks so that the logits of all rows are never in memory at once.

Features (K, E), an output matrix and targets enter; the summed loss leaves. The forward pass computes logits, softmax
and gradients of one chunk at a time, in one buffer of chunk × V numbers. Peak memory does not grow with the number of
predicted tokens, and no logits are kept for the backward pass, which only scales the gradients. The price: only one
backward pass for each forward pass, and no second derivatives.

Matrix products run in the autocast dtype where autocast is on; softmax and sums in single precision or better.

Shapes: K predicted tokens, C of them in a chunk, E width of the features, V vocabulary.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from spanlab.objectives.objective import in_full_precision

# Measured on 2 cores in single precision at K = 614, V = 30,522, E = 256, forward and backward, best of 25 in turn:
# 32 rows 205 ms, 64 168, 96 155, 128 143, 192 138, 256 143, 320 141, all 614 157; F.linear with F.cross_entropy 209.
# Few rows read and write the table's gradient too often; all at once walk through fresh memory instead of one buffer.
# From 128 to 320 there is no difference on a quiet machine, and fewer chunks wait less for each other on a busy one.
CHUNK_ROWS = 256
# An accelerator needs more rows to be kept busy; not measured. 1024 rows of 30,522 logits are 125 MB.
CHUNK_ROWS_ON_ACCELERATOR = 1024


@dataclass(frozen=True, kw_only=True)
class Projection:
    """The result of `project` for K rows."""

    total: Tensor
    """() the sum of the cross-entropies, differentiable once."""
    correct: Tensor
    """() the number of targets with the highest logit."""
    sampled_K: Tensor | None
    """Tokens drawn from the softmax; None without `uniforms_K`."""


def project(
    features_KE: Tensor,
    table_VE: Tensor,
    bias_V: Tensor | None,
    targets_K: Tensor,
    *,
    uniforms_K: Tensor | None = None,
    chunk_rows: int | None = None,
) -> Projection:
    """Cross-entropy of softmax(features · tableᵀ + bias) at the targets, summed.

    Args:
        features_KE: inputs of the output layer.
        table_VE: the output matrix.
        bias_V: added to the logits.
        targets_K: the true ids.
        uniforms_K: numbers in [0, 1), one a row; if given, a token is drawn from each row's softmax.
        chunk_rows: rows computed at a time; None: a default for the device.
    """
    if chunk_rows is None:
        chunk_rows = CHUNK_ROWS if features_KE.device.type == "cpu" else CHUNK_ROWS_ON_ACCELERATOR
    inputs = (features_KE, table_VE, bias_V)
    needs_grad = tuple(torch.is_grad_enabled() and x is not None and x.requires_grad for x in inputs)
    total, correct, sampled_K = _ChunkedCrossEntropy.apply(  # type: ignore[no-untyped-call]
        features_KE, table_VE, bias_V, targets_K, uniforms_K, chunk_rows, needs_grad
    )
    return Projection(total=total, correct=correct, sampled_K=sampled_K)


class _ChunkedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401 (torch's context)
        features_KE: Tensor,
        table_VE: Tensor,
        bias_V: Tensor | None,
        targets_K: Tensor,
        uniforms_K: Tensor | None,
        chunk_rows: int,
        needs_grad: tuple[bool, bool, bool],
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        dtype = _matrix_dtype(features_KE, table_VE)
        bias_V = table_VE.new_zeros(table_VE.shape[0]) if bias_V is None else bias_V
        with torch.autocast(features_KE.device.type, enabled=False):
            gradients = _Gradients(features_KE, table_VE, bias_V, needs_grad)
            chunks = _Chunks(features_KE.to(dtype), table_VE.to(dtype), bias_V.to(dtype), targets_K, uniforms_K)
            total, correct, sampled_K = chunks.run(chunk_rows, gradients)
        ctx.gradients = gradients
        ctx.mark_non_differentiable(*(x for x in (correct, sampled_K) if x is not None))
        return total, correct, sampled_K

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_total: Tensor, *_: Tensor | None) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        if ctx.gradients is None:
            raise RuntimeError("a chunked cross-entropy can be differentiated only once")
        # Scaled in place, since a copy would double the memory; hence only once.
        scaled = ctx.gradients.scaled_(grad_total)
        ctx.gradients = None
        return (*scaled, None, None, None, None)


class _Gradients:
    """The gradients of the summed loss, accumulated chunk by chunk; None for inputs that need none."""

    def __init__(
        self, features_KE: Tensor, table_VE: Tensor, bias_V: Tensor, needs_grad: tuple[bool, bool, bool]
    ) -> None:
        self.features_KE = torch.empty_like(features_KE) if needs_grad[0] else None
        # Sums over chunks are kept in full precision, whatever the dtype of the weights.
        full = torch.float64 if table_VE.dtype == torch.float64 else torch.float32
        self.table_VE = torch.zeros_like(table_VE, dtype=full) if needs_grad[1] else None
        self.bias_V = torch.zeros_like(bias_V, dtype=full) if needs_grad[2] else None
        self.dtypes = (features_KE.dtype, table_VE.dtype, bias_V.dtype)

    @property
    def any_needed(self) -> bool:
        return any(x is not None for x in (self.features_KE, self.table_VE, self.bias_V))

    def add(self, rows: slice, errors_CV: Tensor, matrix_CV: Tensor, features_CE: Tensor, table_VE: Tensor) -> None:
        """Add a chunk; `errors_CV`: softmax minus one-hot; `matrix_CV`: the same in the matrix products' dtype."""
        if self.features_KE is not None:
            self.features_KE[rows] = matrix_CV @ table_VE
        if self.table_VE is not None and self.table_VE.dtype == matrix_CV.dtype:
            self.table_VE.addmm_(matrix_CV.t(), features_CE)
        elif self.table_VE is not None:
            self.table_VE += matrix_CV.t() @ features_CE
        if self.bias_V is not None:
            self.bias_V += errors_CV.sum(0)

    def scaled_(self, factor: Tensor) -> list[Tensor | None]:
        """The gradients times `factor`, each in the dtype of its input; in place."""
        gradients = (self.features_KE, self.table_VE, self.bias_V)
        return [
            None if x is None else x.mul_(factor).to(dtype) for x, dtype in zip(gradients, self.dtypes, strict=True)
        ]


@dataclass(frozen=True)
class _Chunks:
    """The inputs of the projection, in the dtype of the matrix products."""

    features_KE: Tensor
    table_VE: Tensor
    bias_V: Tensor
    targets_K: Tensor
    uniforms_K: Tensor | None

    def run(self, chunk_rows: int, gradients: _Gradients) -> tuple[Tensor, Tensor, Tensor | None]:
        """The summed loss, the number of correct rows and the drawn tokens; adds to `gradients` chunk by chunk."""
        count = len(self.targets_K)
        rows = -(-count // max(1, -(-count // chunk_rows)))  # chunks of about equal size
        buffer_CV = self.features_KE.new_empty(rows, len(self.table_VE))
        full_buffer_CV = in_full_precision(buffer_CV)  # the same buffer, unless matrix products use half precision
        total = in_full_precision(self.features_KE.new_zeros(()))
        correct = self.targets_K.new_zeros(())
        sampled_K = None if self.uniforms_K is None else torch.empty_like(self.targets_K)
        for start in range(0, count, max(1, rows)):
            chunk = slice(start, min(start + rows, count))
            features_CE, targets_C = self.features_KE[chunk], self.targets_K[chunk]
            logits_CV = torch.addmm(self.bias_V, features_CE, self.table_VE.t(), out=buffer_CV[: len(targets_C)])
            scores_CV = _copied(logits_CV, full_buffer_CV)
            loss_C, best_C = softmax_(scores_CV, targets_C)
            total += loss_C.sum()
            correct += (best_C == targets_C).sum()
            if sampled_K is not None and self.uniforms_K is not None:
                sampled_K[chunk] = draw(scores_CV, self.uniforms_K[chunk])
            if gradients.any_needed:
                scores_CV[torch.arange(len(targets_C), device=targets_C.device), targets_C] -= 1.0
                gradients.add(chunk, scores_CV, _copied(scores_CV, buffer_CV), features_CE, self.table_VE)
        return total, correct, sampled_K


def _copied(x_CV: Tensor, buffer_CV: Tensor) -> Tensor:
    """`x_CV` copied to the buffer, in its dtype; with equal dtypes `x_CV` itself, which is then a view of it."""
    return x_CV if x_CV.dtype == buffer_CV.dtype else buffer_CV[: len(x_CV)].copy_(x_CV)


def softmax_(logits_CV: Tensor, targets_C: Tensor) -> tuple[Tensor, Tensor]:
    """Softmax in place; returns (C,) cross-entropies and (C,) the ids with the highest logit."""
    highest_C, best_C = logits_CV.max(dim=-1)
    logits_CV.sub_(highest_C[:, None])
    target_logit_C = logits_CV.gather(1, targets_C[:, None]).squeeze(1)
    sum_C = logits_CV.exp_().sum(dim=-1)
    logits_CV.div_(sum_C[:, None])
    return sum_C.log() - target_logit_C, best_C


def draw(probabilities_CV: Tensor, uniforms_C: Tensor) -> Tensor:
    """(C,) one id a row: the first whose cumulative probability exceeds the row's uniform number."""
    cumulative_CV = probabilities_CV.cumsum(dim=-1)
    # Scaled by the total, which is 1 only up to rounding; a number that rounds to 1 draws the last id.
    threshold_C1 = (uniforms_C.to(cumulative_CV.dtype) * cumulative_CV[:, -1])[:, None]
    return torch.searchsorted(cumulative_CV, threshold_C1, right=True).squeeze(1).clamp_(max=cumulative_CV.shape[1] - 1)


def _matrix_dtype(features_KE: Tensor, table_VE: Tensor) -> torch.dtype:
    device, dtype = features_KE.device.type, torch.promote_types(features_KE.dtype, table_VE.dtype)
    # Autocast leaves double precision alone, and so does this.
    if torch.is_autocast_enabled(device) and dtype != torch.float64:
        return torch.get_autocast_dtype(device)
    return dtype
