"""Finished models on one test set: the scores are those of `evaluate`, and the statistics those of their examples."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import spanlab
from spanlab.compare.models import compare_models, parse_test_set
from spanlab.compare.outcomes import read_outcomes
from spanlab.errors import InputError
from tests.cli.run import run_here
from tests.tasks.almanac_files import write_topics


@pytest.fixture(scope="module")
def models(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """Two classifiers, one of which has learned more, and a test file."""
    folder = tmp_path_factory.mktemp("models")
    train, dev = write_topics(folder / "data")
    rows = [json.loads(line) for line in dev.read_text().splitlines()]
    test = folder / "test.jsonl"
    test.write_text("".join(json.dumps({**row, "text": f"then {row['text']}"}) + "\n" for row in rows))
    for name, steps in (("first", 1), ("second", 60)):
        training = {"steps": steps, "lr": 0.003, "precision": "fp32", "device": "cpu", "batch_size": 8}
        spanlab.finetune("classification", model=tiny_model, train=train, out=folder / name, training=training)
    return folder / "first", folder / "second", test


def test_two_classifiers(models: tuple[Path, Path, Path], tmp_path: Path) -> None:
    first, second, test = models
    results = compare_models(list(map(str, models[:2])), [parse_test_set(f"classification={test}")], tmp_path / "out")
    found = results.comparisons[0].difference
    assert found is not None
    gold = [json.loads(line) for line in test.read_text().splitlines()]
    correct = [
        [
            100.0 * (result.label == row["label"])
            for result, row in zip(spanlab.load(model).predict(gold), gold, strict=True)
        ]
        for model in (first, second)
    ]
    assert [scores.mean for scores in results.scores["classification"].values()] == pytest.approx(
        np.mean(correct, axis=1)
    )
    assert found.mean == pytest.approx(np.mean(correct[1]) - np.mean(correct[0]))
    assert found.mean > 0
    exact = stats.ttest_rel(correct[1], correct[0])
    assert found.standard_error == pytest.approx(found.mean / exact.statistic, rel=0.1)
    written = json.loads((tmp_path / "out" / "results.json").read_text())
    assert written["systems"] == ["first", "second"]
    assert "not about how they were trained" in written["remarks"][-1]
    assert "second" in (tmp_path / "out" / "report.html").read_text()


def test_as_typed(models: tuple[Path, Path, Path], tmp_path: Path) -> None:
    first, second, test = map(str, models)
    test_set, out = f"classification={test}", str(tmp_path / "out")
    ended = run_here("compare", "--models", first, second, "--task", test_set, "--out", out, "--json")
    assert ended.returncode == 0, ended.stderr
    printed, written = json.loads(ended.stdout), json.loads((tmp_path / "out" / "results.json").read_text())
    assert printed.keys() == written.keys()
    assert (printed["sentence"], printed["scores"]) == (written["sentence"], written["scores"])
    again = run_here("compare", "--models", first, second, "--task", test_set, "--out", out)
    assert "On classification" in again.stdout.capitalize() or "on classification" in again.stdout
    for arguments, message in (
        (("--models", first, "--task", test_set, "--out", out), "there is nothing to compare; name two models"),
        (("--models", first, second, "--out", out), "no test set given; use --task NAME=TEST"),
        (("--models", first, second, "--task", f"ner={test}", "--out", out), "no task 'ner' in this model"),
        (("--models", first, second, "--task", "clasification=x", "--out", out), "did you mean 'classification'?"),
        (("--models", first, second, "--task", test_set, "--seeds", "3", "--out", out), "--seeds is for recipes"),
        (("--models", first, second, "--task", "classification=missing", "--out", out), "missing: no such file"),
        (("bert", "--task", test_set), "no folder given; use --out DIR"),
        (("--study", "sbos", "--out", out), "unknown study 'sbos' (did you mean 'sbo'?)"),
    ):
        refused = run_here("compare", *arguments)
        assert refused.returncode == 2
        assert message in refused.stderr
        assert refused.stderr.count("\n") == 1


def test_a_test_set_that_a_model_was_trained_on(models: tuple[Path, Path, Path], tmp_path: Path) -> None:
    first, second, test = models
    train = test.parent / "data" / "train.jsonl"
    with pytest.raises(InputError, match=r"32 of 32 test examples are in .*train.jsonl, which training uses"):
        compare_models([str(first), str(second)], [parse_test_set(f"classification={train}")], tmp_path / "out")


def test_damaged_outcomes(tmp_path: Path) -> None:
    path = tmp_path / "outcomes.json"
    for content in ("{", "[]", '{"format_version": 2}', '{"format_version": 1, "counts": 5}'):
        path.write_text(content)
        with pytest.raises(InputError, match="not the outcomes of a test; delete the file"):
            read_outcomes(path)
