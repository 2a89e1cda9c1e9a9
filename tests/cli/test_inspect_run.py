"""`spanlab inspect run`: the figures of a run folder, and how it refuses what is none."""

import json
from pathlib import Path

import numpy as np
import pytest

from spanlab.report.run_history import sparkline
from tests.cli.run import run_spanlab
from tests.report.runs import write_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("runs") / "novels", state="stopped")


def test_figures_of_a_run(run: Path) -> None:
    done = run_spanlab("inspect", "run", str(run))
    assert done.returncode == 0, done.stderr
    rows = {line.split("  ")[0]: line.split("  ", 1)[1].strip() for line in done.stdout.splitlines() if "  " in line}
    assert rows["state"] == "stopped"
    assert rows["steps"] == "400 of 400 (100%)"
    assert rows["time"] == "21 min 4 s"
    assert rows["train loss"].startswith("█")
    assert rows["dev loss"].endswith("▁")
    assert rows["objectives"] == "mlm 1, sbo 1"
    assert rows["checkpoint"] == "step-00000400, 1.5 kB"
    assert rows["note"] == "step 133: the loss is 3.2 times its recent mean"
    assert "tokens per second" in rows["speed"]


def test_as_json(run: Path) -> None:
    done = run_spanlab("inspect", "run", str(run), "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["state"], told["step"], told["steps"], told["best_step"]) == ("stopped", 400, 400, 400)
    loss = next(course for course in told["courses"] if course["name"] == "loss")
    assert loss["dev_first"] > loss["dev_now"] == loss["dev_best"]
    assert told["settings"]["training.lr"] == 0.002
    assert told["notes"] == [{"step": 133, "text": "the loss is 3.2 times its recent mean"}]


def test_what_is_no_run(tmp_path: Path) -> None:
    for folder, message in ((tmp_path, "not a run folder"), (tmp_path / "none", "no such run folder")):
        done = run_spanlab("inspect", "run", str(folder))
        assert (done.returncode, done.stdout) == (2, "")
        assert message in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1


def test_sparklines() -> None:
    assert sparkline(np.array([1.0, 2.0, 8.0])) == "▁▂█"
    assert sparkline(np.full(100, 3.0), width=7) == "▁" * 7
    assert sparkline(np.linspace(7, 0, 8000), width=8) == "█▇▆▅▄▃▂▁"
