"""Fine-tuning from file to folder: it learns, resumes exactly, sweeps, loads in transformers, refuses bad data."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from spanlab.configuration import to_mapping
from spanlab.encoder import load_model
from spanlab.errors import ConfigError, InputError
from spanlab.tasks.finetuning import Sources, resolve_config
from spanlab.tasks.model import load_task_model
from spanlab.tasks.run import FineTuningRun, finetune, sweep
from spanlab.training.records import Record
from tests.tasks.almanac_files import write_topics

QUICK: dict[str, Any] = {
    "training.epochs": 4.0,
    "training.lr": 3e-3,
    "training.batch_size": 8,
    "training.precision": "fp32",
    "training.device": "cpu",
}


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    return write_topics(tmp_path / "data")


def run(model: Path, files: tuple[Path, Path], out: Path, task: str = "classification", **changes: Any) -> list[Record]:
    records: list[Record] = []
    train, dev = files
    finetune(task, model=model, train=train, dev=dev, out=out, on_record=records.append, **{**QUICK, **changes})
    return records


def test_it_learns_and_the_folder_holds_what_prediction_needs(
    tiny_model: Path, files: tuple[Path, Path], tmp_path: Path
) -> None:
    out = tmp_path / "run"
    records = run(tiny_model, files, out)
    assert max(record.metrics["accuracy"] for record in records if record.split == "dev") == 100.0
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [record.step for record in records]
    model = load_task_model(out)
    assert model.tasks["classification"].learnt.labels == ("sport", "water")
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
    run(tiny_model, files, tmp_path / "run", **{"training.epochs": 1.0})
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
    train, dev = map(str, files)
    sources = Sources(task="classification", model=str(tiny_model), train=train, dev=dev)
    config = resolve_config("classification", {"training": {key.split(".")[1]: value for key, value in QUICK.items()}})
    stopped = FineTuningRun(sources, config, tmp_path / "run")
    for record in stopped.records():
        if record.step == 9:
            break
    resumed = FineTuningRun(sources, config, tmp_path / "run", resume=True)
    rest = list(resumed.records())
    assert 0 < rest[0].step <= 10
    losses = {record.step: record.metrics["loss"] for record in whole if record.split == "train"}
    assert all(record.metrics["loss"] == losses[record.step] for record in rest if record.split == "train")
    ends = [load_model(tmp_path / name / "model") for name in ("whole", "run")]
    for one, other in zip(ends[0].encoder.parameters(), ends[1].encoder.parameters(), strict=True):
        assert torch.equal(one, other)
    steps = [json.loads(line)["step"] for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert steps == sorted(steps)
    other_rate = resolve_config("classification", {"training": {**to_mapping(config.training), "lr": 1.0}})
    with pytest.raises(InputError, match=r"the run was begun with training\.lr"):
        FineTuningRun(sources, other_rate, tmp_path / "run", resume=True)
    with pytest.raises(InputError, match="--overwrite"):
        FineTuningRun(sources, config, tmp_path / "run")


@pytest.mark.parametrize(
    "changes",
    [
        {"tuning.lora": 2, "training.lr": 0.05},
        {"tuning.freeze": 1},
        {"tuning.augment": 1},
        {"class_weights": "balanced", "label_smoothing": 0.1},
        {"data.length": 8},
    ],
)
def test_options_learn_too_and_save_the_same_layout(
    tiny_model: Path, files: tuple[Path, Path], tmp_path: Path, changes: dict[str, Any]
) -> None:
    records = run(tiny_model, files, tmp_path / "run", **changes)
    assert max(record.metrics["accuracy"] for record in records if record.split == "dev") > 80
    saved = load_model(tmp_path / "run")
    assert saved.encoder.state_dict().keys() == load_model(tiny_model).encoder.state_dict().keys()
    if "tuning.freeze" in changes:
        before = load_model(tiny_model).encoder
        assert torch.equal(saved.encoder.word_table, before.word_table)


def test_a_sweep_keeps_the_best_rate(tiny_model: Path, files: tuple[Path, Path], tmp_path: Path) -> None:
    train, dev = map(str, files)
    sources = Sources(task="classification", model=str(tiny_model), train=train, dev=dev)
    short = {**{key.split(".")[1]: value for key, value in QUICK.items()}, "epochs": 2.0}
    config = resolve_config("classification", {"training": short})
    told: list[float] = []
    outcomes = sweep(sources, config, tmp_path / "run", rates=(1e-6, 3e-3), on_record=lambda lr, _: told.append(lr))
    assert [outcome.lr for outcome in outcomes] == [1e-6, 3e-3]
    assert set(told) == {1e-6, 3e-3}
    summary = json.loads((tmp_path / "run" / "sweep.json").read_text())
    assert summary["best"] == max(outcomes, key=lambda outcome: outcome.score).lr == 3e-3
    assert load_task_model(tmp_path / "run").tasks
    with pytest.raises(ConfigError, match="--dev"):
        sweep(Sources(task="classification", model="m", train=train), config, tmp_path / "other")


def test_every_encoder_carries_a_task(files: tuple[Path, Path], tmp_path: Path) -> None:
    """One that no transformers class holds, one that reads left to right, and one of transformers' own."""
    from tests.tiny_model import write_tiny_model

    native = write_tiny_model(tmp_path / "native", norm="rms")
    causal = write_tiny_model(tmp_path / "causal", architecture="transformer", causal=True, pooler=False, segments=0)
    for folder in (native, causal):
        records = run(folder, files, tmp_path / f"run-{folder.name}", **{"training.epochs": 6.0})
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
    records = run(tmp_path / "theirs", files, tmp_path / "run", **{"training.epochs": 6.0})
    assert records[-1].split == "dev"
    (result,) = load(tmp_path / "run", precision="fp32").predict("the river rose again")
    assert set(result.scores) == {"sport", "water"}


@pytest.mark.parametrize(
    ("train", "dev", "words"),
    [
        ('{"text": "a"}\n', None, "train.jsonl:1: the field 'label' is missing"),
        ('{"text": "a", "label": "x"}\n' * 2, None, "all examples have the label 'x'"),
        ("", None, "holds no example"),
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
    train, dev = files
    train.write_text(train.read_text() + '{"text": ""}\n{"text": "cut', encoding="utf-8")
    with pytest.raises(InputError, match=r"data\.bad_rows=drop"):
        run(tiny_model, files, tmp_path / "run")
    sources = Sources(task="classification", model=str(tiny_model), train=str(train), dev=str(dev))
    config = resolve_config("classification", {"data": {"bad_rows": "drop"}})
    tuning = FineTuningRun(sources, config, tmp_path / "run").tuning
    assert tuning.train.dropped == {"empty text": 1, "unreadable": 1}
    assert any("1 examples left out (empty text)" in line for line in tuning.notes())
