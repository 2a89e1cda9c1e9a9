"""Folders of added tasks over a model in the box: small, whole in what they predict, and never over other weights."""

import json
import shutil
from pathlib import Path

import pytest
import torch

import spanlab
from spanlab.encoder.pretrained import load_model
from spanlab.errors import ConfigError, InputError
from tests.cli.run import run_here

BASE = "spanbert-mini-en"
TEXT = "The miller of Harrow sold his flour at noon."
QUESTION = {"question": "Who sold the flour?", "text": TEXT}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two tasks added to the model in the box, one with adapters."""
    folder = tmp_path_factory.mktemp("added")
    (folder / "labels.jsonl").write_text(
        "".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in (("fine", "a"), ("dull", "b")))
    )
    question = {**QUESTION, "context": TEXT, "answers": [{"text": "miller", "start": 4}]}
    (folder / "questions.jsonl").write_text(json.dumps(question) + "\n")
    training = {"steps": 2, "lr": 1e-2, "batch_size": 2, "threads": 1, "precision": "fp32"}
    labels, questions = str(folder / "labels.jsonl"), str(folder / "questions.jsonl")
    first = spanlab.finetune(
        "classification", model=BASE, train=labels, out=folder / "first", add=True, name="label", pooling="mean",
        training=training, tuning={"lora": 4},
    )  # fmt: skip
    spanlab.finetune(
        "qa", model=first.model, train=questions, out=folder / "run", add=True, name="qa", training=training
    )
    return folder / "run" / "model"


@pytest.fixture(scope="module")
def light(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same without the encoder."""
    out = tmp_path_factory.mktemp("light") / "tasks"
    done = run_here("convert", str(trained), "--base", BASE, "--out", str(out))
    assert done.returncode == 0, done.stderr
    return out


def test_it_is_small_and_predicts_the_same(trained: Path, light: Path) -> None:
    assert not (light / "model.safetensors").exists()
    assert (light / "heads.safetensors").stat().st_size < 1e6
    whole, small = (spanlab.load(folder, device="cpu", precision="fp32") for folder in (trained, light))
    assert small.tasks == whole.tasks == ("label", "qa")
    before, after = (model.predict(TEXT, task="label")[0] for model in (whole, small))
    assert before.label == after.label
    assert after.score == pytest.approx(before.score, abs=5e-3)  # int8 rounds
    answers = [model.predict((QUESTION["question"], TEXT), task="qa")[0] for model in (whole, small)]
    assert answers[0].nbest[0].answer == answers[1].nbest[0].answer
    assert (whole.encode(TEXT) == small.encode(TEXT)).all()


def test_converting_it_without_a_base_gives_a_whole_folder(light: Path, tmp_path: Path) -> None:
    done = run_here("convert", str(light), "--out", str(tmp_path / "whole"))
    assert done.returncode == 0, done.stderr
    assert "base" not in json.loads((tmp_path / "whole" / "spanlab.json").read_text())
    theirs, ours = (load_model(name).encoder.state_dict() for name in (BASE, tmp_path / "whole"))
    assert all(torch.equal(theirs[name], ours[name]) for name in theirs)
    models = [spanlab.load(folder, device="cpu", precision="fp32") for folder in (light, tmp_path / "whole")]
    first, second = (model.predict(TEXT, task="label")[0].score for model in models)
    assert first == second


def test_a_task_is_added_to_it(light: Path, tmp_path: Path) -> None:
    rows = [{"text": "fine", "label": "x"}, {"text": "dull", "label": "y"}]
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = spanlab.finetune(
        "classification",
        model=light,
        train=str(tmp_path / "train.jsonl"),
        out=tmp_path / "run",
        add=True,
        name="third",
        training={"steps": 1, "threads": 1},
    )
    assert spanlab.load(run.model, device="cpu").tasks == ("label", "qa", "third")


def test_a_changed_encoder_is_refused(tmp_path: Path) -> None:
    rows = [{"text": "fine", "label": "x"}, {"text": "dull", "label": "y"}]
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    training = {"steps": 1, "lr": 1e-3, "threads": 1}
    run = spanlab.finetune(
        "classification", model=BASE, train=str(tmp_path / "train.jsonl"), out=tmp_path / "run", training=training
    )
    done = run_here("convert", str(run.model), "--base", BASE, "--out", str(tmp_path / "out"))
    assert done.returncode == 2
    assert f"its encoder is not that of {BASE}" in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "spanbert-mini-eng"}, r"did you mean 'spanbert-mini-en'\?"),
        ({"sha256": "0" * 64}, "trained with other weights"),
        ({"nmae": "x"}, "nmae"),
    ],
)
def test_another_base_is_refused(light: Path, tmp_path: Path, changes: dict[str, str], message: str) -> None:
    folder = Path(shutil.copytree(light, tmp_path / "changed"))
    described = json.loads((folder / "spanlab.json").read_text())
    described["base"] |= changes
    (folder / "spanlab.json").write_text(json.dumps(described))
    with pytest.raises(ConfigError, match=message):
        spanlab.load(folder)


def test_what_cannot_be_written_over_a_base_is_said(trained: Path, tmp_path: Path) -> None:
    for arguments, message in (
        (["--base", "minilmm"], "did you mean 'minilm'?"),
        (["--base", BASE, "--compact"], "leave out --compact"),
    ):
        done = run_here("convert", str(trained), *arguments, "--out", str(tmp_path / "out"))
        assert done.returncode == 2
        assert message in done.stderr
    done = run_here("convert", BASE, "--base", BASE, "--out", str(tmp_path / "out"))
    assert done.returncode == 2
    assert "no tasks" in done.stderr


def test_all_is_every_task_that_takes_the_input(light: Path, tmp_path: Path) -> None:
    model = spanlab.load(light, device="cpu", precision="fp32")
    (both,) = model.predict(QUESTION, task="all")
    assert set(both) == {"label", "qa"}
    (alone,) = model.predict({"question": QUESTION["question"], "context": TEXT}, task="all")
    assert set(alone) == {"qa"}
    assert alone["qa"].to_dict() == both["qa"].to_dict()  # a question without a context is asked of the text
    assert set(model.predict(TEXT, task="all")[0]) == {"label"}
    assert model.predict([], task="all") == []
    with pytest.raises(InputError, match=r"no task of the model takes what is given \(title\)"):
        model.predict({"title": "x"}, task="all")
    (tmp_path / "texts.txt").write_text(f"{TEXT}\n")
    (tmp_path / "asked.jsonl").write_text(json.dumps(QUESTION) + "\n")
    for name, tasks in (("texts.txt", {"label"}), ("asked.jsonl", {"label", "qa"})):
        done = run_here("predict", str(light), "--task", "all", "--input", str(tmp_path / name), "--json")
        assert done.returncode == 0, done.stderr
        assert tasks == set(json.loads(done.stdout)["tasks"]), done.stdout
