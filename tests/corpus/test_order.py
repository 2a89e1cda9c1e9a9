import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanlab.corpus import SampleOrder

KNOWN_ORDER = [162, 111, 794, 808, 573, 315, 254, 136]


@given(st.integers(1, 3000), st.integers(0, 2**63), st.integers(0, 1000))
def test_an_epoch_holds_every_sample_once(count: int, seed: int, epoch: int) -> None:
    indices = SampleOrder(count, seed).indices(epoch, 0, count)
    assert sorted(indices.tolist()) == list(range(count))


@given(st.integers(1, 500), st.integers(0, 100), st.data())
def test_any_position_can_be_asked_first(count: int, epoch: int, data: st.DataObject) -> None:
    order = SampleOrder(count, 5)
    start = data.draw(st.integers(0, count))
    stop = data.draw(st.integers(start, count))
    assert order.indices(epoch, start, stop).tolist() == order.indices(epoch, 0, count)[start:stop].tolist()


@given(st.integers(1, 200), st.integers(1, 7))
def test_ranks_together_see_what_one_process_sees(count: int, ranks: int) -> None:
    order = SampleOrder(count, 0)
    whole = order.indices(2, 0, count)
    for rank in range(min(ranks, count)):
        assert order.indices(2, rank, count, ranks).tolist() == whole[rank::ranks].tolist()


@given(st.integers(1, 50), st.integers(0, 200), st.integers(0, 120), st.integers(1, 4))
def test_samples_run_through_epochs(count: int, start: int, more: int, step: int) -> None:
    order = SampleOrder(count, 9)
    epochs, indices = order.samples(start, start + more, step)
    expected = [
        (position // count, int(order.indices(position // count, position % count, position % count + 1)[0]))
        for position in range(start, start + more, step)
    ]
    assert list(zip(epochs.tolist(), indices.tolist(), strict=True)) == expected


@pytest.mark.parametrize("count", [3, 10, 100])
def test_every_sample_is_as_likely_at_every_position(count: int) -> None:
    epochs = 1000
    order = SampleOrder(count, 0)
    seen = np.zeros((count, count))
    for epoch in range(epochs):
        seen[np.arange(count), order.indices(epoch, 0, count)] += 1
    chi_square = ((seen - epochs / count) ** 2 / (epochs / count)).sum()
    freedom = (count - 1) ** 2
    assert abs(chi_square - freedom) < 5 * (2 * freedom) ** 0.5


def test_neighbours_in_the_order_are_not_neighbours_in_the_corpus() -> None:
    count = 100_000
    indices = SampleOrder(count, 0).indices(0, 0, count)
    steps = np.abs(np.diff(indices))
    assert abs(steps.mean() - count / 3) < count / 100
    assert (steps == 1).mean() < 1e-3
    assert abs(np.corrcoef(indices[:-1], indices[1:])[0, 1]) < 0.02


def test_epochs_and_seeds_give_other_orders() -> None:
    orders = {tuple(SampleOrder(1000, seed).indices(epoch, 0, 50).tolist()) for seed in range(5) for epoch in range(5)}
    assert len(orders) == 25


def test_a_billion_samples_need_no_memory() -> None:
    order = SampleOrder(1_000_000_007, 3)
    far = order.indices(4, 999_999_000, 1_000_000_007)
    assert len(np.unique(far)) == 1007
    assert far.min() >= 0
    assert far.max() < 1_000_000_007
    assert abs(far.mean() / 1_000_000_007 - 0.5) < 0.05


def test_the_order_is_the_same_in_every_version() -> None:
    # A resumed run must see the order it started with: these numbers may never change.
    assert SampleOrder(1000, 42).indices(3, 0, 8).tolist() == KNOWN_ORDER


def test_positions_outside_an_epoch_are_refused() -> None:
    with pytest.raises(ValueError, match="within an epoch of 10"):
        SampleOrder(10, 0).indices(0, 5, 11)
    with pytest.raises(ValueError, match="at least one sample"):
        SampleOrder(0, 0)
