"""Predicting in int8 and in the precision that measures fastest: close to fp32, with adapters, from many threads."""

import copy
import json
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import spanlab
from spanlab.encoder import TransformerEncoder, preset
from spanlab.encoder.int8 import Int8Linear
from spanlab.errors import ConfigError, InputError
from spanlab.inference.precision import (
    TOLERANCE,
    MeasuredPrecision,
    fastest,
    measure_precisions,
    process_for,
)
from spanlab.inference.torch_predictor import TorchPredictor
from spanlab.tasks.adapters import TaskAdapterConfig, TaskAdapters
from spanlab.training.distributed import ProcessContext
from spanlab.workflows.finetune import finetune
from tests.cli.run import run_here
from tests.tasks.almanac_files import write_topics

TEXTS = ["the river rose", "she won the race", "the river rose and the river fell " * 3, "race"] * 6
TRAINING = {"epochs": 4.0, "lr": 3e-3, "batch_size": 8, "precision": "fp32", "device": "cpu"}


@pytest.fixture(scope="module")
def folder(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("precision")
    train, dev = write_topics(place / "data")
    run = finetune(
        "classification", model=tiny_model, train=train, dev=dev, out=place / "run", training=TRAINING,
        data={"length": 24, "stride": 11},
    )  # fmt: skip
    return run.folder


@pytest.fixture(scope="module")
def exact(folder: Path) -> TorchPredictor:
    model = spanlab.load(folder, device="cpu", precision="fp32")
    assert isinstance(model, TorchPredictor)
    return model


def in_int8(model: TorchPredictor) -> TorchPredictor:
    return TorchPredictor(model.model, replace(model.process, precision="int8"))


def test_int8_answers_like_fp32_and_is_int8(folder: Path, exact: TorchPredictor) -> None:
    model = spanlab.load(folder, device="cpu", precision="int8")
    assert model.precision == "int8"
    found, wanted = model.predict(TEXTS), exact.predict(TEXTS)
    assert [result.label for result in found] == [result.label for result in wanted]
    differences = [abs(one.score - other.score) for one, other in zip(found, wanted, strict=True)]
    assert 0.0 < max(differences) < 0.1
    cosines = (model.encode(TEXTS) * exact.encode(TEXTS)).sum(axis=1)
    assert 0.99 < cosines.min() < 1.0
    dev = str(folder.parent / "data" / "dev.jsonl")
    assert model.evaluate(dev).metrics["accuracy"] == 100.0


def test_a_text_has_the_same_answer_whatever_it_is_batched_with(exact: TorchPredictor) -> None:
    model = in_int8(exact)
    together = model.predict(TEXTS)
    alone = [result for text in TEXTS for result in model.predict(text)]
    for one, other in zip(together, alone, strict=True):
        assert one.score == pytest.approx(other.score, abs=1e-5)


def with_adapters(model: TorchPredictor) -> TorchPredictor:
    """The same model with LoRA adapters that change its answers."""
    torch.manual_seed(3)
    adapters = TaskAdapters(model.model.encoder, TaskAdapterConfig(lora=4))
    for update in adapters.adapters:
        torch.nn.init.normal_(update.up, std=0.05)  # type: ignore[arg-type]
    return TorchPredictor(replace(model.model, adapters={"classification": adapters}), model.process)


def test_adapters_are_merged_before_weights_are_rounded(exact: TorchPredictor) -> None:
    adapted = with_adapters(exact)
    wanted, found = adapted.predict(TEXTS), in_int8(adapted).predict(TEXTS)
    plain = exact.predict(TEXTS)
    by_adapters = max(abs(one.score - other.score) for one, other in zip(wanted, plain, strict=True))
    by_int8 = max(abs(one.score - other.score) for one, other in zip(wanted, found, strict=True))
    assert by_int8 < by_adapters / 2
    assert not any(isinstance(module, Int8Linear) for module in exact.model.encoder.modules())


def test_many_threads_share_a_model_that_merges_as_they_come(exact: TorchPredictor) -> None:
    model = in_int8(with_adapters(exact))
    wanted = [result.scores for result in in_int8(with_adapters(exact)).predict(TEXTS)]
    with ThreadPoolExecutor(6) as pool:
        for results in pool.map(lambda _: model.predict(TEXTS), range(12)):
            assert [result.scores for result in results] == wanted


def test_weights_that_are_not_finite_are_an_error(exact: TorchPredictor) -> None:
    broken = replace(exact.model, encoder=copy.deepcopy(exact.model.encoder))
    with torch.no_grad():
        next(m for m in broken.encoder.modules() if isinstance(m, torch.nn.Linear)).weight[0, 0] = math.nan
    with pytest.raises(InputError, match="numbers overflow"):
        in_int8(TorchPredictor(broken, exact.process)).predict(TEXTS)


def measured(single: float, bulk: float, difference: float = 0.0) -> MeasuredPrecision:
    return MeasuredPrecision(single_seconds=single, bulk_seconds=bulk, difference=difference)


@pytest.mark.parametrize(
    ("bf16", "int8", "wanted"),
    [
        (measured(0.9, 0.5, 0.01), measured(0.5, 0.3, 0.05), "int8"),
        (measured(0.9, 0.5, 0.01), measured(0.5, 0.3, 2 * TOLERANCE), "bf16"),
        (measured(0.9, 0.5, 0.01), measured(0.1, 1.01, 0.05), "bf16"),
        (measured(1.2, 0.5, 0.01), measured(1.1, 0.3, 0.05), "fp32"),
        (measured(0.9, 0.5, math.inf), measured(0.8, 0.3, math.inf), "fp32"),
    ],
)
def test_the_fastest_is_within_the_tolerance_and_slower_nowhere(
    bf16: MeasuredPrecision, int8: MeasuredPrecision, wanted: str
) -> None:
    assert fastest({"fp32": measured(1.0, 1.0), "bf16": bf16, "int8": int8}) == wanted


def test_a_measurement_has_every_precision_of_this_cpu_and_leaves_the_encoder_alone() -> None:
    encoder = TransformerEncoder(preset("bert", "tiny", vocab_size=50)).eval()
    before = {name: tensor.clone() for name, tensor in encoder.state_dict().items()}
    texts = [torch.randint(0, 50, (length,)) for length in (9, 5, 14)]
    found = measure_precisions(encoder, texts, seconds=0.01)
    assert {"fp32", "int8"} <= found.keys()
    assert found["fp32"].difference == 0.0
    assert 0.0 < found["int8"].difference < TOLERANCE
    assert all(entry.single_seconds > 0 and entry.bulk_seconds > 0 for entry in found.values())
    assert all(torch.equal(tensor, before[name]) for name, tensor in encoder.state_dict().items())
    with torch.no_grad():
        encoder.layers[0][0].feed_forward.up.weight[0] = math.nan  # type: ignore[index]
    assert fastest(measure_precisions(encoder, texts, seconds=0.01)) == "fp32"


def test_auto_keeps_one_of_them_and_answers(folder: Path, exact: TorchPredictor) -> None:
    model = spanlab.load(folder, device="cpu", precision="auto")
    assert model.precision in {"fp32", "bf16", "int8"}
    assert [result.label for result in model.predict(TEXTS)] == [result.label for result in exact.predict(TEXTS)]


def test_a_gpu_has_no_int8(exact: TorchPredictor, monkeypatch: pytest.MonkeyPatch) -> None:
    on_gpu = ProcessContext(device=torch.device("meta"), precision="bf16")
    monkeypatch.setattr("spanlab.inference.precision.current_process", lambda device, precision: on_gpu)
    with pytest.raises(ConfigError, match="int8 is for CPUs; use device"):
        process_for(exact.model, "auto", "int8")
    assert process_for(exact.model, "auto", "auto") is on_gpu


def test_commands_take_a_precision(folder: Path, tmp_path: Path) -> None:
    texts, dev = tmp_path / "texts.txt", str(folder.parent / "data" / "dev.jsonl")
    texts.write_text("the river rose\nshe won the race\n")
    options = ("--device", "cpu", "--precision", "int8")
    predicted = run_here("predict", str(folder), "--input", str(texts), "--json", *options)
    assert [json.loads(line)["label"] for line in predicted.stdout.splitlines()] == ["water", "sport"], predicted.stderr
    assert run_here("embed", str(folder), "--input", str(texts), "--output", str(tmp_path / "v.npy"), *options)
    exact = spanlab.load(folder, device="cpu", precision="fp32").encode(["the river rose", "she won the race"])
    vectors = np.load(tmp_path / "v.npy")
    assert 0.0 < np.abs(vectors - exact).max() < 0.1
    scores = run_here("evaluate", str(folder), "--data", dev, "--json", *options)
    assert json.loads(scores.stdout)["metrics"]["accuracy"] == 100.0, scores.stderr
    wrong = run_here("predict", str(folder), "--input", str(texts), "--precision", "int4")
    assert wrong.returncode == 2
    assert "int8" in wrong.stderr


def test_an_output_is_not_continued_in_another_precision(folder: Path, exact: TorchPredictor) -> None:
    assert exact.made_by["precision"] == "fp32"
    assert in_int8(exact).made_by["precision"] == "int8"
