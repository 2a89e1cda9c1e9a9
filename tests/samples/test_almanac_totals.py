"""The almanac as a whole: how much of every layer, how its splits are balanced, what it weighs, what it gives away."""

import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from spanlab.samples import load
from tests.samples.almanac_set_checks import check_totals, count_labels, count_layers
from tests.samples.check_almanac import SHIPPED

ROOT = Path(__file__).parents[2]
CARD = ROOT / "docs" / "almanac.md"
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


@pytest.fixture(scope="module")
def baselines() -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.almanac_baselines"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1].removeprefix("RESULT "))
    return result


def test_systems_that_do_not_read_do_not_come_far(baselines: dict[str, Any]) -> None:
    for name, groups in baselines["scores"].items():
        for group, values in groups.items():
            assert values["has_answer_f1"] < 20, (name, group)
            assert name == "no answer" or values["f1"] < 35, (name, group)
    # Half of the pairs of an answerable and an unanswerable question are put in order by chance.
    assert baselines["answerability"]["auc"] < 0.75


def card_rows(columns: int) -> dict[tuple[str, ...], list[str]]:
    """The tables of the data card: the numbers of each row by the words before them."""
    rows = {}
    for line in CARD.read_text(encoding="utf-8").split("\n"):
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and len(cells) == columns:
            words = tuple(cell for cell in cells if not re.fullmatch(r"[\d,.]+", cell))
            rows[words] = [cell.replace(",", "") for cell in cells if cell not in words]
    return rows


def test_the_data_card_counts_as_the_checker_does() -> None:
    groups = [[p for p in load() if language in {p.language, ""}] for language in ("en", "zh", "ko", "")]
    counts = [count_layers(group) for group in groups]
    told = {words[0]: numbers for words, numbers in card_rows(5).items() if len(numbers) == 4}
    assert LEAST.keys() - told.keys() == {"relation types"}
    assert told == {layer: [str(count[layer]) for count in counts] for layer in told}
    labels = {words: None for words in card_rows(2) if words[0] in count_labels(load())}
    assert labels.keys() == {
        (layer, ", ".join(f"{label} {count}" for label, count in found.most_common()))
        for layer, found in count_labels(load()).items()
    }


def test_the_data_card_tells_the_scores_of_the_baselines(baselines: dict[str, Any]) -> None:
    told = {words: numbers for words, numbers in card_rows(5).items() if words[0] in baselines["scores"]}
    metrics = ("exact_match", "f1", "has_answer_f1")
    assert told == {
        (name, {"en": "English"}.get(group, group)): [f"{values[metric]:.1f}" for metric in metrics]
        for name, groups in baselines["scores"].items()
        for group, values in groups.items()
        if group in {"en", "all"}
    }
    numbers = [str(number) for number in baselines["answerability"].values()]
    sentence = "accuracy {}, where the majority scores {}, and an area under the curve of {} ".format(*numbers)
    assert sentence in CARD.read_text(encoding="utf-8")
