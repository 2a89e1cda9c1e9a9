"""Bootstrap intervals: they hold what they should, as often as they say."""

import numpy as np
import pytest
from scipy import stats

from spanlab.errors import InputError
from spanlab.metrics.confidence import Interval, difference_interval, mean_interval


def test_the_interval_is_near_the_one_that_theory_gives() -> None:
    scores = np.random.default_rng(3).normal(70, 10, 400)
    found = mean_interval(scores.tolist())
    low, high = stats.norm.interval(0.95, scores.mean(), scores.std() / 20)
    assert found.mean == pytest.approx(scores.mean())
    assert [found.low, found.high] == pytest.approx([low, high], abs=0.15)


def test_the_true_mean_lies_inside_about_as_often_as_claimed() -> None:
    generator = np.random.default_rng(5)
    samples = (100.0 * (generator.random(120) < 0.6) for _ in range(200))
    inside = [
        interval.low <= 60 <= interval.high
        for interval in (mean_interval(sample.tolist(), confidence=0.9, resamples=300) for sample in samples)
    ]
    assert 0.83 < np.mean(inside) < 0.96


def test_paired_examples_are_kept_together() -> None:
    generator = np.random.default_rng(7)
    hard = generator.normal(50, 30, 200)
    better = hard + generator.normal(2, 1, 200)
    paired = difference_interval(better.tolist(), hard.tolist())
    assert 0 < paired.low < 2 < paired.high < 3
    assert difference_interval(hard.tolist(), hard.tolist()) == Interval(mean=0.0, low=0.0, high=0.0)


def test_seeds() -> None:
    scores = [1.0, 5.0, 2.0, 8.0]
    assert mean_interval(scores, seed=1) == mean_interval(scores, seed=1)
    assert mean_interval(scores, seed=1, resamples=50) != mean_interval(scores, seed=2, resamples=50)
    wide, narrow = mean_interval(scores, confidence=0.99), mean_interval(scores, confidence=0.5)
    assert wide.low < narrow.low < narrow.high < wide.high


def test_refusals() -> None:
    with pytest.raises(InputError, match="no scores to average"):
        mean_interval([])
    with pytest.raises(InputError, match="the confidence is 95"):
        mean_interval([1.0], confidence=95)
    with pytest.raises(InputError, match="2 gold scores and 1 predicted"):
        difference_interval([1.0, 2.0], [1.0])
