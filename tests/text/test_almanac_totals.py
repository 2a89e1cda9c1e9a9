"""The almanac as a whole: how much of every layer, how its splits are balanced, what it weighs, what it gives away."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

from spanlab.text.almanac import load
from tests.text.almanac_set_checks import check_totals, count_layers
from tests.text.check_almanac import SHIPPED

ROOT = Path(__file__).parents[2]
LEAST = {
    "passages": 200,
    "questions": 800,
    "unanswerable questions": 180,
    "entities": 1800,
    "coreference clusters": 300,
    "relations": 400,
    "relation types": 8,
    "similarity pairs": 200,
}


def test_there_is_enough_of_every_layer() -> None:
    counts = count_layers(load())
    assert {layer: counts[layer] for layer, least in LEAST.items() if counts[layer] < least} == {}
    assert {passage.language for passage in load()} == {"en", "zh", "ko"}


def test_totals_and_splits_satisfy_the_checker() -> None:
    assert check_totals(load(), sum(path.stat().st_size for path in SHIPPED.glob("*.txt"))) == []


def test_its_share_of_a_wheel_is_small(tmp_path: Path) -> None:
    """A wheel is a zip file; the almanac's part of it holds passages and code."""
    wheel = tmp_path / "part.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(SHIPPED.parent.rglob("*")):
            if path.suffix in {".py", ".txt"}:
                archive.write(path, path.relative_to(SHIPPED.parent))
        assert sum(name.endswith(".txt") for name in archive.namelist()) == len(list(SHIPPED.glob("*.txt")))
    assert wheel.stat().st_size < 600_000


def test_systems_that_do_not_read_do_not_come_far() -> None:
    command = [sys.executable, "-m", "benchmarks.almanac_baselines"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    result = json.loads(done.stdout.splitlines()[-1].removeprefix("RESULT "))
    for name, groups in result["scores"].items():
        for group, values in groups.items():
            assert values["has_answer_f1"] < 20, (name, group)
            assert name == "no answer" or values["f1"] < 35, (name, group)
    # Half of the pairs of an answerable and an unanswerable question are put in order by chance.
    assert result["answerability"]["auc"] < 0.7
