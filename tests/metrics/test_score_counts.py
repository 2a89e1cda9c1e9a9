"""Scores from counts: the same numbers as the metrics themselves, of the whole set and of resampled ones."""

import random
from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats

from spanlab.errors import InputError
from spanlab.metrics.coref import conll_f1_counts, gap_f1_counts, score_clusters, score_gap
from spanlab.metrics.entities import score_entities
from spanlab.metrics.precision_recall import f1_counts
from spanlab.metrics.score_counts import Rule, ScoreCounts, resampled_scores
from spanlab.metrics.similarity import pearson, spearman

Clusters = list[list[int]]


def resample(units: int, draw: random.Random) -> list[int]:
    return [draw.randrange(units) for _ in range(units)]


def score_resample(counts: ScoreCounts, chosen: Sequence[int]) -> float:
    """The score that the counts give for a test set of the chosen units."""
    weights = np.bincount(chosen, minlength=len(counts.counts_UC)).astype(np.float64)
    return float(resampled_scores(counts.rule, counts.counts_UC[None], weights[None])[0, 0])


def some_spans(draw: random.Random) -> list[tuple[int, int, str]]:
    return [(draw.randrange(4), 5, draw.choice("AB")) for _ in range(draw.randrange(4))]


def some_clusters(draw: random.Random) -> Clusters:
    clusters: Clusters = [[] for _ in range(3)]
    for mention in range(9):
        if draw.random() < 0.7:
            clusters[draw.randrange(3)].append(mention)
    return clusters


def test_entities() -> None:
    draw = random.Random(1)
    gold, predicted = ([some_spans(draw) for _ in range(12)] for _ in range(2))
    counts = f1_counts(gold, predicted)
    assert counts.score() == pytest.approx(score_entities(gold, predicted)["f1"])
    for _ in range(20):
        chosen = resample(12, draw)
        expected = score_entities([gold[i] for i in chosen], [predicted[i] for i in chosen])["f1"]
        assert score_resample(counts, chosen) == pytest.approx(expected)


def test_coreference() -> None:
    draw = random.Random(2)
    gold, predicted = ([some_clusters(draw) for _ in range(8)] for _ in range(2))
    counts = conll_f1_counts(gold, predicted)
    assert counts.score() == pytest.approx(score_clusters(gold, predicted)["conll_f1"])
    for _ in range(20):
        chosen = resample(8, draw)
        expected = score_clusters([gold[i] for i in chosen], [predicted[i] for i in chosen])["conll_f1"]
        assert score_resample(counts, chosen) == pytest.approx(expected)


def test_pronouns() -> None:
    gold, predicted = [(True, False), (False, False), (False, True)], [(True, True), (False, True), (False, True)]
    expected = score_gap(gold, predicted, ["masculine", "feminine", "feminine"])["f1"]
    assert gap_f1_counts(gold, predicted).score() == pytest.approx(expected)


@pytest.mark.parametrize(("rule", "correlation"), [("pearson", pearson), ("spearman", spearman)])
def test_correlations(rule: Rule, correlation: object) -> None:
    draw = random.Random(3)
    gold = [draw.choice([0.0, 1.0, 2.5, 4.0]) for _ in range(15)]  # with ties
    predicted = [score + draw.gauss(0, 2) for score in gold]
    predicted[3] = predicted[4]
    counts = ScoreCounts(metric=rule, rule=rule, counts_UC=np.array([gold, predicted]).T)
    for chosen in (list(range(15)), *(resample(15, draw) for _ in range(20)), [2] * 15):
        expected = correlation([gold[i] for i in chosen], [predicted[i] for i in chosen])  # type: ignore[operator]
        assert score_resample(counts, chosen) == pytest.approx(expected, abs=1e-9)
    assert stats.spearmanr(gold, predicted).statistic == pytest.approx(spearman(gold, predicted))


def test_documents_are_added_up() -> None:
    counts = f1_counts([["a"], ["b", "c"], []], [["a"], ["b"], ["x"]])
    grouped = counts.grouped(["second", "first", "second"])
    assert grouped.counts_UC.tolist() == [[1, 2, 1], [1, 1, 2]]
    assert grouped.score() == counts.score() == pytest.approx(100 * 2 * 2 / (3 + 3))
    pairs = ScoreCounts(metric="spearman", rule="spearman", counts_UC=np.array([[1.0, 2], [2, 3], [3, 1]]))
    assert pairs.grouped(["a", "a", "b"]) is pairs  # pairs are ranked; they cannot be added up


def test_nothing_to_divide() -> None:
    assert f1_counts([[], []], [[], []]).score() == 0.0
    assert conll_f1_counts([[]], [[]]).score() == 0.0
    constant = ScoreCounts(metric="pearson", rule="pearson", counts_UC=np.array([[1.0, 0.1], [2.0, 0.1], [3.0, 0.1]]))
    assert constant.score() == 0.0


def test_refusals() -> None:
    with pytest.raises(InputError, match=r"counts of 2 x 2; 'f1' takes rows of 3"):
        ScoreCounts(metric="f1", rule="f1", counts_UC=np.ones((2, 2)))
    with pytest.raises(InputError, match="not finite"):
        ScoreCounts.of_scores("accuracy", [1.0, float("nan")])
