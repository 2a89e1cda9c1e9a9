"""The soak itself: it disturbs a run with each fault, finds that nothing was lost, and would find what was."""

import random
import shutil
from pathlib import Path

import pytest

from benchmarks import soak
from benchmarks.soak import FAULTS, Tally, disturbed, make_jobs, traces, undisturbed


@pytest.mark.slow
def test_a_fine_tuning_survives_each_fault(tmp_path: Path) -> None:
    job = next(job for job in make_jobs(tmp_path) if job.name == "fine-tuning")
    whole = undisturbed(job, tmp_path / "whole" / job.name)
    assert any(name.endswith("weights.safetensors") for name in whole)
    tally = Tally()
    disturbed(job, tmp_path / "disturbed", list(FAULTS), whole, random.Random(3), tally)
    assert tally.problems == []
    assert tally.runs[job.name] == 1
    assert tally.faults["all"] >= 2
    changed = {**whole, "model/model.safetensors": "of another run"}
    disturbed(job, tmp_path / "disturbed", [], changed, random.Random(3), tally)
    assert tally.problems == ["fine-tuning: model/model.safetensors differs"]


def test_what_is_compared(tmp_path: Path) -> None:
    """Weights, optimiser, models, records without their times, and results; of the newest checkpoint alone."""
    run = tmp_path / "one" / "pretraining" / "cell"
    for name, text in {
        "config.yaml": "a: 1",
        "checkpoints/step-00000005/weights.safetensors": "old",
        "checkpoints/step-00000010/weights.safetensors": "new",
        "checkpoints/step-00000010/optimiser.safetensors": "moments",
        "model/model.safetensors": "best",
        "metrics.jsonl": '{"step": 1, "loss": 2.5, "tokens_per_second": 9}\n',
        "../../results.json": "{}",
    }.items():
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_text(text)
    found = traces(tmp_path / "one")
    newest = "pretraining/cell/checkpoints/step-00000010"
    assert set(found) == {
        f"{newest}/weights.safetensors",
        f"{newest}/optimiser.safetensors",
        "pretraining/cell/model/model.safetensors",
        "pretraining/cell/metrics.jsonl",
        "results.json",
    }
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    cell = tmp_path / "two" / "pretraining" / "cell"
    (cell / "metrics.jsonl").write_text('{"step": 1, "loss": 2.5, "tokens_per_second": 7}\n')
    (cell / "checkpoints" / "step-00000005" / "weights.safetensors").write_text("pruned or not")
    assert traces(tmp_path / "two") == found
    (cell / "metrics.jsonl").write_text('{"step": 1, "loss": 2.6, "tokens_per_second": 7}\n')
    assert traces(tmp_path / "two") != found
    assert soak.traces_missing(tmp_path / "two", found)  # no status says that the run is finished
