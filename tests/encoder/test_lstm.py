"""The projected LSTM: a plain cell step by step, torch's own where there is no bound, and gradients by differences."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from spanlab.encoder.elmo.lstm import DirectionalLSTM, LSTMState, ProjectedLSTM, run_recurrence, time_major

CELLS, WIDTH = 6, 4


def layer_of(clip: float | None, *, seed: int = 0) -> ProjectedLSTM:
    torch.manual_seed(seed)
    layer = ProjectedLSTM(WIDTH, CELLS, WIDTH, clip=clip).double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_()
    return layer


def plain_cell(layer: ProjectedLSTM, x: Tensor, hidden: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """One token of one sequence, gate by gate."""
    gates = layer.input.weight @ x + layer.input.bias + layer.recurrent @ hidden
    i, f, g, o = gates[:CELLS], gates[CELLS : 2 * CELLS], gates[2 * CELLS : 3 * CELLS], gates[3 * CELLS :]
    cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
    cell = cell if layer.clip is None else cell.clamp(-layer.clip, layer.clip)
    hidden = layer.projection @ (torch.sigmoid(o) * torch.tanh(cell))
    return hidden if layer.clip is None else hidden.clamp(-layer.clip, layer.clip), cell


def read_plainly(layer: ProjectedLSTM, sequences: list[Tensor], state: LSTMState) -> tuple[list[Tensor], LSTMState]:
    outs, hiddens, cells = [], [], []
    for row, x in enumerate(sequences):
        hidden, cell = state.hidden_BP[row], state.cell_BC[row]
        for token in x:
            hidden, cell = plain_cell(layer, token, hidden, cell)
            outs.append(hidden)
        hiddens.append(hidden)
        cells.append(cell)
    return outs, LSTMState(torch.stack(hiddens), torch.stack(cells))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=5), st.sampled_from([None, 0.25, 3.0]), st.booleans())
def test_outputs_states_and_gradients_are_those_of_a_plain_cell(
    lengths: list[int], clip: float | None, backward: bool
) -> None:
    layer = layer_of(clip)
    torch.manual_seed(sum(lengths))
    sequences = [torch.randn(length, WIDTH, dtype=torch.float64, requires_grad=True) for length in lengths]
    rows = len(lengths)
    start = LSTMState(
        torch.randn(rows, WIDTH, dtype=torch.float64, requires_grad=True),
        torch.randn(rows, CELLS, dtype=torch.float64, requires_grad=True),
    )
    order = time_major(lengths, "cpu", backward=backward)
    out, last = layer(torch.cat(sequences)[order.order_N], start.rows(order.rows_B), order.sizes)
    out, last = out[order.inverse_N], last.rows(torch.argsort(order.rows_B))
    ways = [x.flip(0) for x in sequences] if backward else sequences
    expected, expected_last = read_plainly(layer, ways, start)
    pieces = torch.stack(expected).split(lengths)
    expected_out = torch.cat([piece.flip(0) for piece in pieces]) if backward else torch.cat(list(pieces))
    torch.testing.assert_close(out, expected_out)
    torch.testing.assert_close(last.hidden_BP, expected_last.hidden_BP)
    torch.testing.assert_close(last.cell_BC, expected_last.cell_BC)

    wanted = [*sequences, start.hidden_BP, start.cell_BC, *layer.parameters()]
    weights = torch.randn_like(out)

    def total(outs: Tensor, state: LSTMState) -> Tensor:
        return (outs * weights).sum() + (state.hidden_BP**2).sum() + state.cell_BC.sum()

    ours = torch.autograd.grad(total(out, last), wanted)
    theirs = torch.autograd.grad(total(expected_out, expected_last), wanted)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other)


def test_the_bound_bites() -> None:
    free, bounded = layer_of(None), layer_of(0.25)
    x, state = torch.randn(20, WIDTH, dtype=torch.float64), free.initial_state(1)
    out, last = free(x, state, [1] * 20)
    cut, cut_last = bounded(x, state, [1] * 20)
    assert out.abs().max() > 0.25
    assert last.cell_BC.abs().max() > 0.25
    assert cut.abs().max() == 0.25
    assert cut_last.cell_BC.abs().max() <= 0.25


@pytest.mark.parametrize("clip", [None, 0.3])
def test_gradients_by_differences(clip: float | None) -> None:
    torch.manual_seed(4)
    sizes = (3, 2, 2, 1)

    def random(*shape: int) -> Tensor:
        return torch.randn(*shape, dtype=torch.float64, requires_grad=True)

    inputs = (random(sum(sizes), 4 * CELLS), random(4 * CELLS, WIDTH), random(WIDTH, CELLS), random(3, WIDTH))
    cell = random(3, CELLS)
    assert torch.autograd.gradcheck(lambda *args: run_recurrence(*args, sizes, clip), (*inputs, cell))


def test_without_a_bound_it_is_the_lstm_of_torch() -> None:
    layer = layer_of(None).float()
    theirs = nn.LSTM(WIDTH, CELLS, proj_size=WIDTH)
    with torch.no_grad():
        theirs.weight_ih_l0.copy_(layer.input.weight)
        theirs.bias_ih_l0.copy_(layer.input.bias)
        theirs.bias_hh_l0.zero_()
        theirs.weight_hh_l0.copy_(layer.recurrent)
        theirs.weight_hr_l0.copy_(layer.projection)
    x = torch.randn(7, 3, WIDTH)
    expected, (hidden, cell) = theirs(x)
    out, last = layer(x.flatten(0, 1), layer.initial_state(3), [3] * 7)
    torch.testing.assert_close(out.view(7, 3, WIDTH), expected)
    torch.testing.assert_close(last.hidden_BP, hidden[0])
    torch.testing.assert_close(last.cell_BC, cell[0])


def test_in_bf16_the_state_stays_in_full_precision() -> None:
    layer = layer_of(3.0).float()
    x = torch.randn(12, WIDTH)
    exact, _ = layer(x, layer.initial_state(2), [2] * 6)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out, last = layer(x, layer.initial_state(2), [2] * 6)
    assert out.dtype == last.cell_BC.dtype == torch.float32
    torch.testing.assert_close(out, exact, atol=0.05, rtol=0.05)
    out.sum().backward()
    assert layer.input.weight.grad is not None
    assert torch.isfinite(layer.input.weight.grad).all()


def test_three_segments_equal_one() -> None:
    torch.manual_seed(0)
    reader = DirectionalLSTM(2, CELLS, WIDTH, clip=0.5, dropout=0.0)
    lengths = [[4, 2, 3], [1, 5, 3], [2, 2, 6]]
    wholes = [torch.randn(sum(parts), WIDTH) for parts in zip(*lengths, strict=True)]
    expected, expected_states = reader(torch.cat(wholes), time_major([len(x) for x in wholes], "cpu"))
    states, done, found = None, [0, 0, 0], [[] for _ in wholes]
    for parts in lengths:
        pieces = [x[a : a + size] for x, a, size in zip(wholes, done, parts, strict=True)]
        layers, states = reader(torch.cat(pieces), time_major(parts, "cpu"), states)
        for row, piece in enumerate(layers[-1].split(parts)):
            found[row].append(piece)
            done[row] += parts[row]
    torch.testing.assert_close(torch.cat([torch.cat(pieces) for pieces in found]), expected[-1])
    assert states is not None
    for one, other in zip(states, expected_states, strict=True):
        torch.testing.assert_close(one.cell_BC, other.cell_BC)
        torch.testing.assert_close(one.hidden_BP, other.hidden_BP)


def test_a_layer_above_adds_its_input() -> None:
    torch.manual_seed(0)
    reader = DirectionalLSTM(2, CELLS, WIDTH, clip=3.0, dropout=0.0)
    x, order = torch.randn(5, WIDTH), time_major([5], "cpu")
    (first, second), _ = reader(x, order)
    lower, upper = reader.layers
    assert isinstance(lower, ProjectedLSTM)
    assert isinstance(upper, ProjectedLSTM)
    alone, _ = lower(x, lower.initial_state(1), [1] * 5)
    torch.testing.assert_close(first, alone)
    torch.testing.assert_close(second, upper(alone, upper.initial_state(1), [1] * 5)[0] + alone)


@given(st.lists(st.integers(1, 7), min_size=1, max_size=8), st.booleans())
def test_the_order_of_reading(lengths: list[int], backward: bool) -> None:
    order = time_major(lengths, "cpu", backward=backward)
    assert sorted(order.order_N.tolist()) == list(range(sum(lengths)))
    assert order.order_N[order.inverse_N].tolist() == list(range(sum(lengths)))
    assert all(one >= other for one, other in pairwise(order.sizes))
    starts = [sum(lengths[:row]) for row in range(len(lengths))]
    expected = [
        starts[row] + (lengths[row] - 1 - step if backward else step)
        for step in range(max(lengths))
        for row in order.rows_B.tolist()
        if step < lengths[row]
    ]
    assert order.order_N.tolist() == expected
