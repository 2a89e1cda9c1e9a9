"""The recurrence of an LSTM whose output is projected, with cells and projections cut off at a bound.

What enters are the gates' input parts of every token, in one matrix product already, and the state the sequences begin
with; what leaves are the projected outputs and the last states. torch's own LSTM with projections has no bound, and
ELMo's does; so the steps are written out here, with their backward pass by hand: it keeps the activated gates and the
cells, and gathers the weights' gradients of all steps into one matrix product each. The trade-off: one backward pass a
forward pass, none of higher order.

Tokens lie time-major: the first tokens of all sequences, longest sequence first, then the second tokens of those that
have one, and so on. No step touches a sequence that has ended.

Shapes: N tokens, B sequences, n of them at a step, C cells, P width of the projection.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

# One pass over memory each, where the formulas written out take three.
_sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input
_tanh_backward = torch.ops.aten.tanh_backward
_tanh_backward_into = torch.ops.aten.tanh_backward.grad_input


def run_recurrence(
    gates_N4C: Tensor,
    recurrent_4CP: Tensor,
    projection_PC: Tensor,
    hidden_BP: Tensor,
    cell_BC: Tensor,
    sizes: Sequence[int],
    clip: float | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """(N, P) outputs and the states (B, P), (B, C) after each sequence's last token.

    Args:
        gates_N4C: what the input adds to the gates, biases included: input, forget, candidate, output.
        recurrent_4CP: from the last output to the gates.
        projection_PC: from cells to the output.
        hidden_BP: the outputs before the first token.
        cell_BC: the cells before the first token.
        sizes: how many sequences there are at each step, never more than at the one before.
        clip: the bound on cells and projections; None for none.
    """
    return _Recurrence.apply(  # type: ignore[no-untyped-call, no-any-return]
        gates_N4C, recurrent_4CP, projection_PC, hidden_BP, cell_BC, tuple(sizes), clip
    )


class _Recurrence(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401 (torch's context)
        gates_N4C: Tensor,
        recurrent_4CP: Tensor,
        projection_PC: Tensor,
        hidden_BP: Tensor,
        cell_BC: Tensor,
        sizes: tuple[int, ...],
        clip: float | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        # The many small additions of a recurrence are kept in the weights' own precision, whatever autocast says.
        dtype = recurrent_4CP.dtype
        with torch.autocast(gates_N4C.device.type, enabled=False):
            hidden, cell = hidden_BP.to(dtype, copy=True), cell_BC.to(dtype, copy=True)
            acts_N4C = gates_N4C.to(dtype, copy=True)
            cells_NC = acts_N4C.new_empty(len(acts_N4C), cell.shape[1])
            outs_NP = acts_N4C.new_empty(len(acts_N4C), hidden.shape[1])
            for rows, count in _steps(sizes):
                acts = acts_N4C[rows].addmm_(hidden[:count], recurrent_4CP.t())
                i, f, g, o = _activated(acts)
                c = torch.addcmul(i * g, f, cell[:count], out=cells_NC[rows])
                out = torch.mm(o * _bounded(c, clip).tanh(), projection_PC.t(), out=outs_NP[rows])
                hidden[:count], cell[:count] = _bounded(out, clip), c
        ctx.save_for_backward(acts_N4C, cells_NC, outs_NP, recurrent_4CP, projection_PC, hidden_BP, cell_BC)
        ctx.sizes, ctx.clip, ctx.gates_dtype = sizes, clip, gates_N4C.dtype
        return outs_NP, hidden, cell

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_outs_NP: Tensor, grad_hidden_BP: Tensor, grad_cell_BC: Tensor) -> tuple[Any, ...]:  # noqa: ANN401
        acts_N4C, cells_NC, outs_NP, recurrent_4CP, projection_PC, hidden_BP, cell_BC = ctx.saved_tensors
        tanhs_NC = cells_NC.tanh()
        before_NP, before_NC = _before(outs_NP, hidden_BP, ctx.sizes), _before(cells_NC, cell_BC, ctx.sizes)
        d_hidden, d_cell = grad_hidden_BP.clone(), grad_cell_BC.clone()
        d_gates_N4C, d_outs_NP = torch.empty_like(acts_N4C), grad_outs_NP.clone()
        for rows, count in reversed(list(_steps(ctx.sizes))):
            i, f, g, o = acts_N4C[rows].chunk(4, dim=1)
            d_out = _passed(d_outs_NP[rows].add_(d_hidden[:count]), outs_NP[rows], ctx.clip)
            d_m = d_out @ projection_PC
            tanh = tanhs_NC[rows]
            d_c = _tanh_backward(d_m * o, tanh).add_(d_cell[:count])
            d_c = _passed(d_c, cells_NC[rows], ctx.clip)
            d_i, d_f, d_g, d_o = d_gates_N4C[rows].chunk(4, dim=1)
            _sigmoid_backward(d_c * g, i, grad_input=d_i)
            _sigmoid_backward(d_c * before_NC[rows], f, grad_input=d_f)
            _tanh_backward_into(d_c * i, g, grad_input=d_g)
            _sigmoid_backward(d_m.mul_(tanh), o, grad_input=d_o)
            torch.mul(d_c, f, out=d_cell[:count])
            torch.mm(d_gates_N4C[rows], recurrent_4CP, out=d_hidden[:count])
        o_NC = acts_N4C.chunk(4, dim=1)[3]
        d_recurrent = d_gates_N4C.t() @ before_NP
        d_projection = d_outs_NP.t() @ (o_NC * tanhs_NC)
        return (d_gates_N4C.to(ctx.gates_dtype), d_recurrent, d_projection, d_hidden, d_cell, None, None)


def _steps(sizes: Sequence[int]) -> Iterator[tuple[slice, int]]:
    """The rows of each step, and how many sequences it has."""
    first = 0
    for count in sizes:
        yield slice(first, first + count), count
        first += count


def _activated(acts_n4C: Tensor) -> tuple[Tensor, ...]:
    """Input, forget, candidate and output gates, activated where they lie."""
    cells = acts_n4C.shape[1] // 4
    acts_n4C[:, : 2 * cells].sigmoid_()
    acts_n4C[:, 2 * cells : 3 * cells].tanh_()
    acts_n4C[:, 3 * cells :].sigmoid_()
    return acts_n4C.chunk(4, dim=1)


def _bounded(x: Tensor, clip: float | None) -> Tensor:
    return x if clip is None else x.clamp_(-clip, clip)


def _passed(grad: Tensor, value: Tensor, clip: float | None) -> Tensor:
    """The gradient, in place, where the value was not cut off: there it lies within the bound, else on it."""
    return grad if clip is None else grad.mul_(value.abs() < clip)


def _before(x_NC: Tensor, first_BC: Tensor, sizes: Sequence[int]) -> Tensor:
    """(N, …) what each token's sequence had one step earlier: at the first step what it began with."""
    parts = [first_BC[: sizes[0]].to(x_NC.dtype)]
    starts = [rows for rows, _ in _steps(sizes)]
    parts += [x_NC[rows.start : rows.start + count] for rows, count in zip(starts, sizes[1:], strict=False)]
    return torch.cat(parts)
