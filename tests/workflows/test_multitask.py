"""Several tasks from a list to one folder: scores of each, the best by all, exact resume, tasks added tracelessly."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.modules.module import register_module_forward_hook

import spanlab
from spanlab.config import merge
from spanlab.encoder import Encoder, load_model
from spanlab.errors import ConfigError, InputError
from spanlab.finetuning.config import resolve_run_config
from spanlab.finetuning.run import FinetuningRun
from spanlab.inference.predictor import Predictor
from spanlab.tasks.similarity import Similarity, SimilarityConfig
from spanlab.training.config import TrainingConfig
from spanlab.training.records import Record
from spanlab.workflows.finetune import FinetuningJob, finetune, run_job, sweep
from tests.cli.run import run_here
from tests.tasks.several_tasks import listed, write_list, write_several

TRAINING = {"epochs": 3.0, "lr": 3e-3, "batch_size": 8, "precision": "fp32", "device": "cpu", "eval_every": 12}
NAMES = ("topics", "names", "alike", "who")
TEXT = "today Anna crossed the river again"
INPUT = {"text": TEXT, "text_a": TEXT, "text_b": "she won", "question": "who crossed the river?", "context": TEXT}


def settings(**changes: Any) -> dict[str, Any]:
    return merge({"training": TRAINING}, changes)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("several")
    write_several(folder)
    return folder


@pytest.fixture(scope="module")
def records() -> list[Record]:
    return []


@pytest.fixture(scope="module")
def run(tiny_model: Path, data: Path, records: list[Record]) -> Path:
    path = data / "tasks.yaml"
    return finetune(
        "multitask", model=tiny_model, train=path, out=data / "run", on_record=records.append, **settings()
    ).folder


@pytest.fixture(scope="module")
def model(run: Path) -> Predictor:
    return spanlab.load(run, precision="fp32")


def test_scores_of_each_task_and_the_best_by_their_mean(run: Path, records: list[Record], model: Predictor) -> None:
    dev = [record.metrics for record in records if record.split == "dev"]
    for scores in dev:
        parts = [scores["topics/accuracy"], scores["names/f1"], 100 * scores["alike/spearman"], scores["who/f1"]]
        assert scores["combined"] == pytest.approx(sum(parts) / 4)
    status = json.loads((run / "status.json").read_text())
    assert status["best"]["score"] == max(scores["combined"] for scores in dev)
    trained = [
        set(record.metrics) & {f"loss.{name}" for name in NAMES} for record in records if record.split == "train"
    ]
    assert all(len(names) == 1 for names in trained)
    assert set().union(*trained) == {f"loss.{name}" for name in NAMES}
    best = max(dev, key=lambda scores: scores["combined"])
    for name, metric in (("topics", "accuracy"), ("names", "f1")):
        found = model.evaluate(str(run.parent / name / "dev.jsonl"), task=name)
        assert found.metrics[metric] == pytest.approx(best[f"{name}/{metric}"])
    assert best["topics/accuracy"] > 80


def test_the_folder_tells_everything(run: Path, model: Predictor) -> None:
    assert model.tasks == NAMES
    described = json.loads((run / "model" / "spanlab.json").read_text())
    assert described["task"] == "multitask"
    assert described["tasks"]["topics"]["labels"] == ["sport", "water"]
    card = (run / "model" / "README.md").read_text()
    assert "| `topics` | classification | 32 | accuracy" in card
    assert "## Task `who`: qa" in card
    page = (run / "report.html").read_text()
    assert "topics: Confusion matrix" in page
    assert "names: Scores by label" in page


def test_tasks_by_name_and_together(model: Predictor) -> None:
    passes: list[int] = []
    model.model.encoder.register_forward_hook(lambda *_: passes.append(1))
    (found,) = model.predict(TEXT, task=["topics", "names"])
    assert len(passes) == 1
    assert [found["topics"]] == model.predict(TEXT, task="topics")
    assert [found["names"]] == model.predict(TEXT, task="names")
    assert len(passes) == 3
    (everything,) = model.predict(INPUT, task="all")
    assert len(passes) == 4
    assert tuple(everything) == NAMES
    assert everything["topics"].label == found["topics"].label
    assert model.predict([INPUT, INPUT], task=["who"])[1]["who"].id == "1"
    with pytest.raises(InputError, match=r"no task 'topic' \(did you mean 'topics'\?\); there are topics, names"):
        model.predict(TEXT, task=["topic"])
    with pytest.raises(InputError, match="the model's tasks are topics, names, alike, who; choose one with --task"):
        model.predict(TEXT)
    assert set(model.predict(TEXT, task="all")[0]) == {"topics", "names"}  # what takes a text alone
    with pytest.raises(InputError, match="similarity takes text_a and text_b, and this has 1 parts; give mappings"):
        model.predict(TEXT, task=["topics", "alike"])


@pytest.mark.parametrize("lora", [0, 2])
@pytest.mark.parametrize("embeddings", [False, True])
def test_an_added_task_leaves_the_others_bit_for_bit(
    tiny_model: Path, data: Path, run: Path, tmp_path: Path, lora: int, embeddings: bool
) -> None:
    base = run
    if embeddings:
        quick = settings(training={"epochs": 1.0}, task_embeddings=True)
        base = finetune("multitask", model=tiny_model, train=data / "tasks.yaml", out=tmp_path / "base", **quick).folder
    before = spanlab.load(base, precision="fp32")
    said = {name: before.predict([INPUT] * 2, task=name) for name in NAMES}
    files: dict[str, Any] = {"train": data / "topics" / "train.jsonl", "dev": data / "topics" / "dev.jsonl"}
    more = settings(tuning={"lora": lora}, training={"epochs": 8.0, "lr": 0.02})
    for number, model in enumerate((base, tmp_path / "added-0")):
        out = tmp_path / f"added-{number}"
        result = finetune("classification", model=model, out=out, add=True, name=f"more-{number}", **files, **more)
        assert json.loads((out / "status.json").read_text())["best"]["score"] > 80
    after = spanlab.load(result.model, precision="fp32")
    assert after.tasks == (*NAMES, "more-0", "more-1")
    for name in NAMES:
        assert after.predict([INPUT] * 2, task=name) == said[name]
    olds, news = (load_model(each / "model").encoder.state_dict() for each in (base, tmp_path / "added-1"))
    assert all(torch.equal(olds[name], news[name]) for name in olds)
    passes: list[int] = []
    # Of all encoders, since adapters are applied in a copy of the model's.
    hook = register_module_forward_hook(lambda module, *_: passes.append(1) if isinstance(module, Encoder) else None)
    after.predict(TEXT, task=["topics", "names", "more-0", "more-1"])
    hook.remove()
    assert len(passes) == (1 if not lora and not embeddings else 4 if embeddings else 3)
    card = (result.model / "README.md").read_text()
    assert "## Task `more-0`: classification" in card
    assert "## Task `more-1`: classification" in card


def test_a_task_beside_that_of_a_model_for_one(tiny_model: Path, data: Path, tmp_path: Path) -> None:
    """The first task then lies under its own name, no longer under transformers'."""
    topics: dict[str, Any] = {"train": data / "topics" / "train.jsonl"}
    quick = settings(training={"epochs": 1.0})
    alone = finetune("classification", model=tiny_model, out=tmp_path / "alone", **topics, **quick)
    said = spanlab.load(alone.model, precision="fp32").predict(TEXT)
    names = data / "names" / "train.jsonl"
    added = finetune("ner", model=alone.model, train=names, out=tmp_path / "two", add=True, **quick)
    both = spanlab.load(added.model, precision="fp32")
    assert both.tasks == ("classification", "ner")
    assert both.predict(TEXT, task="classification") == said
    again: dict[str, Any] = {"model": added.model, "train": names, "out": tmp_path / "three", "add": True}
    with pytest.raises(InputError, match="the name 'ner' is taken by another task"):
        finetune("ner", **again, **quick)
    with pytest.raises(ConfigError, match="freezes the whole encoder"):
        finetune("ner", **again, name="x", tuning={"freeze": 1})
    with pytest.raises(ConfigError, match="tasks are added one at a time"):
        finetune("multitask", model=added.model, train=data / "tasks.yaml", out=tmp_path / "four", add=True)
    with pytest.raises(ConfigError, match="use add=True"):
        finetune("ner", model=added.model, train=names, out=tmp_path / "four", name="x")
    assert not (tmp_path / "three").exists()


