"""ELMo's LSTM over packed sequences: with projections, clipped cells and outputs, and residuals between layers.

The recurrence is written out with its backward pass, since torch's LSTM has no clipping. It runs step by step over all
sequences that are not finished yet, so tokens are put in time-major order first.

Shapes: B sequences, N tokens, I width of the input, C cells, P width of the output.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from spanlab.encoder.layers import Dropout


@dataclass(frozen=True)
class TimeMajor:
    """Packed tokens in the order of their time steps."""

    order_N: Tensor
    """The index of each packed token in that order: all first tokens, longest sequence first, then all second ones."""
    inverse_N: Tensor
    """The inverse: where each packed token comes in that order."""
    rows_B: Tensor
    """The sequences, longest first."""
    sizes: tuple[int, ...]
    """How many sequences there are at each step."""


def time_major(lengths: Sequence[int], device: torch.device | str, *, backward: bool = False) -> TimeMajor:
    """The order for sequences of these lengths; `backward` starts with the last token of each."""
    lengths_B = torch.tensor(lengths)
    rows_B = torch.argsort(lengths_B, descending=True, stable=True)
    sorted_B = lengths_B[rows_B]
    starts_B = (torch.cumsum(lengths_B, 0) - lengths_B)[rows_B]
    steps_T = torch.arange(int(sorted_B[0]))
    going_TB = steps_T[:, None] < sorted_B
    offsets_TB = sorted_B - 1 - steps_T[:, None] if backward else steps_T[:, None].expand(-1, len(rows_B))
    order_N = (starts_B + offsets_TB)[going_TB]
    inverse_N = torch.empty_like(order_N)
    inverse_N[order_N] = torch.arange(len(order_N))
    sizes = tuple(going_TB.sum(dim=1).tolist())
    return TimeMajor(order_N.to(device), inverse_N.to(device), rows_B.to(device), sizes)


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
        # The many small additions of a recurrence are done in the precision of the weights, whatever autocast says.
        dtype = recurrent_4CP.dtype
        with torch.autocast(gates_N4C.device.type, enabled=False):
            hidden, cell = hidden_BP.to(dtype, copy=True), cell_BC.to(dtype, copy=True)
            acts_N4C = gates_N4C.to(dtype, copy=True)
            cells_NC = acts_N4C.new_empty(len(acts_N4C), cell.shape[1])
            outs_NP = acts_N4C.new_empty(len(acts_N4C), hidden.shape[1])
            for rows, count in _steps(sizes):
                acts = acts_N4C[rows].addmm_(hidden[:count], recurrent_4CP.t())
                i, f, g, o = _activate_gates(acts)
                c = torch.addcmul(i * g, f, cell[:count], out=cells_NC[rows])
                out = torch.mm(o * _clip(c, clip).tanh(), projection_PC.t(), out=outs_NP[rows])
                hidden[:count], cell[:count] = _clip(out, clip), c
        ctx.save_for_backward(acts_N4C, cells_NC, outs_NP, recurrent_4CP, projection_PC, hidden_BP, cell_BC)
        ctx.sizes, ctx.clip, ctx.gates_dtype = sizes, clip, gates_N4C.dtype
        return outs_NP, hidden, cell

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_outs_NP: Tensor, grad_hidden_BP: Tensor, grad_cell_BC: Tensor) -> tuple[Any, ...]:  # noqa: ANN401
        acts_N4C, cells_NC, outs_NP, recurrent_4CP, projection_PC, hidden_BP, cell_BC = ctx.saved_tensors
        tanhs_NC = cells_NC.tanh()
        before_NP, before_NC = _previous(outs_NP, hidden_BP, ctx.sizes), _previous(cells_NC, cell_BC, ctx.sizes)
        d_hidden, d_cell = grad_hidden_BP.clone(), grad_cell_BC.clone()
        d_gates_N4C, d_outs_NP = torch.empty_like(acts_N4C), grad_outs_NP.clone()
        for rows, count in reversed(list(_steps(ctx.sizes))):
            i, f, g, o = acts_N4C[rows].chunk(4, dim=1)
            d_out = _clip_gradient(d_outs_NP[rows].add_(d_hidden[:count]), outs_NP[rows], ctx.clip)
            d_m = d_out @ projection_PC
            tanh = tanhs_NC[rows]
            d_c = _tanh_backward(d_m * o, tanh).add_(d_cell[:count])
            d_c = _clip_gradient(d_c, cells_NC[rows], ctx.clip)
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


def _activate_gates(acts_n4C: Tensor) -> tuple[Tensor, ...]:
    """Input, forget, candidate and output gates, activated in place."""
    cells = acts_n4C.shape[1] // 4
    acts_n4C[:, : 2 * cells].sigmoid_()
    acts_n4C[:, 2 * cells : 3 * cells].tanh_()
    acts_n4C[:, 3 * cells :].sigmoid_()
    return acts_n4C.chunk(4, dim=1)


def _clip(x: Tensor, clip: float | None) -> Tensor:
    return x if clip is None else x.clamp_(-clip, clip)


def _clip_gradient(grad: Tensor, value: Tensor, clip: float | None) -> Tensor:
    """The gradient, in place, where the value was not clipped: there it lies within the bound, else on it."""
    return grad if clip is None else grad.mul_(value.abs() < clip)


def _previous(x_NC: Tensor, first_BC: Tensor, sizes: Sequence[int]) -> Tensor:
    """(N, …) what each token's sequence had one step earlier: at the first step its initial state."""
    parts = [first_BC[: sizes[0]].to(x_NC.dtype)]
    starts = [rows for rows, _ in _steps(sizes)]
    parts += [x_NC[rows.start : rows.start + count] for rows, count in zip(starts, sizes[1:], strict=False)]
    return torch.cat(parts)


