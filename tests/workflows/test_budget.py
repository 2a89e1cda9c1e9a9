"""A budget of time becomes steps; the speed is a given here, since a test must not time anything."""

import sys
from pathlib import Path

import pytest

from spanlab.cli.main import main
from spanlab.errors import ConfigError
from spanlab.training.run_folder import RunFolder
from spanlab.training.spec import EVALUATION_SHARE
from spanlab.workflows import budget
from spanlab.workflows.budget import finetuning_within, pretraining_within
from spanlab.workflows.dry_run import MeasuredSteps
from tests.pretraining.making import SMALLEST, job
from tests.tasks.almanac_files import write_topics
from tests.workflows.test_finetune import job as finetuning_job

STEP = 50.0
"""Seconds; so many that setting up, which is real, takes less than one of them."""


@pytest.fixture(autouse=True)
def steps_of_given_length(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = MeasuredSteps(loss=1.0, seconds=STEP, tokens=100, precision="fp32", memory_gb=0.1)
    monkeypatch.setattr(budget, "measure_steps", lambda *_, **__: measured)


def steps_of(corpus: Path, out: Path, seconds: float, *overrides: str) -> int:
    steps = pretraining_within(job("spanbert", corpus, out, *overrides), seconds).recipe.training.steps
    assert steps is not None
    return steps


def test_steps_fill_the_time(small_corpus: Path, tmp_path: Path) -> None:
    assert steps_of(small_corpus, tmp_path, 1200 * STEP, "data.held_out=0") in {1198, 1199}
    evaluated = steps_of(small_corpus, tmp_path, 1200 * STEP)
    assert 1200 * (1 - EVALUATION_SHARE) - 20 <= evaluated < 1200


def test_a_warmup_for_a_longer_run_is_shortened(small_corpus: Path, tmp_path: Path) -> None:
    for written, expected in (("10000", 0.05), ("20", 20.0), ("0.1", 0.1)):
        planned = job("spanbert", small_corpus, tmp_path, f"training.warmup={written}")
        assert pretraining_within(planned, 1000 * STEP).recipe.training.warmup == expected


def test_a_budget_of_less_than_a_few_steps_is_refused(
    small_corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match=r"a step takes 50 s; allow at least 10\d\ds"):
        steps_of(small_corpus, tmp_path, 9 * STEP)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError, match="by one process"):
        steps_of(small_corpus, tmp_path, 100 * STEP)


def test_fine_tuning_never_gets_longer(tiny_model: Path, tmp_path: Path) -> None:
    planned = finetuning_job(tiny_model, write_topics(tmp_path / "data"), tmp_path / "run", training={"steps": 40})
    assert finetuning_within(planned, 1000 * STEP) is planned
    limited = finetuning_within(planned, 22 * STEP).config.training
    assert limited.steps is not None
    assert 10 <= limited.steps <= 21
    assert limited.epochs is None


def test_as_typed(
    small_corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def typed(*arguments: object) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["spanlab", *map(str, arguments)])
        with pytest.raises(SystemExit) as ending:
            main()
        return int(ending.value.code or 0), capsys.readouterr().err

    run = ("pretrain", "spanbert", *SMALLEST, "--data", small_corpus, "--out", tmp_path / "run", "--budget")
    code, messages = typed(*run, "15m", "data.held_out=0")
    assert code == 0
    steps = RunFolder(tmp_path / "run").read_config()["training"]["steps"]
    assert steps == RunFolder(tmp_path / "run").read_status().step
    assert f"{steps} steps fit into 15m" in messages
    assert typed(*run, "15m", "training.steps=3", "--overwrite")[0] == 2
    assert "is not a duration" in typed(*run, "soon", "--overwrite")[1]
    assert "the folder contains a run" in typed(*run, "15m")[1]
    assert "keeps its number of steps" in typed("pretrain", "--resume", "--out", tmp_path / "run", "--budget", "1h")[1]
