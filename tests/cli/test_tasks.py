"""From sample data to a scored prediction with the commands a user types, and their exit codes."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.cli.run import run_here
from tests.tasks.almanac_files import write_topics

SETTINGS = ("training.epochs=4", "training.lr=3e-3", "training.batch_size=8", "training.precision=fp32")


@pytest.fixture(scope="module")
def place(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data and a finished run."""
    folder = tmp_path_factory.mktemp("commands")
    train, dev = write_topics(folder / "data")
    done = run_here(
        "finetune",
        "classification",
        *("--model", str(tiny_model), "--train", str(train), "--dev", str(dev), "--out", str(folder / "run"), "--json"),
        *SETTINGS,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["outcome"] == "finished"
    return folder


def test_evaluate_predict_and_score_agree(place: Path) -> None:
    dev = str(place / "data" / "dev.jsonl")
    evaluated = run_here("evaluate", str(place / "run"), "--data", dev, "--json")
    assert evaluated.returncode == 0, evaluated.stderr
    scores = json.loads(evaluated.stdout)
    assert set(scores) == {"task", "count", "metrics"}
    assert set(scores["metrics"]) == {"accuracy", "macro_f1", "mcc"}
    out = place / "predicted.jsonl"
    assert run_here("predict", str(place / "run"), "--input", dev, "--output", str(out)).returncode == 0
    scored = run_here("score", "classification", "--gold", dev, "--predicted", str(out), "--json")
    assert json.loads(scored.stdout) == scores
    first = json.loads(out.read_text().splitlines()[0])
    assert first["id"] == "dev-0-water"
    assert set(first) == {"id", "windows", "truncated", "label", "score", "scores"}


def test_an_output_stays_until_there_is_a_new_one(place: Path) -> None:
    """Neither a refused option nor a missing input costs what was written before."""
    dev, out = str(place / "data" / "dev.jsonl"), place / "kept.jsonl"
    out.write_text("of an earlier day\n")
    command = ("predict", str(place / "run"), "--output", str(out), "--overwrite", "--input")
    assert run_here(*command, dev, "--redact").returncode == 2
    assert run_here(*command, str(place / "missing.jsonl")).returncode == 2
    assert out.read_text() == "of an earlier day\n"
    assert run_here(*command, dev).returncode == 0
    assert "of an earlier day" not in out.read_text()


def test_texts_for_people_and_vectors(place: Path) -> None:
    texts = place / "texts.txt"
    texts.write_text("the river rose again\n\nshe won the race\n")
    shown = run_here("predict", str(place / "run"), "--input", str(texts))
    assert [line.split("\t")[:2] for line in shown.stdout.splitlines()] == [
        ["0", "label=water"],
        ["1", "label=null"],
        ["2", "label=sport"],
    ]
    out = place / "vectors.npy"
    assert run_here("embed", str(place / "run"), "--input", str(texts), "--output", str(out)).returncode == 0
    assert np.load(out).shape == (3, 32)


def test_init_check_and_dry_run(tiny_model: Path, tmp_path: Path) -> None:
    assert run_here("init", "similarity", str(tmp_path / "start"), "--language", "en").returncode == 0
    train, dev = (str(tmp_path / "start" / f"{name}.jsonl") for name in ("train", "dev"))
    checked = run_here("data", "check", "similarity", dev, "--train", train, "--json")
    assert checked.returncode == 0, checked.stdout
    assert json.loads(checked.stdout)["labels"].keys() == {"same", "different"}
    command = (
        "finetune",
        "similarity",
        "--config",
        str(tmp_path / "start" / "config.yaml"),
        "--model",
        str(tiny_model),
    )
    dry = run_here(*command, "--train", train, "--dev", dev, "--out", str(tmp_path / "run"), "--dry-run")
    assert dry.returncode == 0, dry.stderr
    assert "different, same" in dry.stdout
    assert not (tmp_path / "run").exists()


def test_faults_end_with_two_and_one_line(tiny_model: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"text": "a", "label": "x"}\n{"text": "b"\n')
    places = ("--model", str(tiny_model), "--train", str(bad), "--out", str(tmp_path / "run"))
    command = ("finetune", "classification", *places)
    for arguments, words in (
        (command, f"{bad}:2:"),
        ((*command, "traning.lr=1"), "did you mean 'training'"),
        (("finetune", "clasification", *places), "did you mean 'classification'"),
        (("evaluate", str(tmp_path / "missing"), "--data", str(bad)), "no such model folder"),
        (("score", "classification", "--gold", str(bad), "--predicted", str(bad)), f"{bad}:2:"),
    ):
        done = run_here(*arguments)
        assert done.returncode == 2, done
        assert words in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
    checked = run_here("data", "check", "classification", str(bad))
    assert checked.returncode == 2
    assert f"{bad}:2: unreadable" in checked.stdout
    fixed = run_here("data", "check", "classification", str(bad), "--fix", str(tmp_path / "fixed.jsonl"))
    assert fixed.returncode == 0
    assert "dropped: 1 unreadable" in fixed.stderr
