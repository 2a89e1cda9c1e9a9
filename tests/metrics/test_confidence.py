"""Differences of systems: as a plain loop computes them, on cases with known answers, right as often as they say."""

import random
from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats

from spanlab.errors import InputError
from spanlab.metrics.confidence import compare_systems, holm, multi_bootstrap
from spanlab.metrics.precision_recall import f1_counts
from spanlab.metrics.score_counts import Floats, ScoreCounts

System = list[ScoreCounts]


def system_of(scores_SU: Floats) -> System:
    return [ScoreCounts.of_scores("accuracy", scores) for scores in scores_SU]


def two_systems(
    generator: np.random.Generator,
    *,
    seeds: int,
    units: int,
    by_seed: float,
    by_unit: float,
    jointly: float,
    gain: float = 0.0,
) -> tuple[System, System]:
    """Systems whose difference varies by seed, by unit and by both; `gain` is its mean."""
    common_U = generator.normal(60, 20, units)
    both = []
    for mean in (gain, 0.0):
        parts = generator.normal(0, by_seed, (seeds, 1)) + generator.normal(0, by_unit, (1, units))
        both.append(system_of(common_U + mean + parts + generator.normal(0, jointly, (seeds, units))))
    return both[0], both[1]


def f1_of(pairs: Sequence[tuple[int, int, int]]) -> float:
    correct, predicted, gold = (sum(column) for column in zip(*pairs, strict=True))
    return 200.0 * correct / (predicted + gold) if predicted + gold else 0.0


def test_draws_are_those_of_a_plain_loop() -> None:
    """The mean, the spread and the quantiles of the multi-bootstrap, written out for lists of entities."""
    draw = random.Random(4)
    seeds, units, resamples = 4, 25, 4000
    rows = [[[(min(a, b), a, b) for a, b in ((draw.randrange(1, 5), draw.randrange(1, 5)) for _ in range(units))]
             for _ in range(seeds)] for _ in range(2)]  # fmt: skip
    loop = []
    for _ in range(resamples):
        chosen_seeds = [draw.randrange(seeds) for _ in range(seeds)]
        chosen_units = [draw.randrange(units) for _ in range(units)]
        differences = [
            f1_of([rows[0][seed][unit] for unit in chosen_units])
            - f1_of([rows[1][seed][unit] for unit in chosen_units])
            for seed in chosen_seeds
        ]
        loop.append(sum(differences) / seeds)
    systems = [
        [ScoreCounts(metric="f1", rule="f1", counts_UC=np.array(counts, np.float64)) for counts in system]
        for system in rows
    ]
    drawn = multi_bootstrap(*systems, resamples=resamples)
    assert drawn.mean() == pytest.approx(np.mean(loop), abs=0.15)
    assert drawn.std() == pytest.approx(np.std(loop), rel=0.06)
    quantiles = [0.025, 0.25, 0.75, 0.975]
    assert np.quantile(drawn, quantiles) == pytest.approx(np.quantile(loop, quantiles), abs=0.35)


def test_one_model_each_is_a_paired_t_test() -> None:
    generator = np.random.default_rng(3)
    baseline = generator.normal(60, 20, 300)
    system = baseline + generator.normal(0.6, 5, 300)
    found = compare_systems(system_of(system[None]), system_of(baseline[None]), resamples=20_000)
    exact = stats.ttest_rel(system, baseline)
    assert found.mean == pytest.approx((system - baseline).mean())
    assert found.p == pytest.approx(exact.pvalue, abs=0.005)
    bounds = exact.confidence_interval()
    assert [found.low, found.high] == pytest.approx([bounds.low, bounds.high], abs=0.02)


def test_where_only_seeds_differ_it_is_a_t_test_over_seeds() -> None:
    gains = np.array([1.0, 2.5, 3.0, 1.5])
    found = compare_systems(system_of(np.repeat(50 + gains[:, None], 30, axis=1)), system_of(np.full((4, 30), 50.0)))
    exact = stats.ttest_1samp(gains, 0.0)
    assert found.mean == pytest.approx(2.0)
    assert found.p == pytest.approx(exact.pvalue, rel=1e-6)
    bounds = exact.confidence_interval()
    assert [found.low, found.high] == pytest.approx([bounds.low, bounds.high])
    assert found.win_chance == 1.0


