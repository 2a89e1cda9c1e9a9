"""Batches of one task and of several: every sample once an epoch, a pure function of the step and the seed."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spanlab.errors import ConfigError
from spanlab.finetuning.batches import PROPORTIONAL, UNIFORM, MixedBatches, TaskBatches, share_steps
from tests.tasks.samples import samples_of


def data_of(lengths: list[int], **changes: object) -> TaskBatches:
    options = {"task": "t", "batch_size": 4, "batch_tokens": 50, **changes}
    return TaskBatches(samples_of(lengths), **options)  # type: ignore[arg-type]


def examples(data: TaskBatches, step: int, part: int = 0, parts: int = 1) -> list[int]:
    return [sample.example for batch in data.step(step, rank=part, world_size=parts) for sample in batch.samples]


@settings(max_examples=50, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 60), min_size=2, max_size=300),
    batch_size=st.integers(2, 16),
    grouped=st.booleans(),
    epoch=st.integers(0, 3),
)
def test_an_epoch_holds_every_sample_once(lengths: list[int], batch_size: int, grouped: bool, epoch: int) -> None:
    data = data_of(lengths, batch_size=batch_size, group_by_length=grouped)
    steps = data.steps_per_epoch
    drawn = [examples(data, epoch * steps + step) for step in range(steps)]
    assert sorted(number for step in drawn for number in step) == list(range(len(lengths)))
    sizes = {len(step) for step in drawn}
    assert max(sizes) <= batch_size
    assert max(sizes) - min(sizes) <= 1
    assert MixedBatches([data]).epoch(epoch * steps) == epoch


def test_steps_are_a_function_of_the_seed_alone() -> None:
    lengths = list(range(1, 120))
    one, other = data_of(lengths, seed=1), data_of(lengths, seed=1)
    assert [examples(one, step) for step in (70, 3, 40)] == [examples(other, step) for step in (70, 3, 40)]
    assert [examples(one, step) for step in range(9)] != [examples(data_of(lengths, seed=2), s) for s in range(9)]


@pytest.mark.parametrize("parts", [2, 3])
def test_processes_share_a_step(parts: int) -> None:
    data = data_of(list(range(1, 42)), batch_size=8, batch_tokens=30)
    for step in range(20):
        shares = [data.step(step, rank=part, world_size=parts) for part in range(parts)]
        assert len({len(share) for share in shares}) == 1
        together = [sample.example for share in shares for batch in share for sample in batch.samples]
        assert sorted(together) == sorted(examples(data, step))


def test_micro_batches_keep_to_their_tokens() -> None:
    data = data_of([9] * 40, batch_size=20, batch_tokens=50)
    batches = data.step(0, rank=0, world_size=1)
    assert all(MixedBatches([data]).tokens(batch) <= 50 for batch in batches)
    assert len(data_of([9] * 40, batch_size=20, batch_tokens=10**6, accumulate=3).step(0, rank=0, world_size=1)) == 3
    alone = data_of([90] * 8, batch_size=4, batch_tokens=50).step(0, rank=0, world_size=1)
    assert [len(batch.samples) for batch in alone] == [1, 1, 1, 1]


def test_grouping_puts_equal_lengths_together() -> None:
    lengths = np.random.default_rng(0).integers(1, 100, 400).tolist()

    def spread(grouped: bool) -> float:
        data = data_of(lengths, batch_size=8, group_by_length=grouped)
        return float(np.mean([np.ptp([lengths[n] for n in examples(data, step)]) for step in range(50)]))

    assert spread(True) < spread(False) / 5


def test_more_processes_than_samples() -> None:
    with pytest.raises(ConfigError, match="5 processes"):
        data_of([3, 3, 3]).step(0, rank=0, world_size=5)


def test_one_task_has_every_step() -> None:
    data = data_of(list(range(1, 42)), batch_size=8, batch_tokens=30)
    for exponent in (0.0, 0.5, 1.0):
        alone = MixedBatches([data], exponent=exponent)
        assert alone.steps_per_epoch == data.steps_per_epoch
        for step in range(20):
            batches = alone.step(step, rank=0, world_size=1)
            assert [sample.example for batch in batches for sample in batch.samples] == examples(data, step)


# ---- several tasks

SIZES = st.lists(st.integers(1, 40), min_size=1, max_size=4)


def mixed(sizes: list[int], exponent: float, seed: int = 0) -> MixedBatches:
    tasks = [
        TaskBatches(
            samples_of([3] * size, seed=number), task=f"task-{number}", batch_size=4, batch_tokens=100, seed=seed
        )
        for number, size in enumerate(sizes)
    ]
    return MixedBatches(tasks, exponent=exponent, seed=seed)


def seen(data: MixedBatches, first: int, last: int) -> Counter[tuple[str, int]]:
    return Counter(
        (batch.task, sample.example)
        for number in range(first, last)
        for batch in data.step(number, rank=0, world_size=1)
        for sample in batch.samples
    )


@settings(max_examples=30, deadline=None)
@given(SIZES, st.integers(0, 5))
def test_proportional_turns_go_through_every_sample_once_an_epoch(sizes: list[int], seed: int) -> None:
    data = mixed(sizes, PROPORTIONAL, seed)
    steps = round(data.steps_per_epoch)
    for epoch in range(2):
        found = seen(data, epoch * steps, (epoch + 1) * steps)
        assert set(found.values()) == {1}
        assert len(found) == sum(sizes)
    assert data.epoch(steps) == 1.0


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 10_000), min_size=1, max_size=6), st.floats(0, 1), st.integers(20, 500))
def test_shares_are_those_asked_for(sizes: list[int], exponent: float, steps: int) -> None:
    turns = share_steps(sizes, exponent, steps)
    powers = [size**exponent for size in sizes]
    assert all(turn >= 1 for turn in turns)
    for turn, power in zip(turns, powers, strict=True):
        assert turn == 1 or abs(turn - steps * power / sum(powers)) < 1
    assert steps <= sum(turns) < steps + len(sizes)


def test_uniform_turns_and_small_tasks_that_begin_anew() -> None:
    data = mixed([4, 76], UNIFORM)
    assert data.task_steps == [10, 10]
    found = seen(data, 0, 20)
    assert {found["task-0", example] for example in range(4)} == {10}
    assert sum(count for (task, _), count in found.items() if task == "task-1") == 40


def test_a_step_is_one_task_and_the_same_whenever_it_is_asked_for() -> None:
    data, again = mixed([9, 21, 33], 0.5), mixed([9, 21, 33], 0.5)
    last = round(2.5 * data.steps_per_epoch)
    for number in reversed(range(last)):
        batches = data.step(number, rank=0, world_size=1)
        assert len({batch.task for batch in batches}) == 1
        others = again.step(number, rank=0, world_size=1)
        assert [id_of(batch) for batch in batches] == [id_of(batch) for batch in others]
        halves = [
            sample.example
            for part in range(2)
            for b in data.step(number, rank=part, world_size=2)
            for sample in b.samples
        ]
        assert sorted(halves) == sorted(sample.example for batch in batches for sample in batch.samples)
    orders = [[data.step(n, rank=0, world_size=1)[0].task for n in range(10 * e, 10 * e + 10)] for e in range(2)]
    assert orders[0] != orders[1]
    assert data.describe(batches[0])["task"] == batches[0].task


def id_of(batch: object) -> tuple[str, list[int]]:
    return batch.task, [sample.example for sample in batch.samples]  # type: ignore[attr-defined]
