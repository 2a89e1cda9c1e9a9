"""What is said about scores: the sentence, the tables, and Holm's correction over the comparisons of a study."""

import json
from pathlib import Path

import numpy as np
import pytest

from spanlab.compare.outcomes import Outcomes, read_outcomes
from spanlab.compare.report import mean_series, score_tables, write_files
from spanlab.compare.results import StudyResults, compare_outcomes
from spanlab.compare.sentence import sum_up
from spanlab.metrics.confidence import holm
from spanlab.metrics.score_counts import ScoreCounts
from spanlab.report.run_history import Series

SEEDS = (0, 1, 2)


def outcomes_of(gains: list[float], seeds: tuple[int, ...] = SEEDS, metric: str = "f1") -> dict[int, Outcomes]:
    """Scores of 100 examples whose mean is 50 and the gain of the seed."""
    spread = np.random.default_rng(0).normal(0, 10, 100)
    spread -= spread.mean()
    found = {}
    for seed, gain in zip(seeds, gains, strict=True):
        noise = np.random.default_rng(seed + 1).normal(0, 1, 100)
        counts = ScoreCounts.of_scores(metric, 50 + gain + spread + noise - noise.mean())
        found[seed] = Outcomes(metrics={metric: counts.score()}, count=100, counts=counts)
    return found


def study(**systems: dict[int, Outcomes]) -> StudyResults:
    outcomes = {("ner", name): by_seed for name, by_seed in systems.items()}
    return compare_outcomes(list(systems), {"ner": "ner"}, outcomes, seeds=SEEDS)


def test_a_winner() -> None:
    results = study(plain=outcomes_of([0, 0, 0]), spans=outcomes_of([3, 3.1, 2.9]))
    sentence = sum_up(results)
    assert sentence.startswith("on ner, spans is best: 3.00 points of f1 above plain (95 % interval 2.")
    assert "which is hardly chance (p " in sentence
    assert results.comparisons[0].shown


def test_a_baseline_that_wins() -> None:
    results = study(plain=outcomes_of([3, 3.1, 2.9]), words=outcomes_of([0, 0, 0]), spans=outcomes_of([1.0, 1.1, 1.0]))
    sentence = sum_up(results)
    assert sentence.startswith("on ner, plain is best: 1.97 points of f1 above spans, the next (95 % interval 1.")
    assert "; words is 3.00 below plain (p " in sentence


def test_no_difference_is_said_with_what_could_have_been_seen() -> None:
    results = study(plain=outcomes_of([0, 2, -2]), spans=outcomes_of([1, -1, 1.5]))
    (comparison,) = results.comparisons
    assert comparison.difference is not None
    assert not comparison.shown
    assert comparison.difference.detectable > comparison.difference.high
    shown = f"{comparison.difference.detectable:.2f}"
    assert f"only a difference of {shown} would have been noticed in four of five such studies" in sum_up(results)
    assert f"no difference shown; {shown} could have been" in score_tables(results)[1].rows[0]


def test_only_seeds_of_both_are_compared() -> None:
    results = study(plain=outcomes_of([0, 0], (0, 2)), spans=outcomes_of([1, 9, 1.2]), words=outcomes_of([1], (1,)))
    spans, words = results.comparisons
    assert spans.difference is not None
    assert (spans.difference.seeds, spans.difference.mean) == (2, pytest.approx(1.1))
    assert words.difference is None
    rows = score_tables(results)[0].rows
    assert [row[1].partition(" (")[2] for row in rows] == ["2 of 3)", "", "1 of 3)"]
    nothing = study(plain=outcomes_of([0], (0,)), spans=outcomes_of([1], (0,)))
    assert "nothing can be compared yet" in sum_up(nothing)


def test_correction_over_all_comparisons() -> None:
    systems = {"a": [0.0, 0, 0], "b": [1, 1.2, 0.9], "c": [0.2, -0.3, 0.4]}
    outcomes = {(task, name): outcomes_of(gains) for task in ("ner", "qa") for name, gains in systems.items()}
    results = compare_outcomes(list(systems), {"ner": "ner", "qa": "qa"}, outcomes, seeds=SEEDS)
    p_values = [comparison.difference.p for comparison in results.comparisons if comparison.difference is not None]
    assert len(p_values) == 4
    assert [comparison.p_holm for comparison in results.comparisons] == holm(p_values)


def test_correlations_have_their_own_digits() -> None:
    results = study(
        plain=outcomes_of([0, 0, 0], metric="spearman"), spans=outcomes_of([0.01, 0.02, 0.03], metric="spearman")
    )
    assert "0.020 of spearman above plain" in sum_up(results)


def test_files(tmp_path: Path) -> None:
    """Names from outside are text in every file."""
    results = study(**{"a|b": outcomes_of([0, 0, 0]), "<b>x</b>": outcomes_of([1, 2, 3])})
    write_files(tmp_path, results, score_tables(results))
    assert "<b>" not in (tmp_path / "report.html").read_text(encoding="utf-8").partition("<main>")[2]
    table = (tmp_path / "table.md").read_text(encoding="utf-8")
    assert "<b>" not in table
    assert "a\\|b" in table
    written = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert written["comparisons"][0]["difference"] == pytest.approx(2.0, abs=1e-5)
    assert written["scores"]["ner"]["a|b"]["by_seed"].keys() == {"0", "1", "2"}


def test_outcomes_are_read_as_written(tmp_path: Path) -> None:
    (outcome,) = outcomes_of([1.5], (0,)).values()
    path = tmp_path / "outcomes.json"
    path.write_text(json.dumps(outcome.to_dict()))
    read = read_outcomes(path)
    assert read.counts.score() == outcome.counts.score()
    assert (read.metrics, read.count, read.counts.metric) == (outcome.metrics, 100, "f1")


def test_curves_of_runs_with_other_steps() -> None:
    first = Series(np.array([1.0, 3.0, 5.0]), np.array([4.0, 2.0, 0.0]))
    second = Series(np.array([1.0, 4.0]), np.array([6.0, 6.0]))
    mean = mean_series([first, second])
    assert mean.steps.tolist() == [1, 3, 4]
    assert mean.values.tolist() == [5.0, 4.0, 3.5]