@dataclass(frozen=True)
class LSTMState:
    """The state of one layer after the last token of each sequence."""

    hidden_BP: Tensor
    cell_BC: Tensor

    def rows(self, rows_B: Tensor) -> "LSTMState":
        """The state of the sequences at `rows_B`."""
        return LSTMState(self.hidden_BP.index_select(0, rows_B), self.cell_BC.index_select(0, rows_B))


class ProjectedLSTM(nn.Module):
    """One LSTM layer whose output is projected to a smaller width (Sak et al. 2014)."""

    def __init__(self, input_width: int, cells: int, width: int, *, clip: float | None) -> None:
        """`clip` bounds cells and projections; None for no bound."""
        super().__init__()
        self.clip = clip
        self.input = nn.Linear(input_width, 4 * cells)
        self.recurrent = nn.Parameter(torch.empty(4 * cells, width))
        self.projection = nn.Parameter(torch.empty(width, cells))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """As published: uniform by the number of inputs and outputs, with the bias of the forget gate at 1."""
        cells = self.projection.shape[1]
        inputs, outputs = self.input.in_features + self.recurrent.shape[1], 4 * cells
        bound = math.sqrt(6.0 / (inputs + outputs))
        nn.init.uniform_(self.input.weight, -bound, bound)
        nn.init.uniform_(self.recurrent, -bound, bound)
        nn.init.xavier_uniform_(self.projection)
        nn.init.zeros_(self.input.bias)
        nn.init.ones_(self.input.bias[cells : 2 * cells])

    def initial_state(self, sequences: int) -> LSTMState:
        """The state before the first token."""
        width, cells = self.projection.shape
        return LSTMState(self.projection.new_zeros(sequences, width), self.projection.new_zeros(sequences, cells))

    def forward(self, x_NI: Tensor, state: LSTMState, sizes: Sequence[int]) -> tuple[Tensor, LSTMState]:
        """(N, P) outputs of time-major tokens, and the state after them; its rows are in the order of `TimeMajor`."""
        gates_N4C = self.input(x_NI)
        outs_NP, hidden_BP, cell_BC = run_recurrence(
            gates_N4C, self.recurrent, self.projection, state.hidden_BP, state.cell_BC, sizes, self.clip
        )
        return outs_NP, LSTMState(hidden_BP, cell_BC)


class DirectionalLSTM(nn.Module):
    """The layers of one direction."""

    def __init__(self, layers: int, cells: int, width: int, *, clip: float | None, dropout: float) -> None:
        super().__init__()
        self.layers = nn.ModuleList(ProjectedLSTM(width, cells, width, clip=clip) for _ in range(layers))
        self.dropout = Dropout(dropout)

    def initial_states(self, sequences: int) -> list[LSTMState]:
        """The states before the first token."""
        return [cast("ProjectedLSTM", layer).initial_state(sequences) for layer in self.layers]

    def forward(
        self, x_NP: Tensor, order: TimeMajor, states: Sequence[LSTMState] | None = None
    ) -> tuple[list[Tensor], list[LSTMState]]:
        """(N, P) the output of each layer for packed tokens, and the states after them, in the order of sequences."""
        x_NP = x_NP.index_select(0, order.order_N)
        states = self.initial_states(len(order.rows_B)) if states is None else states
        outputs, after = [], []
        back_B = torch.argsort(order.rows_B)
        for index, (layer, state) in enumerate(zip(self.layers, states, strict=True)):
            dropped_NP = self.dropout(x_NP)
            out_NP, last = layer(dropped_NP, state.rows(order.rows_B), order.sizes)
            x_NP = out_NP if index == 0 else out_NP + dropped_NP
            outputs.append(x_NP.index_select(0, order.inverse_N))
            after.append(last.rows(back_B))
        return outputs, after
