"""LSTM layers with a projection, one above the other, that read packed sequences in one direction.

As in ELMo: cells are many and what leaves a layer is narrow; cells and projections are cut off at a bound; from the
second layer on, a layer's input is added to its output.

Shapes: N tokens, B sequences, C cells, P width of the projection.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from spanlab.encoder.dropout import Dropout
from spanlab.encoder.elmo.recurrence import run_recurrence
from spanlab.encoder.elmo.time_major import TimeMajor


@dataclass(frozen=True)
class LSTMState:
    """What one layer knows after the last token of each sequence."""

    hidden_BP: Tensor
    cell_BC: Tensor

    def rows(self, rows_B: Tensor) -> "LSTMState":
        """The state of the sequences at `rows_B`."""
        return LSTMState(self.hidden_BP.index_select(0, rows_B), self.cell_BC.index_select(0, rows_B))


class ProjectedLSTM(nn.Module):
    """One layer."""

    def __init__(self, input_width: int, cells: int, width: int, *, clip: float | None) -> None:
        """`clip` bounds cells and projections; None for no bound."""
        super().__init__()
        self.clip = clip
        self.input = nn.Linear(input_width, 4 * cells)
        self.recurrent = nn.Parameter(torch.empty(4 * cells, width))
        self.projection = nn.Parameter(torch.empty(width, cells))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """As published: uniform by the number of inputs and outputs, and a forget gate that begins open."""
        cells = self.projection.shape[1]
        inputs, outputs = self.input.in_features + self.recurrent.shape[1], 4 * cells
        bound = math.sqrt(6.0 / (inputs + outputs))
        nn.init.uniform_(self.input.weight, -bound, bound)
        nn.init.uniform_(self.recurrent, -bound, bound)
        nn.init.xavier_uniform_(self.projection)
        nn.init.zeros_(self.input.bias)
        nn.init.ones_(self.input.bias[cells : 2 * cells])

    def begin(self, sequences: int) -> LSTMState:
        """The state before anything was read."""
        width, cells = self.projection.shape
        return LSTMState(self.projection.new_zeros(sequences, width), self.projection.new_zeros(sequences, cells))

    def forward(self, x_NI: Tensor, state: LSTMState, sizes: Sequence[int]) -> tuple[Tensor, LSTMState]:
        """(N, P) outputs of time-major tokens, and the state after them; rows of states are in the order of reading."""
        gates_N4C = self.input(x_NI)
        outs_NP, hidden_BP, cell_BC = run_recurrence(
            gates_N4C, self.recurrent, self.projection, state.hidden_BP, state.cell_BC, sizes, self.clip
        )
        return outs_NP, LSTMState(hidden_BP, cell_BC)


class Reader(nn.Module):
    """The layers of one direction."""

    def __init__(self, layers: int, cells: int, width: int, *, clip: float | None, dropout: float) -> None:
        super().__init__()
        self.layers = nn.ModuleList(ProjectedLSTM(width, cells, width, clip=clip) for _ in range(layers))
        self.dropout = Dropout(dropout)

    def begin(self, sequences: int) -> list[LSTMState]:
        """The states before anything was read."""
        return [cast("ProjectedLSTM", layer).begin(sequences) for layer in self.layers]

    def forward(
        self, x_NP: Tensor, order: TimeMajor, states: Sequence[LSTMState] | None = None
    ) -> tuple[list[Tensor], list[LSTMState]]:
        """(N, P) the output of each layer for packed tokens, and the states after them, in the order of sequences."""
        x_NP = x_NP.index_select(0, order.order_N)
        states = self.begin(len(order.rows_B)) if states is None else states
        outputs, after = [], []
        back_B = torch.argsort(order.rows_B)
        for number, (layer, state) in enumerate(zip(self.layers, states, strict=True)):
            dropped_NP = self.dropout(x_NP)
            out_NP, last = layer(dropped_NP, state.rows(order.rows_B), order.sizes)
            x_NP = out_NP if number == 0 else out_NP + dropped_NP
            outputs.append(x_NP.index_select(0, order.places_N))
            after.append(last.rows(back_B))
        return outputs, after
