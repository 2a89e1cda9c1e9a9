"""A loaded model: the user's order, ids, any way to give inputs, long texts in windows, vectors."""

from pathlib import Path

import numpy as np
import pytest

import spanlab
from spanlab.errors import InputError
from spanlab.inference.predictor import PORTION, PORTION_CHARACTERS, Predictor, portions
from spanlab.tasks.config import TaskDataConfig
from spanlab.tasks.formats.row import Row
from spanlab.workflows.finetune import finetune
from tests.tasks.almanac_files import write_topics

TRAINING = {"epochs": 4.0, "lr": 3e-3, "batch_size": 8, "precision": "fp32", "device": "cpu"}


@pytest.fixture(scope="module")
def folder(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("predictor")
    train, dev = write_topics(place / "data")
    return finetune(
        "classification",
        model=tiny_model,
        train=train,
        dev=dev,
        out=place / "run",
        training=TRAINING,
        data={"length": 24, "stride": 11},
    ).folder


@pytest.fixture(scope="module")
def model(folder: Path) -> Predictor:
    return spanlab.load(folder, precision="fp32")


def test_results_come_in_the_users_order_whatever_the_batches(model: Predictor) -> None:
    texts = [f"{'the river rose' if n % 3 else 'she won the race'} {'and ' * (7 * n % 19)}" for n in range(40)]
    whole = model.predict(texts)
    assert [result.id for result in whole] == [str(n) for n in range(40)]
    assert [result.label for result in whole] == ["water" if n % 3 else "sport" for n in range(40)]
    for batch_tokens in (1, 64):
        for one, other in zip(model.predict(texts, batch_tokens=batch_tokens), whole, strict=True):
            assert one.score == pytest.approx(other.score, abs=1e-5)
    backwards = model.predict(texts[::-1])[::-1]
    assert [result.label for result in backwards] == [result.label for result in whole]


def test_ways_to_give_inputs(model: Predictor) -> None:
    (alone,) = model.predict("the river rose")
    (mapping,) = model.predict({"id": "x", "text": "the river rose", "label": "ignored"})
    assert mapping.id == "x"
    assert mapping.scores == alone.scores
    assert model.predict([]) == []
    assert model.tasks == ("classification",)
    assert model.labels() == ("sport", "water")
    with pytest.raises(InputError, match="classification takes text"):
        model.predict([("a", "b")])
    with pytest.raises(InputError, match="no task 'ner'"):
        model.predict("a", task="ner")
    with pytest.raises(InputError, match="input 1: the field 'text' is missing"):
        model.predict(["fine", {"title": "a"}])


def test_long_texts_are_windows_and_say_so(model: Predictor) -> None:
    (result,) = model.predict("the river rose " * 50)
    assert result.windows > 5
    assert not result.truncated
    assert result.label == "water"


def test_an_evaluation_is_the_prediction(model: Predictor, folder: Path) -> None:
    dev = folder.parent / "data" / "dev.jsonl"
    scores = model.evaluate(str(dev))
    assert scores.metrics["accuracy"] == 100.0
    dev.with_name("typo.jsonl").write_text('{"text": "a", "label": "watr"}\n')
    with pytest.raises(InputError, match=r"typo\.jsonl:1: unknown label 'watr' \(did you mean 'water'\?\)"):
        model.evaluate(str(dev.with_name("typo.jsonl")))


def test_vectors(model: Predictor, tiny_model: Path) -> None:
    texts = ["the river rose", "she won", "the river rose"]
    vectors = model.encode(texts)
    assert vectors.shape == (3, 32)
    assert vectors[0] @ vectors[2] == pytest.approx(1.0, abs=1e-5)
    assert np.allclose(model.encode("she won"), vectors[1], atol=1e-5)
    assert model.encode([]).shape == (0, 32)
    bare = spanlab.load(tiny_model, precision="fp32")
    assert bare.tasks == ()
    assert bare.encode(texts, data=TaskDataConfig(length=16)).shape == (3, 32)
    with pytest.raises(InputError, match="no task: it is an encoder only; fine-tune it first: spanlab finetune"):
        bare.predict("a")


def test_a_text_that_is_refused_is_named(folder: Path, tmp_path: Path) -> None:
    import json
    import shutil

    strict = tmp_path / "strict"
    shutil.copytree(folder / "model", strict)
    described = json.loads((strict / "spanlab.json").read_text())
    described["window"]["long_text"] = "error"
    (strict / "spanlab.json").write_text(json.dumps(described))
    with pytest.raises(InputError, match=r"input 1: a text has \d+ tokens; the limit is 22"):
        spanlab.load(strict).predict(["short", "the river rose " * 20])
    described["window"]["long_text"] = "truncate"
    (strict / "spanlab.json").write_text(json.dumps(described))
    short, long = spanlab.load(strict).predict(["short", "the river rose " * 20])
    assert [short.truncated, long.truncated] == [False, True]


def test_a_model_that_transformers_fine_tuned(tiny_model: Path, tmp_path: Path) -> None:
    hf = pytest.importorskip("transformers")
    import torch

    names = {0: "bad", 1: "good", 2: "none"}
    theirs = hf.BertForSequenceClassification.from_pretrained(tiny_model, id2label=names).eval()
    theirs.save_pretrained(tmp_path)
    tokenizer = hf.AutoTokenizer.from_pretrained(tiny_model)
    tokenizer.save_pretrained(tmp_path)
    with torch.no_grad():
        wanted = theirs(**tokenizer("the river rose", return_tensors="pt")).logits.softmax(-1)[0].tolist()
    (result,) = spanlab.load(tmp_path, precision="fp32").predict("the river rose")
    assert result.scores == pytest.approx(dict(zip(names.values(), wanted, strict=True)), abs=1e-5)


def test_what_is_read_ahead_is_bounded() -> None:
    many = [Row(values={"text": "a"})] * (2 * PORTION + 1)
    assert [len(portion) for portion in portions(many)] == [PORTION, PORTION, 1]
    long = [Row(values={"text": "a" * (PORTION_CHARACTERS // 2 + 1)})] * 3
    assert [len(portion) for portion in portions(long)] == [1, 1, 1]
    assert list(portions([])) == []