def test_equal_systems() -> None:
    scores = np.random.default_rng(1).normal(50, 10, (3, 40))
    found = compare_systems(system_of(scores), system_of(scores))
    assert (found.mean, found.low, found.high, found.p, found.win_chance) == (0.0, 0.0, 0.0, 1.0, 0.5)


def test_the_other_way_round() -> None:
    system, baseline = two_systems(np.random.default_rng(8), seeds=3, units=50, by_seed=1, by_unit=5, jointly=5)
    forth, back = compare_systems(system, baseline), compare_systems(baseline, system)
    assert (back.mean, back.low, back.high) == pytest.approx((-forth.mean, -forth.high, -forth.low))
    assert back.p == pytest.approx(forth.p)
    assert back.win_chance == pytest.approx(1 - forth.win_chance)


def test_the_same_seed_gives_the_same_numbers() -> None:
    system, baseline = two_systems(np.random.default_rng(2), seeds=3, units=50, by_seed=1, by_unit=5, jointly=5)
    assert compare_systems(system, baseline, seed=1) == compare_systems(system, baseline, seed=1)
    assert compare_systems(system, baseline, seed=1) != compare_systems(system, baseline, seed=2)


@pytest.mark.parametrize("seeds", [3, 5])
@pytest.mark.parametrize(
    ("by_seed", "by_unit", "jointly"),
    [(1.0, 0.0, 0.0), (0.0, 5.0, 5.0), (0.5, 5.0, 5.0), (1.0, 5.0, 5.0), (2.0, 5.0, 5.0)],
)
def test_equal_systems_differ_in_five_percent_of_studies(
    seeds: int, by_seed: float, by_unit: float, jointly: float
) -> None:
    """500 studies of two systems that do not differ; the number of those with p < 0.05 has a deviation of 1 %."""
    generator = np.random.default_rng(12)
    found = [
        compare_systems(*pair, resamples=200).p < 0.05
        for pair in (
            two_systems(generator, seeds=seeds, units=100, by_seed=by_seed, by_unit=by_unit, jointly=jointly)
            for _ in range(500)
        )
    ]
    assert 0.03 <= np.mean(found) <= 0.07


def test_percentiles_alone_would_find_too_much() -> None:
    """Why the interval is not that of the plain multi-bootstrap."""
    generator = np.random.default_rng(6)
    found = []
    for _ in range(200):
        pair = two_systems(generator, seeds=3, units=50, by_seed=2, by_unit=1, jointly=1)
        low, high = np.quantile(multi_bootstrap(*pair, resamples=200), [0.025, 0.975])
        found.append(not low <= 0 <= high)
    assert np.mean(found) > 0.15


def test_the_detectable_difference_is_detected_in_four_of_five_studies() -> None:
    generator = np.random.default_rng(7)
    shape = {"seeds": 8, "units": 150, "by_seed": 0.7, "by_unit": 4.0, "jointly": 4.0}
    promised = np.mean([compare_systems(*two_systems(generator, **shape), resamples=200).detectable for _ in range(60)])
    found = [
        compare_systems(*two_systems(generator, **shape, gain=float(promised)), resamples=200).p < 0.05
        for _ in range(200)
    ]
    assert 0.7 < np.mean(found) < 0.92


def test_pairs_stay_together() -> None:
    """What is hard for both systems, or a bad seed of both, is no reason to doubt their difference."""
    generator = np.random.default_rng(9)
    hard = generator.normal(50, 30, (3, 200)) + generator.normal(0, 10, (3, 1))
    found = compare_systems(system_of(hard + generator.normal(2, 1, (3, 200))), system_of(hard))
    assert 1.5 < found.low < 2 < found.high < 2.5


def test_holm_as_worked_out_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


def test_refusals() -> None:
    one, other = ScoreCounts.of_scores("accuracy", [1.0, 0.0]), ScoreCounts.of_scores("accuracy", [1.0, 0.0, 0.0])
    with pytest.raises(InputError, match="2 gold seeds and 1 predicted"):
        compare_systems([one, one], [one])
    with pytest.raises(InputError, match="different numbers of units"):
        compare_systems([one], [other])
    with pytest.raises(InputError, match="different metrics"):
        compare_systems([one], [f1_counts([["a"], ["b"]], [["a"], ["c"]])])
    with pytest.raises(InputError, match="a single unit"):
        compare_systems([ScoreCounts.of_scores("f1", [1.0])], [ScoreCounts.of_scores("f1", [0.0])])
