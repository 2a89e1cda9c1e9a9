"""What is carried belongs to its stream, whoever works on it."""

import numpy as np
import pytest
import torch
from torch import Tensor

from spanlab.errors import InputError
from spanlab.objectives import RecurrentState

COLUMNS = 4
CPU = torch.device("cpu")


def at(step: int, *streams: int) -> np.ndarray:
    return step * COLUMNS + np.array(streams)


def rows(step: int, *streams: int) -> dict[str, Tensor]:
    """Rows that say whose they are: (B, 2) of the stream and the step."""
    return {"state": torch.tensor([[float(stream), float(step)] for stream in streams])}


def test_a_group_is_handed_on_as_it_is() -> None:
    carried, left = RecurrentState(), rows(0, 0, 1)
    assert carried.get(at(0, 0, 1), COLUMNS, CPU) is None
    carried.put(at(0, 0, 1), COLUMNS, left)
    begun = carried.get(at(1, 0, 1), COLUMNS, CPU)
    assert begun is not None
    assert begun["state"].data_ptr() == left["state"].data_ptr()


def test_nothing_is_carried_into_a_first_step_over_a_gap_or_without_streams() -> None:
    carried = RecurrentState()
    carried.put(at(0, 0, 1), COLUMNS, rows(0, 0, 1))
    for indices, columns in ((at(0, 0, 1), COLUMNS), (at(2, 0, 1), COLUMNS), (at(1, 0, 2), COLUMNS), (at(1, 0, 1), 0)):
        assert carried.get(indices, columns, CPU) is None
    carried.put(at(1, 0, 1), 0, rows(9, 0, 1))
    assert carried.tensors()["0.step"] == 1
    with pytest.raises(InputError, match="at the same step"):
        carried.get(np.array([0, COLUMNS + 1]), COLUMNS, CPU)


def test_streams_may_be_dealt_out_anew_within_a_step() -> None:
    carried = RecurrentState()
    carried.put(at(0, 0, 1, 2, 3), COLUMNS, rows(0, 0, 1, 2, 3))
    for pair in ((3, 1), (0, 2)):  # the first pair is kept before the second is read
        begun = carried.get(at(1, *pair), COLUMNS, CPU)
        assert begun is not None
        assert begun["state"].tolist() == rows(0, *pair)["state"].tolist()
        carried.put(at(1, *pair), COLUMNS, rows(1, *pair))
    begun = carried.get(at(2, 0, 1, 2, 3), COLUMNS, CPU)
    assert begun is not None
    assert begun["state"].tolist() == rows(1, 0, 1, 2, 3)["state"].tolist()


def test_a_saved_run_goes_on_with_fewer_processes_and_with_more() -> None:
    processes = [RecurrentState(), RecurrentState()]
    for carried, pair in zip(processes, ((0, 1), (2, 3)), strict=True):
        carried.put(at(4, *pair), COLUMNS, rows(4, *pair))
    saved = {name: tensor for carried in processes for name, tensor in carried.tensors().items()}
    alone = RecurrentState()
    alone.load(saved)
    assert alone.tensors().keys() == saved.keys()
    begun = alone.get(at(5, 0, 1, 2, 3), COLUMNS, CPU)
    assert begun is not None
    assert begun["state"].tolist() == rows(4, 0, 1, 2, 3)["state"].tolist()
    # A process that works on some of the streams saves those alone: of the others it knows only what is over.
    one_of_four = RecurrentState()
    one_of_four.load(saved)
    assert one_of_four.get(at(5, 2), COLUMNS, CPU) is not None
    one_of_four.put(at(5, 2), COLUMNS, rows(5, 2))
    assert set(one_of_four.tensors()) == {"2.state", "2.step"}


def test_what_is_kept_has_no_graph_and_what_is_saved_is_a_copy() -> None:
    carried, weight = RecurrentState(), torch.ones(2, 3, requires_grad=True)
    carried.put(at(0, 0, 1), COLUMNS, {"state": weight * 2})
    saved = carried.tensors()
    assert not saved["0.state"].requires_grad
    saved["0.state"].zero_()
    assert carried.tensors()["0.state"].tolist() == [2.0, 2.0, 2.0]
