import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanlab.corpus.randomness import GOLDEN, below, draw, draws, mix, sample_keys, uniform

WORDS = st.integers(0, 2**64 - 1)


def plain_mix(value: int) -> int:
    mask = 2**64 - 1
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & mask
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & mask
    return value ^ (value >> 31)


def test_draws_are_those_of_splitmix64() -> None:
    # The published generator's first outputs from the state 1234567.
    known = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821]
    assert draws(np.array([1234567], np.uint64), 5)[0].tolist() == known


@given(WORDS)
def test_mix_agrees_with_whole_number_arithmetic(value: int) -> None:
    assert int(mix(np.array([value], np.uint64))[0]) == plain_mix(value)


@given(st.lists(WORDS, min_size=1, max_size=20), st.integers(0, 30))
def test_a_draw_has_one_value_however_it_is_asked_for(keys: list[int], index: int) -> None:
    array = np.array(keys, np.uint64)
    many = draws(array, index + 3)
    assert (many[:, index] == draw(array, index)).all()
    assert (draws(array, 1, first=index)[:, 0] == draw(array, index)).all()
    assert int(draw(array[:1], index)[0]) == plain_mix((keys[0] + (index + 1) * int(GOLDEN)) % 2**64)


@given(st.integers(-(2**40), 2**40), st.integers(0, 10**6), st.lists(st.integers(0, 2**40), min_size=1, max_size=10))
def test_keys_do_not_depend_on_the_batch(seed: int, epoch: int, indices: list[int]) -> None:
    together = sample_keys(seed=seed, purpose="masks", epoch=epoch, index=indices)
    alone = [sample_keys(seed=seed, purpose="masks", epoch=epoch, index=index)[0] for index in indices]
    assert together.tolist() == alone


def test_epochs_may_differ_within_a_batch() -> None:
    mixed = sample_keys(seed=1, purpose="masks", epoch=[3, 4], index=[7, 7])
    assert mixed[0] == sample_keys(seed=1, purpose="masks", epoch=3, index=7)[0]
    assert mixed[1] == sample_keys(seed=1, purpose="masks", epoch=4, index=7)[0]


def test_seed_purpose_epoch_and_index_each_change_the_key() -> None:
    keys = {
        int(sample_keys(seed=seed, purpose=purpose, epoch=epoch, index=index)[0])
        for seed in range(4)
        for purpose in ("order", "masks")
        for epoch in range(8)
        for index in range(8)
    }
    assert len(keys) == 4 * 2 * 8 * 8


def test_draws_of_neighbouring_samples_are_not_shifted_copies() -> None:
    keys = sample_keys(seed=0, purpose="masks", epoch=0, index=np.arange(1000))
    values = draws(keys, 20)
    assert len(np.unique(values)) == values.size


@pytest.mark.parametrize("bound", [1, 2, 3, 10, 1000, 2**31, 2**32 - 1])
def test_below_stays_below_and_is_even(bound: int) -> None:
    values = below(draws(sample_keys(seed=0, purpose="test", epoch=0, index=np.arange(1000)), 100), bound)
    assert values.min() >= 0
    assert values.max() < bound
    if 1 < bound <= 1000:
        counts = np.bincount(values.reshape(-1), minlength=bound)
        chi_square = ((counts - 1e5 / bound) ** 2 / (1e5 / bound)).sum()
        assert abs(chi_square - (bound - 1)) < 5 * (2 * (bound - 1)) ** 0.5


def test_uniform_numbers_have_the_mean_and_spread_they_should() -> None:
    values = uniform(draws(sample_keys(seed=0, purpose="test", epoch=0, index=np.arange(1000)), 100))
    assert values.min() >= 0
    assert values.max() < 1
    assert abs(values.mean() - 0.5) < 5 * (1 / 12 / 1e5) ** 0.5
    assert abs(values.var() - 1 / 12) < 0.001