OPTIONS: dict[str, Any] = {"sampling": "temperature", "weighting": "uncertainty", "task_embeddings": True}


@pytest.mark.parametrize("add", [False, True])
def test_a_stopped_run_goes_on_bit_for_bit(tiny_model: Path, data: Path, run: Path, tmp_path: Path, add: bool) -> None:
    if add:
        train, dev = (str(data / "names" / f"{name}.jsonl") for name in ("train", "dev"))
        config = resolve_run_config("ner", settings(tuning={"lora": 2}, training={"epochs": 10.0, "eval_every": 4}))
        sources: dict[str, Any] = {"task": "ner", "model": str(run), "train": train, "dev": dev, "add_as": "again"}
    else:
        config = resolve_run_config("multitask", settings(**OPTIONS, training={"epochs": 1.0, "eval_every": 5}))
        sources = {"task": "multitask", "model": str(tiny_model), "train": str(data / "tasks.yaml")}
    asked = FinetuningJob(**sources, config=config, out=str(tmp_path / "whole"))
    whole: list[Record] = []
    run_job(asked, on_record=whole.append)

    class StoppedError(Exception):
        """As if the process had ended."""

    def stop(record: Record) -> None:
        if record.step == 9:
            raise StoppedError

    asked = replace(asked, out=str(tmp_path / "run"))
    with pytest.raises(StoppedError):
        run_job(asked, on_record=stop)
    rest: list[Record] = []
    run_job(replace(asked, resume=True), on_record=rest.append)
    assert 0 < rest[0].step <= 9
    wanted = {record.step: record.metrics["loss"] for record in whole if record.split == "train"}
    assert all(record.metrics["loss"] == wanted[record.step] for record in rest if record.split == "train")
    one, other = (spanlab.load(tmp_path / name, precision="fp32") for name in ("whole", "run"))
    assert one.predict(INPUT, task="all") == other.predict(INPUT, task="all")


