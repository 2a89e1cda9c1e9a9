"""Settings that the user leaves open: told, printed, kept by the run and by `--resume`, never against the user."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from spanlab.finetuning.config import resolve_run_config
from spanlab.finetuning.defaults import RunScale, Unset, unset_settings
from spanlab.report.run_page import run_page
from spanlab.training.records import Record
from spanlab.training.run_folder import RunFolder
from spanlab.workflows.budget import finetuning_within
from spanlab.workflows.dry_run import finetuning_dry_run
from spanlab.workflows.finetune import FinetuningJob, finetune, resumed_job, run_job, sweep
from tests.cli.run import run_here
from tests.tasks.almanac_files import write_topics

PLAIN = {"batch_size": 8, "precision": "fp32", "device": "cpu", "threads": 1, "eval_every": 1000}
CLOSED = Unset()


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    train, dev = write_topics(tmp_path / "data")
    return str(train), str(dev)


@pytest.fixture
def scale(tiny_model: Path, files: tuple[str, str]) -> RunScale:
    width = json.loads((tiny_model / "config.json").read_text())["hidden_size"]
    return RunScale(width=width, examples=len(Path(files[0]).read_text().splitlines()))


def job(model: Path, files: tuple[str, str], out: Path, **training: object) -> FinetuningJob:
    changes = {"training": {**PLAIN, **training}}
    config, unset = resolve_run_config("classification", changes), unset_settings(changes)
    train, dev = files
    sources = {"task": "classification", "model": str(model), "train": train, "dev": dev, "out": str(out)}
    return FinetuningJob(**sources, config=config, unset=unset)


def command(files: tuple[str, str], model: Path, out: Path) -> list[str]:
    paths = ["--model", str(model), "--train", files[0], "--dev", files[1], "--out", str(out)]
    return ["finetune", "classification", *paths, *(f"training.{key}={value}" for key, value in PLAIN.items())]


def test_it_is_told_printed_and_kept(tiny_model: Path, files: tuple[str, str], scale: RunScale, tmp_path: Path) -> None:
    asked = job(tiny_model, files, tmp_path / "run")
    wanted = scale.choose(asked.config.training, asked.unset)
    assert (wanted.lr, wanted.epochs) == (7.2e-4, 30.0)
    line = scale.explain(wanted, asked.unset)
    assert asked.prepare().notes()[0] == line
    estimate = finetuning_dry_run(asked)
    assert (estimate.lr, round(estimate.epochs), estimate.notes[0]) == (wanted.lr, 30, line)
    assert dict(estimate.rows())["learning rate"] == "7.2e-4"
    typed = command(files, tiny_model, tmp_path / "run")
    printed = yaml.safe_load(run_here(*typed, "--print-config").stdout)["training"]
    assert (printed["lr"], printed["epochs"]) == (wanted.lr, wanted.epochs)
    done = run_here(*typed, "training.epochs=0.5")
    assert f"learning rate 7.2e-4 for width {scale.width}; set training.lr to change" in done.stderr
    assert RunFolder(tmp_path / "run").read_config()["training"]["lr"] == wanted.lr
    assert f"lr: {wanted.lr}" in run_page(tmp_path / "run")
    assert f"{wanted.lr}" in (tmp_path / "run" / "model" / "README.md").read_text()


def test_what_is_given_wins(tiny_model: Path, files: tuple[str, str], tmp_path: Path) -> None:
    for given in ({"lr": 1e-3}, {"epochs": 2.0}, {"lr": 1e-3, "steps": 3}):
        run = job(tiny_model, files, tmp_path / "run", **given).prepare()
        assert {key: getattr(run.training, key) for key in given} == given
        assert not any(f"set training.{key} " in note for key in given for note in run.notes())


@pytest.mark.parametrize(("tuning", "frozen"), [({"lora": 2}, True), ({"freeze": 2}, True), ({"freeze": 1}, False)])
def test_whether_the_encoder_is_frozen_is_seen(
    tiny_model: Path, files: tuple[str, str], tmp_path: Path, tuning: dict[str, int], frozen: bool
) -> None:
    asked = job(tiny_model, files, tmp_path / "run")
    config = resolve_run_config("classification", {"tuning": tuning})
    assert replace(asked, config=config).prepare().scale.frozen == frozen
    if "lora" in tuning:
        done = run_here(*command(files, tiny_model, tmp_path / "run"), "tuning.lora=2", "--dry-run")
        assert "learning rate 7.2e-4 for width 32 and a frozen encoder" in done.stderr


def test_a_resumed_run_keeps_its_values(tiny_model: Path, files: tuple[str, str], tmp_path: Path) -> None:
    """Also a run of a version that chose otherwise, and whichever way it is resumed."""

    class StoppedError(Exception):
        """As if the process had ended."""

    def stop(record: Record) -> None:
        raise StoppedError

    out = tmp_path / "run"
    earlier = resolve_run_config(
        "classification", {"training": {**PLAIN, "epochs": 1.0, "lr": 1.3e-3, "save_every": 1}}
    )
    train, dev = files
    begun = FinetuningJob(
        task="classification", model=str(tiny_model), train=train, dev=dev, out=str(out), config=earlier
    )
    with pytest.raises(StoppedError):
        run_job(begun, on_record=stop)
    before = RunFolder(out).read_config()
    again = resumed_job(str(out), {"training": PLAIN}, task="classification", model=str(tiny_model))
    for resumed in (again, resumed_job(str(out), {})):
        assert resumed.unset == CLOSED
        assert (resumed.config.training.lr, resumed.config.training.epochs) == (1.3e-3, 1.0)
    done = run_here(*command(files, tiny_model, out), "--resume", "training.lr=0.1")
    assert (done.returncode, "training.lr=0.0013, not 0.1" in done.stderr) == (2, True)
    finetune("classification", model=tiny_model, train=train, dev=dev, out=out, resume=True, training=PLAIN)
    assert RunFolder(out).read_config() == before
    assert RunFolder(out).read_status().state == "finished"


def test_a_sweep_tries_the_rates_of_the_width(
    tiny_model: Path, files: tuple[str, str], scale: RunScale, tmp_path: Path
) -> None:
    outcomes = sweep(job(tiny_model, files, tmp_path / "run", steps=1))
    assert tuple(outcome.lr for outcome in outcomes) == scale.sweep_rates()


def test_a_budget_settles_the_steps_and_leaves_the_rate(
    tiny_model: Path, files: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from spanlab.workflows import budget

    monkeypatch.setattr(budget, "_affordable_steps", lambda *_: 12)
    asked = job(tiny_model, files, tmp_path / "run")
    run = finetuning_within(asked, 60.0).prepare()
    assert (run.training.steps, run.training.lr) == (12, asked.prepare().training.lr)
    assert run.notes()[0].startswith("learning rate 7.2e-4 for width")


def test_heads_of_a_list_are_slowed_like_that_of_one_task(tiny_model: Path, tmp_path: Path) -> None:
    assert run_here("init", "multitask", str(tmp_path / "start"), "--language", "en").returncode == 0
    tasks = str(tmp_path / "start" / "tasks.yaml")
    for given, factor in (({}, 10 / 6), ({"lr": 1e-3}, 10.0)):
        config = resolve_run_config("multitask", {"training": given})
        listed = FinetuningJob(
            task="multitask",
            model=str(tiny_model),
            train=tasks,
            config=config,
            unset=unset_settings({"training": given}),
            out=str(tmp_path / "run"),
        )
        assert listed.prepare().training.lr_factors == {"heads.names": pytest.approx(factor)}


def test_a_written_config_leaves_open_what_is_chosen(tiny_model: Path, tmp_path: Path) -> None:
    start = tmp_path / "start"
    assert run_here("init", "ner", str(start), "--language", "en").returncode == 0
    config = ["--config", str(start / "config.yaml"), "--model", str(tiny_model), "--train", str(start / "train.jsonl")]
    done = run_here("finetune", "ner", *config, "--out", str(tmp_path / "run"), "--print-config")
    printed = yaml.safe_load(done.stdout)["training"]
    assert (printed["lr"], printed["lr_factors"]) == (1.8e-3, {"heads": pytest.approx(10 / 6)})
