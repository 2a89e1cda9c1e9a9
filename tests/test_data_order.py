"""Each sample once an epoch whatever the processes do: exhaustively for small epochs, by `benchmarks.data_order` for 10
billion samples; and the benchmark finds what is wrong."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import data_order
from benchmarks.data_order import Phase, check_permutation, check_readers, check_shares, positions_of
from spanlab.arrays import Integers
from spanlab.corpus import SampleOrder
from spanlab.pretraining.batches import shard_step

BILLIONS = 10_000_000_000


@settings(deadline=None, max_examples=80)
@given(st.integers(1, 2000), st.integers(1, 64), st.lists(st.integers(1, 16), min_size=1, max_size=4), st.data())
def test_resharding_loses_and_repeats_no_sample(
    count: int, batch: int, processes: list[int], data: st.DataObject
) -> None:
    order, steps = SampleOrder(count, 3), -(-count // batch)
    processes = [min(number, batch) for number in processes]
    changes = sorted(
        data.draw(st.lists(st.integers(0, steps), min_size=len(processes) - 1, max_size=len(processes) - 1))
    )
    read = []
    for step in range(steps):
        world_size = processes[sum(step >= change for change in changes)]
        positions = np.arange(step * batch, (step + 1) * batch)
        shares = [shard_step(positions, 1, rank=rank, world_size=world_size)[0] for rank in range(world_size)]
        lengths = [len(share) for share in shares]
        assert max(lengths) - min(lengths) <= 1
        for share in shares:
            epochs, samples = order.at(share)
            read += samples[epochs == 0].tolist()
    assert sorted(read) == list(range(count))


@given(st.integers(1, 300), st.integers(1, 40), st.integers(1, 8))
def test_shares_are_those_of_array_split(size: int, world_size: int, micro_batches: int) -> None:
    """Runs that are resumed must see the shares that they began with: these may never change."""
    pieces = world_size * micro_batches
    samples = np.arange(7, 7 + max(size, pieces))
    expected = np.array_split(samples, pieces)
    for rank in range(world_size):
        shares = shard_step(samples, micro_batches, rank=rank, world_size=world_size)
        assert [share.tolist() for share in shares] == [
            expected[micro * world_size + rank].tolist() for micro in range(micro_batches)
        ]


@given(st.integers(1, 3000), st.integers(0, 50))
def test_the_inverse_finds_every_position(count: int, epoch: int) -> None:
    order = SampleOrder(count, 11)
    assert positions_of(order, order.indices(epoch, 0, count), epoch).tolist() == list(range(count))


def test_ten_billion_samples_on_changing_processes() -> None:
    order, draw = SampleOrder(BILLIONS, 1), np.random.default_rng(0)
    check_permutation(order, 2000, draw, epoch=5)
    phases = [Phase(0, 1024), Phase(400_000, 640), Phase(900_000, 1000)]
    assert [check_shares(phase, 1_220_704, 8192, draw) for phase in phases] == [(8, 8), (12, 13), (8, 9)]
    assert check_readers(order, phases, 8192, 6, draw) == 6


class Repeating(SampleOrder):
    """An order that reads two samples twice and two never."""

    def at(self, positions: Integers) -> tuple[Integers, Integers]:
        epochs, samples = super().at(positions)
        return epochs, np.where(samples < 2, samples + 2, samples)


def test_what_is_wrong_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(0)
    with pytest.raises(AssertionError, match=r"two positions have one sample|a sample has no position"):
        check_permutation(Repeating(1000, 1), 500, draw)
    with pytest.raises(AssertionError, match=r"is read by [02] processes"):
        check_readers(Repeating(100, 1), [Phase(0, 4)], 100, 200, draw)
    monkeypatch.setattr(data_order, "shard_step", lambda samples, *_, rank, world_size: [samples[rank::world_size]])
    with pytest.raises(AssertionError, match="is not tiled by 4 processes"):
        check_shares(Phase(0, 4), 10, 100, draw)
