"""How often a run is evaluated: by counts alone, and within a fifth of its time."""

from pathlib import Path

import pytest

from spanlab.training.spec import EVALUATIONS, evaluation_cost, evaluation_interval
from tests.training.toy import toy_training


@pytest.mark.parametrize("steps", [1, 3, 20, 119, 1000, 54321])
@pytest.mark.parametrize("cost", [0.0, 0.001, 0.3, 7.0, 400.0, 1e6])
def test_evaluations_take_at_most_a_fifth_of_the_time_but_one_there_is(steps: int, cost: float) -> None:
    interval = evaluation_interval(steps, cost)
    evaluations = -(-steps // interval)  # the last step is always evaluated
    assert evaluations >= 1
    if evaluations > 1 and steps >= EVALUATIONS:
        assert evaluations * cost <= 0.25 * steps * 1.2  # rounded to whole evaluations
    if not cost:
        assert interval == max(1, steps // EVALUATIONS)


def test_small_evaluations_are_not_counted() -> None:
    assert evaluation_cost(2_000, 100) == 0
    assert evaluation_cost(300_000, 1_000) == pytest.approx(100)
    assert evaluation_cost(300_000, 1_000, passes=1.0) == pytest.approx(300)


def test_a_costly_evaluation_comes_seldom_and_checkpoints_as_often_as_ever(tmp_path: Path) -> None:
    evaluated = []

    def evaluate(process: object) -> dict[str, float]:
        evaluated.append(training.progress.step)
        return {"loss": 1.0}

    training = toy_training(
        tmp_path, steps=40, evaluate=evaluate, evaluation_cost=4.0, eval_every=0, save_every=0, keep=99
    )
    list(training.records())
    assert evaluated == [20, 40]
    assert training.run.checkpoints.steps() == list(range(2, 41, 2))