@dataclass(frozen=True, kw_only=True)
class Faster(SimilarityConfig):
    """A task of small steps whose head learns faster than its encoder."""

    training: TrainingConfig = field(
        default_factory=lambda: TrainingConfig(epochs=1.0, batch_size=2, lr_factors={"heads": 20.0})
    )


def test_what_the_run_is_told(tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_several(tmp_path)
    path = write_list(tmp_path, listed(weight=2.0, settings={"head": "span", "data": {"length": 16}}))

    def prepare(changes: dict[str, Any], dev: str | None = None) -> FinetuningRun:
        config = resolve_run_config("multitask", changes)
        return FinetuningRun("multitask", config, model=str(tiny_model), train=str(path), dev=dev)

    listed_run = prepare(settings(data={"length": 32}, choose_by="who"))
    lengths = {data.name: data.config.data.length for data in listed_run.tasks}
    assert lengths == {"topics": 32, "names": 16, "alike": 32, "who": 32}
    assert listed_run.network.weights["names"] == 2.0
    assert listed_run.training.lr_factors == {"heads.names": 10.0}  # of head=span
    monkeypatch.setattr(Similarity, "Config", Faster)
    write_list(tmp_path, listed(batch_size=5))
    slow = prepare(settings())
    sizes = {data.name: data.config.training.batch_size for data in slow.tasks}
    assert sizes == {"topics": 8, "names": 5, "alike": 2, "who": 8}
    assert slow.training.lr_factors == {"heads.alike": 20.0}
    factors = {"heads": 3.0}
    assert prepare({"training": {"lr_factors": factors}}).training.lr_factors == factors
    with pytest.raises(ConfigError, match=r"'choose_by' is 'hwo' \(did you mean 'who'\?\)"):
        prepare({"choose_by": "hwo"})
    with pytest.raises(ConfigError, match="--dev cannot be used"):
        prepare({}, dev="x.jsonl")
    write_list(tmp_path, listed(settings={"data": {"lenght": 16}}))
    with pytest.raises(
        ConfigError, match=r"tasks\.yaml:11: unknown key 'data\.lenght' \(did you mean 'data\.length'\?\)"
    ):
        prepare({})
    without = [{key: value for key, value in entry.items() if key != "dev"} for entry in listed()]
    write_list(tmp_path, without)
    config = resolve_run_config("multitask", settings())
    job = FinetuningJob(
        task="multitask", model=str(tiny_model), train=str(path), config=config, out=str(tmp_path / "run")
    )
    with pytest.raises(ConfigError, match="a sweep needs dev scores"):
        sweep(job)
    (tmp_path / "names" / "train.jsonl").write_text('{"text": "a"}\n')
    with pytest.raises(InputError, match=r"names/train\.jsonl:1: the field 'spans' is missing"):
        job.prepare()


def test_the_commands(run: Path, data: Path, tmp_path: Path) -> None:
    dev = str(data / "topics" / "dev.jsonl")
    scored = run_here("evaluate", str(run), "--data", dev, "--task", "topics", "--json")
    assert scored.returncode == 0, scored.stderr
    assert json.loads(scored.stdout)["task"] == "classification"
    (tmp_path / "texts.txt").write_text(f"{TEXT}\nshe won the race\n")
    command = ("predict", str(run), "--input", str(tmp_path / "texts.txt"), "--json")
    alone = run_here(*command, "--task", "topics")
    together = run_here(*command, "--task", "topics,names")
    lines = [[json.loads(line) for line in done.stdout.splitlines()] for done in (alone, together)]
    assert [line["tasks"]["topics"] for line in lines[1]] == lines[0]
    assert [(line["id"], line["windows"], line["truncated"]) for line in lines[1]] == [("0", 1, False), ("1", 1, False)]
    refused = run_here(*command, "--task", "topcs")
    assert refused.returncode == 2
    assert "did you mean 'topics'" in refused.stderr
    places = ("--model", str(run), "--train", dev, "--out", str(tmp_path / "out"))
    dry = run_here("finetune", "classification", *places, "--add", "name=more", "--dry-run")
    assert dry.returncode == 0, dry.stderr
    assert "sport, water" in dry.stdout
    taken = run_here("finetune", "classification", *places, "--add", "name=names")
    assert taken.returncode == 2
    assert "the name 'names' is taken by another task" in taken.stderr
    lists = ("--model", str(run), "--train", str(data / "tasks.yaml"), "--out", str(tmp_path / "out"))
    dry = run_here("finetune", "multitask", *lists, "--dry-run", "training.epochs=1")
    assert dry.returncode == 0, dry.stderr
    assert "names train" in dry.stdout


def test_a_list_to_start_from(tiny_model: Path, tmp_path: Path) -> None:
    start = tmp_path / "start"
    assert run_here("init", "multitask", str(start), "--language", "en").returncode == 0
    places = ("--model", str(tiny_model), "--train", str(start / "tasks.yaml"), "--out", str(tmp_path / "run"))
    dry = run_here("finetune", "multitask", "--config", str(start / "config.yaml"), *places, "--dry-run")
    assert dry.returncode == 0, dry.stderr
    assert "answers train" in dry.stdout
    assert f"--train {start}/tasks.yaml" in (start / "config.yaml").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_two_processes_learn_what_one_does(tiny_model: Path, data: Path, tmp_path: Path, parallel: str) -> None:
    command = ["--model", str(tiny_model), "--train", str(data / "tasks.yaml"), "weighting=uncertainty"]
    command += ["task_embeddings=true", "training.epochs=1", "training.lr=3e-3", "training.batch_size=8"]
    command += ["training.precision=fp32", f"training.parallel={parallel}"]
    losses = []
    for processes in (1, 2):
        out = tmp_path / f"run-{processes}"
        start = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
        asked = ["-m", "spanlab", "finetune", "multitask", *command, "--out", str(out)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
        done = subprocess.run(
            [*start, *asked], check=False, capture_output=True, text=True, env=environment, timeout=300
        )
        assert done.returncode == 0, done.stderr[-2000:]
        lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        losses.append([line["loss"] for line in lines if line["split"] == "train"])
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)
