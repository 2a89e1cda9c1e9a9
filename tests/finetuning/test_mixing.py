"""Turns of several tasks: the shares that were asked for, every sample in its turn, a pure function of the step."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from spanlab.finetuning.batches import PROPORTIONAL, UNIFORM, MixedBatches, TaskBatches, share_steps
from tests.tasks.samples import samples_of

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
        for batch in data.step(number, part=0, parts=1)
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
        batches = data.step(number, part=0, parts=1)
        assert len({batch.task for batch in batches}) == 1
        others = again.step(number, part=0, parts=1)
        assert [id_of(batch) for batch in batches] == [id_of(batch) for batch in others]
        halves = [
            sample.example for part in range(2) for b in data.step(number, part=part, parts=2) for sample in b.samples
        ]
        assert sorted(halves) == sorted(sample.example for batch in batches for sample in batch.samples)
    orders = [[data.step(n, part=0, parts=1)[0].task for n in range(10 * e, 10 * e + 10)] for e in range(2)]
    assert orders[0] != orders[1]
    assert data.describe(batches[0])["task"] == batches[0].task


def id_of(batch: object) -> tuple[str, list[int]]:
    return batch.task, [sample.example for sample in batch.samples]  # type: ignore[attr-defined]
