"""Fine-tuning from file to folder: it learns, resumes exactly, sweeps, loads in transformers, refuses bad data."""

import errno
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from spanlab.config import merge
from spanlab.encoder import load_model
from spanlab.errors import ConfigError, InputError, RunError
from spanlab.finetuning.config import resolve_config
from spanlab.finetuning.run import FinetuningRun
from spanlab.tasks.model import load_task_model
from spanlab.training.distributed import ProcessContext
from spanlab.training.loop import Training
from spanlab.training.records import Record
from spanlab.training.run_folder import RunFolder
from spanlab.workflows.dry_run import finetuning_dry_run
from spanlab.workflows.finetune import FinetuningJob, finetune, resumed_job, run_job, sweep
from tests.tasks.almanac_files import write_topics

QUICK: dict[str, Any] = {"training": {"epochs": 4.0, "lr": 3e-3, "batch_size": 8, "precision": "fp32", "device": "cpu"}}


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    return write_topics(tmp_path / "data")


def run(model: Path, files: tuple[Path, Path], out: Path, **changes: Any) -> list[Record]:
    records: list[Record] = []
    train, dev = files
    settings = merge(QUICK, changes)
    finetune("classification", model=model, train=train, dev=dev, out=out, on_record=records.append, **settings)
    return records


def job(model: Path, files: tuple[Path, Path], out: Path, **changes: Any) -> FinetuningJob:
    train, dev = map(str, files)
    config = resolve_config("classification", merge(QUICK, changes))
    return FinetuningJob(task="classification", model=str(model), train=train, dev=dev, config=config, out=str(out))


def test_it_learns_and_the_folder_holds_what_prediction_needs(
    tiny_model: Path, files: tuple[Path, Path], tmp_path: Path
) -> None:
    out = tmp_path / "run"
    records = run(tiny_model, files, out)
    assert max(record.metrics["accuracy"] for record in records if record.split == "dev") == 100.0
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [record.step for record in records]
    model = load_task_model(out)
    assert model.tasks["classification"].fitted.labels == ("sport", "water")
    described = json.loads((out / "model" / "spanlab.json").read_text())
    assert described["task"] == "classification"
    assert described["labels"] == ["sport", "water"]
    assert described["window"] == {"length": 512, "stride": None, "long_text": "windows"}
    card = (out / "model" / "README.md").read_text()
    assert "| accuracy | 100.00 |" in card
    assert "| water |" in card
    assert "BertForSequenceClassification" in card


