"""GAP's figures, counted by hand."""

import pytest

from spanlab.metrics.gap import score_gap


def test_figures_of_six_questions() -> None:
    gold = [(True, False), (True, False), (False, True), (False, False), (False, True), (True, False)]
    predicted = [(True, False), (False, True), (False, True), (True, False), (False, False), (True, True)]
    genders = ["masculine"] * 3 + ["feminine"] * 3
    scores = score_gap(gold, predicted, genders)
    # right: questions 0, 2 and 5; said: 6; wanted: 5
    assert scores["precision"] == pytest.approx(100 * 3 / 6)
    assert scores["recall"] == pytest.approx(100 * 3 / 5)
    assert scores["f1"] == pytest.approx(100 * 6 / 11)
    assert scores["masculine_f1"] == pytest.approx(100 * 2 / 3)  # 2 right of 3 said and 3 wanted
    assert scores["feminine_f1"] == pytest.approx(100 * 2 / 5)  # 1 right of 3 said and 2 wanted
    assert scores["bias"] == pytest.approx(3 / 5)


def test_nothing_said_divides_nothing() -> None:
    scores = score_gap([(True, False)], [(False, False)], ["feminine"])
    assert set(scores.values()) == {0.0}
