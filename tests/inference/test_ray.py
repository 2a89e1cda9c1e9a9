"""Prediction on Ray: the same results in the same order as here, and the same errors."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import spanlab
from spanlab.errors import InputError
from spanlab.inference import predictor
from spanlab.inference.ray import RayPrediction, predict_on_ray
from spanlab.tasks.classification import Classification
from spanlab.tasks.formats.reading import read_rows
from spanlab.tasks.formats.row import Row
from tests.cli.run import run_here, run_spanlab
from tests.tasks.almanac_files import write_topics


@pytest.fixture(scope="module")
def model(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("topics")
    train, dev = write_topics(folder)
    spanlab.finetune(
        "classification",
        model=tiny_model,
        train=train,
        dev=dev,
        out=folder / "run",
        training={"epochs": 1.0, "threads": 1},
    )
    return folder / "run"


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    """One cluster for all tests: prediction uses a connection that is there already, and leaves it."""
    module = pytest.importorskip("ray", reason="the ray extra is not installed")
    module.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield module
    module.shutdown()


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    path = tmp_path / "texts.jsonl"
    rows = [{"text": "the river rose " * (1 + n % 4) + f"again {n}"} for n in range(11)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.usefixtures("ray")
def test_results_are_those_of_one_process(model: Path, texts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predictor, "PORTION", 2)
    shape = Classification.shape
    here = list(spanlab.load(model).predict_rows(read_rows(str(texts), shape), first=5))
    portions = predict_on_ray(RayPrediction(model=str(model)), read_rows(str(texts), shape), first=5, workers=2)
    there = [result for portion in portions for result in portion.results]
    assert there == here
    assert [result.id for result in there] == [str(number) for number in range(5, 16)]


@pytest.mark.usefixtures("ray")
def test_an_error_comes_after_the_results_before_it(model: Path, texts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predictor, "PORTION", 2)
    lines = texts.read_text().splitlines(keepends=True)
    texts.write_text("".join([*lines[:7], "{oops\n", *lines[7:]]))
    found: list[str] = []
    portions = predict_on_ray(RayPrediction(model=str(model)), read_rows(str(texts), Classification.shape), workers=2)
    with pytest.raises(InputError, match=r"texts\.jsonl:8"):
        found.extend(result.id for portion in portions for result in portion.results)
    assert found == [str(number) for number in range(6)]


@pytest.mark.usefixtures("ray")
def test_a_worker_s_error_is_the_user_s(model: Path, tmp_path: Path) -> None:
    path = tmp_path / "texts.jsonl"
    path.write_text('{"text": "fine"}\n{"text": 3}\n')
    shape = Classification.shape
    with pytest.raises(InputError, match=r"texts\.jsonl:2") as here:
        list(spanlab.load(model).predict_rows(read_rows(str(path), shape)))
    with pytest.raises(InputError) as there:
        list(predict_on_ray(RayPrediction(model=str(model)), read_rows(str(path), shape), workers=1))
    assert str(there.value) == str(here.value)


def test_a_worker_s_batches_are_those_of_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A portion is divided no further by who computes it, whether its number of rows or their text has ended it."""
    monkeypatch.setattr(predictor, "PORTION", 4)
    monkeypatch.setattr(predictor, "PORTION_CHARACTERS", 30)
    rows = [Row(values={"text": "x" * length}) for length in (1, 2, 3, 4, 5, 29, 2, 40, 0, 30, 1, 1, 1, 1)]
    found = list(predictor.portions(rows))
    assert [len(portion) for portion in found] == [4, 1, 1, 1, 1, 2, 4]
    assert all(list(predictor.portions(portion)) == [portion] for portion in found)


@pytest.mark.slow
def test_on_the_command_line(model: Path, texts: Path) -> None:
    pytest.importorskip("ray", reason="the ray extra is not installed")
    given = ("predict", str(model), "--input", str(texts), "--json")
    there = run_spanlab(*given, "--engine", "ray", "--workers", "1")
    assert there.returncode == 0, there.stderr
    assert there.stdout == run_spanlab(*given).stdout


def test_without_ray_nothing_is_begun(
    model: Path, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    out = tmp_path / "out.jsonl"
    done = run_here("predict", str(model), "--input", str(texts), "--engine", "ray", "--output", str(out))
    assert done.returncode == 2
    assert "pip install 'spanlab[ray]'" in done.stderr
    assert not out.exists()


def test_several_tasks_at_once_are_refused(model: Path, texts: Path) -> None:
    result = run_here("predict", str(model), "--input", str(texts), "--task", "all", "--engine", "ray")
    assert result.returncode == 2
    assert "one task at a time" in result.stderr