def test_the_folder_loads_in_transformers_with_the_same_logits(
    tiny_model: Path, files: tuple[Path, Path], tmp_path: Path
) -> None:
    hf = pytest.importorskip("transformers")
    run(tiny_model, files, tmp_path / "run", training={"epochs": 1.0})
    folder = tmp_path / "run" / "model"
    theirs, report = hf.AutoModelForSequenceClassification.from_pretrained(folder, output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    assert theirs.config.id2label == {0: "sport", 1: "water"}
    given = hf.AutoTokenizer.from_pretrained(folder)("the river rose", return_tensors="pt")
    with torch.no_grad():
        wanted = theirs.eval()(**given).logits.softmax(-1)[0]
    from spanlab.inference.load import load

    (result,) = load(folder, precision="fp32").predict(["the river rose"])
    assert list(result.scores.values()) == pytest.approx(wanted.tolist(), abs=1e-5)


def test_a_stopped_run_goes_on_bit_for_bit(tiny_model: Path, files: tuple[Path, Path], tmp_path: Path) -> None:
    whole = run(tiny_model, files, tmp_path / "whole")
    asked = job(tiny_model, files, tmp_path / "run")

    class StoppedError(Exception):
        """As if the process had ended."""

    def stop(record: Record) -> None:
        if record.step == 9:
            raise StoppedError

    with pytest.raises(StoppedError):
        run_job(asked, on_record=stop)
    rest: list[Record] = []
    run_job(replace(asked, resume=True), on_record=rest.append)
    assert 0 < rest[0].step <= 10
    losses = {record.step: record.metrics["loss"] for record in whole if record.split == "train"}
    assert all(record.metrics["loss"] == losses[record.step] for record in rest if record.split == "train")
    ends = [load_model(tmp_path / name / "model") for name in ("whole", "run")]
    for one, other in zip(ends[0].encoder.parameters(), ends[1].encoder.parameters(), strict=True):
        assert torch.equal(one, other)
    steps = [json.loads(line)["step"] for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert steps == sorted(steps)
    changed = job(tiny_model, files, tmp_path / "run", training={"lr": 1.0})
    with pytest.raises(InputError, match=r"the run was started with training\.lr"):
        run_job(replace(changed, resume=True))
    with pytest.raises(InputError, match="--overwrite"):
        run_job(asked)
    files[0].write_text(files[0].read_text() + '{"text": "one more", "label": "sport"}\n')
    with pytest.raises(InputError, match="file_fingerprints"):
        run_job(replace(asked, resume=True))


@pytest.mark.parametrize(
    "changes",
    [
        {"tuning": {"lora": 2}, "training": {"lr": 0.05}},
        {"tuning": {"freeze": 1}},
        {"tuning": {"augment": 1}},
        {"class_weights": "balanced", "label_smoothing": 0.1},
        {"data": {"length": 8}},
    ],
)
def test_options_learn_too_and_save_the_same_layout(
    tiny_model: Path, files: tuple[Path, Path], tmp_path: Path, changes: dict[str, Any]
) -> None:
    records = run(tiny_model, files, tmp_path / "run", **changes)
    assert max(record.metrics["accuracy"] for record in records if record.split == "dev") > 80
    saved = load_model(tmp_path / "run")
    assert saved.encoder.state_dict().keys() == load_model(tiny_model).encoder.state_dict().keys()
    if "freeze" in changes.get("tuning", {}):
        before = load_model(tiny_model).encoder
        assert torch.equal(saved.encoder.word_table, before.word_table)


def test_a_sweep_keeps_the_best_rate(tiny_model: Path, files: tuple[Path, Path], tmp_path: Path) -> None:
    asked = job(tiny_model, files, tmp_path / "run", training={"epochs": 2.0})
    told: list[float] = []
    outcomes = sweep(asked, rates=(1e-6, 3e-3), on_record=lambda lr, _: told.append(lr))
    assert [outcome.lr for outcome in outcomes] == [1e-6, 3e-3]
    assert set(told) == {1e-6, 3e-3}
    summary = json.loads((tmp_path / "run" / "sweep.json").read_text())
    assert summary["best"] == max(outcomes, key=lambda outcome: outcome.score).lr == 3e-3
    assert load_task_model(tmp_path / "run").tasks
    assert "lr: 0.003" in (tmp_path / "run" / "config.yaml").read_text()
    with pytest.raises(ConfigError, match="--dev"):
        sweep(replace(asked, dev=None))


def ctrl_c_in_the_last_evaluation(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on every evaluation is interrupted by Ctrl-C."""
    evaluate = FinetuningRun.evaluate

    def interrupted(self: FinetuningRun, process: ProcessContext) -> dict[str, float]:
        signal.raise_signal(signal.SIGINT)
        return evaluate(self, process)

    monkeypatch.setattr(FinetuningRun, "evaluate", interrupted)


def test_ctrl_c_in_the_last_evaluation_finishes_the_run_and_stops_the_sweep(
    tiny_model: Path, files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ctrl_c_in_the_last_evaluation(monkeypatch)
    once = {"training": {"epochs": 1.0, "eval_every": 1000}}
    with pytest.raises(KeyboardInterrupt):
        run_job(job(tiny_model, files, tmp_path / "run", **once))
    assert RunFolder(tmp_path / "run").read_status().state == "finished"
    assert (tmp_path / "run" / "report.html").is_file()
    with pytest.raises(KeyboardInterrupt):
        sweep(job(tiny_model, files, tmp_path / "sweep", **once), rates=(1e-3, 2e-3))
    assert [path.name for path in (tmp_path / "sweep" / "sweep").iterdir()] == ["lr-0.001"]
    with pytest.raises(ConfigError, match="a sweep cannot be resumed; start over with --overwrite"):
        resumed_job(str(tmp_path / "sweep"), {})


def test_a_loss_that_is_not_finite_is_recorded_with_its_examples(
    tiny_model: Path, files: tuple[Path, Path], tmp_path: Path
) -> None:
    def spoil(training: Training[Any], notes: tuple[str, ...]) -> None:
        with torch.no_grad():
            next(training.spec.criterion.parameters()).fill_(torch.nan)

    with pytest.raises(RunError, match=r"\(samples train\.jsonl:\d+, train\.jsonl:\d+, ") as raised:
        run_job(job(tiny_model, files, tmp_path / "run"), on_start=spoil)
    status = RunFolder(tmp_path / "run").read_status()
    assert (status.state, status.step, status.message) == ("failed", 0, str(raised.value))
    fault = json.loads((tmp_path / "run" / "fault-step-1" / "fault.json").read_text())
    assert len(fault["samples"]) == 8


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), ValueError("odd data")])
def test_a_run_that_fails_says_so_in_its_status(
    tiny_model: Path, files: tuple[Path, Path], tmp_path: Path, error: Exception
) -> None:
    def fail(record: Record) -> None:
        if record.step == 3:
            raise error

    with pytest.raises((InputError, ValueError)):
        run_job(job(tiny_model, files, tmp_path / "run"), on_record=fail)
    status = RunFolder(tmp_path / "run").read_status()
    assert (status.state, status.step) == ("failed", 3)
    assert status.message == ("odd data" if isinstance(error, ValueError) else "the disk is full")
    assert (tmp_path / "run" / "report.html").is_file()
    run_job(replace(job(tiny_model, files, tmp_path / "run"), resume=True))
    assert RunFolder(tmp_path / "run").read_status().finished


@pytest.mark.parametrize(
    "content", ["[]", "{", '{"state": 5}', '{"best": 3}', '{"best": {"score": "high", "step": 1}}', '{"steps": [1]}']
)
def test_a_status_of_wrong_types_is_one_line(tmp_path: Path, content: str) -> None:
    (tmp_path / "status.json").write_text(content)
    with pytest.raises(InputError, match=r"status\.json"):
        RunFolder(tmp_path).read_status()


def test_the_folder_knows_how_its_run_goes_on(
    tiny_model: Path, files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In any working directory; and what contradicts it is refused."""
    monkeypatch.chdir(tiny_model.parent)
    asked = replace(job(tiny_model, files, tmp_path / "run"), model=tiny_model.name)
    run_job(replace(asked, out=str(tmp_path / "whole")))

    def stop(record: Record) -> None:
        if record.step == 9:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        run_job(asked, on_record=stop)
    monkeypatch.chdir(tmp_path)
    out = str(tmp_path / "run")
    for contradiction in (
        resumed_job(out, {"training": {"lr": 1.0}}),
        resumed_job(out, {}, model=str(tmp_path)),
        resumed_job(out, {}, train=str(files[1])),
        resumed_job(out, {}, task="classification"),
    ):
        with pytest.raises(InputError, match=r"the run was started with|not a model"):
            run_job(contradiction)
    run_job(resumed_job("run", {"training": {"keep": 7}}))
    whole, resumed = (load_model(tmp_path / name / "model").encoder for name in ("whole", "run"))
    for one, other in zip(whole.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(one, other)


def test_a_large_dev_file_is_scored_less_often(tiny_model: Path, files: tuple[Path, Path], tmp_path: Path) -> None:
    files[1].write_text(files[1].read_text() * 40)
    records = run(tiny_model, files, tmp_path / "run", training={"epochs": 2.0})
    steps = max(record.step for record in records)
    scored = [record.step for record in records if record.split == "dev"]
    assert scored == [steps]
    often = run(tiny_model, files, tmp_path / "often", training={"epochs": 2.0, "eval_every": 3})
    assert sum(record.split == "dev" for record in often) == -(-steps // 3)


def test_without_dev_a_share_of_the_training_file_can_be_held_out(
    tiny_model: Path, files: tuple[Path, Path], tmp_path: Path
) -> None:
    without = replace(job(tiny_model, files, tmp_path / "none"), dev=None)
    assert any("data.dev_share=0.1" in note for note in without.prepare().notes())
    asked = replace(job(tiny_model, files, tmp_path / "run", data={"dev_share": 0.25}), dev=None)
    result = run_job(asked)
    assert "accuracy" in result.scores
    count = len(files[0].read_text().splitlines())
    lines = json.loads((tmp_path / "run" / "split.json").read_text())["dev_lines"]["classification"]
    assert len(set(lines)) == len(lines) == -(-count // 4)
    prepared = asked.prepare()
    assert [row.line for row in prepared.tasks[0].dev.rows] == lines  # type: ignore[union-attr]
    assert f"{len(lines)} of {count} training examples are held out as dev" in prepared.notes()
    assert "25% of train.jsonl, held out" in (tmp_path / "run" / "model" / "README.md").read_text()
    with pytest.raises(ConfigError, match=r"data\.dev_share is for runs without a dev file"):
        job(tiny_model, files, tmp_path / "both", data={"dev_share": 0.25}).prepare()


def test_a_model_that_only_guesses_is_told_of(tiny_model: Path, files: tuple[Path, Path], tmp_path: Path) -> None:
    result = run_job(job(tiny_model, files, tmp_path / "run", training={"lr": 1e-9, "epochs": 1.0}))
    (remark,) = result.remarks
    assert remark.startswith("no better than guessing on dev: it")
    advice = "Try the default training.lr of 7.2e-4 (now 1e-9), more training.epochs (now 1), or more examples"
    assert remark.endswith(advice)
    assert result.to_dict()["remarks"] == [remark]
    assert run_job(job(tiny_model, files, tmp_path / "good")).remarks == ()


def test_frozen_and_adapted_encoders_cost_less_a_step(
    tiny_model: Path, files: tuple[Path, Path], tmp_path: Path
) -> None:
    """Otherwise their share of the machine's peak would be above 100 %."""
    flops = {}
    for name, tuning in {"all": {}, "half": {"freeze": 1}, "frozen": {"freeze": 2}, "lora": {"lora": 2}}.items():
        flops[name] = job(tiny_model, files, tmp_path / "run", tuning=tuning).prepare().spec.flops_per_token or 0
    shares = {name: value / flops["all"] for name, value in flops.items()}
    assert shares == pytest.approx({"all": 1, "half": 2 / 3, "frozen": 1 / 3, "lora": 2 / 3})


def test_a_dry_run_estimates_the_time_and_leaves_nothing(
    tiny_model: Path, files: tuple[Path, Path], tmp_path: Path
) -> None:
    estimate = finetuning_dry_run(job(tiny_model, files, tmp_path / "run"))
    assert estimate.tasks["classification"]["labels"] == ["sport", "water"]
    assert estimate.evaluations >= 1
    whole = estimate.seconds_per_step * estimate.steps / 3600
    assert whole < estimate.hours < 2 * whole
    assert estimate.tokens_per_second > 0
    rows = dict(estimate.rows())
    assert rows["total time"].endswith("at this speed")
    assert rows["steps"].startswith(f"{estimate.steps:,}, and {estimate.evaluations} evaluations")
    assert not (tmp_path / "run").exists()


def test_every_encoder_carries_a_task(files: tuple[Path, Path], tmp_path: Path) -> None:
    """One that no transformers class holds, one that reads left to right, and one of transformers' own."""
    from tests.tiny_model import write_tiny_model

    native = write_tiny_model(tmp_path / "native", norm="rms")
    causal = write_tiny_model(tmp_path / "causal", architecture="transformer", causal=True, pooler=False, segments=0)
    for folder in (native, causal):
        records = run(folder, files, tmp_path / f"run-{folder.name}", training={"epochs": 6.0})
        assert max(record.metrics["accuracy"] for record in records if record.split == "dev") > 80
        assert load_task_model(tmp_path / f"run-{folder.name}").tasks


def test_an_encoder_of_transformers_carries_a_task(tiny_model: Path, files: tuple[Path, Path], tmp_path: Path) -> None:
    hf = pytest.importorskip("transformers")
    from spanlab.inference.load import load
    from spanlab.text import Tokenizer

    tokenizer = Tokenizer.load(tiny_model)
    config = hf.DistilBertConfig(
        vocab_size=tokenizer.vocab_size, dim=32, n_layers=2, n_heads=4, hidden_dim=64, max_position_embeddings=128
    )
    hf.DistilBertModel(config).save_pretrained(tmp_path / "theirs")
    tokenizer.save(tmp_path / "theirs")
    records = run(tmp_path / "theirs", files, tmp_path / "run", training={"epochs": 6.0})
    assert records[-1].split == "dev"
    (result,) = load(tmp_path / "run", precision="fp32").predict("the river rose again")
    assert set(result.scores) == {"sport", "water"}


@pytest.mark.parametrize(
    ("train", "dev", "words"),
    [
        ('{"text": "a"}\n', None, "train.jsonl:1: the field 'label' is missing"),
        ('{"text": "a", "label": "x"}\n' * 2, None, "all examples have the label 'x'"),
        ("", None, "has no examples"),
        (None, '{"text": "a", "label": "watr"}\n', "dev.jsonl:1: unknown label 'watr' (did you mean 'water'?)"),
    ],
)
def test_bad_files_are_refused_before_anything_is_written(
    tiny_model: Path, files: tuple[Path, Path], tmp_path: Path, train: str | None, dev: str | None, words: str
) -> None:
    for path, content in zip(files, (train, dev), strict=True):
        if content is not None:
            path.write_text(content, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        run(tiny_model, files, tmp_path / "run")
    assert words in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_bad_rows_are_dropped_on_request_and_counted(
    tiny_model: Path, files: tuple[Path, Path], tmp_path: Path
) -> None:
    train, _ = files
    train.write_text(train.read_text() + '{"text": ""}\n{"text": "cut', encoding="utf-8")
    with pytest.raises(InputError, match=r"data\.bad_rows=drop"):
        run(tiny_model, files, tmp_path / "run")
    asked = job(tiny_model, files, tmp_path / "run", data={"bad_rows": "drop"})
    prepared = asked.prepare()
    assert prepared.tasks[0].train.dropped == {"empty text": 1, "unreadable": 1}
    assert any("1 examples dropped (empty text)" in line for line in prepared.notes())


def test_the_page_shows_labels_confusions_and_errors(
    tiny_model: Path, files: tuple[Path, Path], tmp_path: Path
) -> None:
    files[1].write_text(files[1].read_text() + '{"text": "the river <rose> again", "label": "sport"}\n')
    run(tiny_model, files, tmp_path / "run")
    page = (tmp_path / "run" / "report.html").read_text()
    assert all(title in page for title in ("Scores by label", "Confusion matrix", "Worst errors"))
    assert "the river &lt;rose&gt; again" in page


@pytest.mark.slow
@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_two_processes_learn_what_one_does(
    tiny_model: Path, files: tuple[Path, Path], tmp_path: Path, parallel: str
) -> None:
    command = ["--model", str(tiny_model), "--train", str(files[0]), "--dev", str(files[1])]
    settings = ["training.epochs=1", "training.lr=3e-3", "training.batch_size=8", "training.precision=fp32"]
    settings.append(f"training.parallel={parallel}")
    losses = []
    for processes in (1, 2):
        out = tmp_path / f"run-{processes}"
        start = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
        asked = ["-m", "spanlab", "finetune", "classification", *command, "--out", str(out), *settings]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
        done = subprocess.run(
            [*start, *asked], check=False, capture_output=True, text=True, env=environment, timeout=300
        )
        assert done.returncode == 0, done.stderr[-2000:]
        lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        losses.append([line.get("loss", line.get("accuracy")) for line in lines])
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
