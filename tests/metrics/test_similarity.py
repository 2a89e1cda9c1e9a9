"""Correlations against scipy."""

import warnings

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from spanlab.errors import InputError
from spanlab.metrics.similarity import pearson, score_similarity, spearman

NUMBERS = st.floats(-100, 100, allow_subnormal=False).map(lambda number: round(number, 3))
TIED = st.integers(0, 5).map(float)


def rows(pairs: list[tuple[float, float]]) -> tuple[list[float], list[float]]:
    gold, predicted = zip(*pairs, strict=True)
    return list(gold), list(predicted)


@given(st.lists(st.tuples(NUMBERS | TIED, NUMBERS | TIED), min_size=2, max_size=40))
def test_correlations_are_those_of_scipy(pairs: list[tuple[float, float]]) -> None:
    gold, predicted = rows(pairs)
    assume(np.ptp(gold) > 0 and np.ptp(predicted) > 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = {
            "pearson": stats.pearsonr(gold, predicted).statistic,
            "spearman": stats.spearmanr(gold, predicted).statistic,
        }
    assert score_similarity(gold, predicted) == pytest.approx(expected, abs=1e-9)


@given(st.lists(st.tuples(TIED, TIED), min_size=2, max_size=30))
def test_tied_ranks_are_those_of_scipy(pairs: list[tuple[float, float]]) -> None:
    gold, predicted = rows(pairs)
    assume(np.ptp(gold) > 0 and np.ptp(predicted) > 0)
    assert spearman(gold, predicted) == pytest.approx(stats.spearmanr(gold, predicted).statistic)


@pytest.mark.parametrize("constant", [0.0, 0.1, 1e300, -3.3])
def test_a_row_that_never_varies_has_no_correlation(constant: float) -> None:
    assert score_similarity([1, 2, 3], [constant] * 3) == {"pearson": 0.0, "spearman": 0.0}
    assert score_similarity([constant] * 3, [1, 2, 3]) == {"pearson": 0.0, "spearman": 0.0}
    assert score_similarity([constant], [2.0]) == {"pearson": 0.0, "spearman": 0.0}


def test_by_hand() -> None:
    assert pearson([1, 2, 3], [10, 20, 30]) == pytest.approx(1.0)
    assert pearson([1, 2, 3], [3, 2, 1]) == pytest.approx(-1.0)
    assert spearman([1, 2, 3, 4], [1, 10, 100, 1000]) == pytest.approx(1.0)
    # Ranks 1, 2.5, 2.5, 4 against 1, 2, 3, 4.
    assert spearman([0, 5, 5, 9], [1, 2, 3, 4]) == pytest.approx(4.5 / np.sqrt(4.5 * 5))


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_the_scale_of_scores_does_not_matter(scale: float) -> None:
    assert pearson([1, 2, 4], [scale, 3 * scale, 2 * scale]) == pytest.approx(pearson([1, 2, 4], [1, 3, 2]))


def test_refusals() -> None:
    with pytest.raises(InputError, match="the predicted score 2 is nan; scores must be finite"):
        pearson([1, 2], [1, float("nan")])
    with pytest.raises(InputError, match="the gold score 1 is inf"):
        spearman([float("inf"), 2], [1, 2])
    with pytest.raises(InputError, match="2 gold scores and 1 predicted"):
        score_similarity([1, 2], [1])
