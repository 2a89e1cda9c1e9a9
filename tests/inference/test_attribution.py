"""Attribution: captum's integrated gradients, shares that sum up to the score, and characters of the user's text."""

import json
import threading
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import spanlab
from spanlab.errors import InputError
from spanlab.inference.attribution import AttributedText, Attribution, attribute, integrated_gradients
from spanlab.inference.predictor import Predictor
from tests.compat.test_folders_written_before import DATA, read

TEXT = "Anna sold the flour in Delft. She was glad."
EXPLAINED = {
    "classification": "trade",
    "several-labels": "glad",
    "similarity-labels": "different",
    "similarity": "similarity",
    "qa-pointers": "Anna",
    "qa-span": "Anna",
    "qa-xlnet": "Anna",
    "ner-tag": "Anna (person)",
    "ner-span": "Anna (place)",
    "ner-electra": "Anna (place)",
    "relation-joint": "Anna traded in Delft",
    "relation-pairs": "Anna traded in Delft",
    "relation-markers": "Anna traded in Delft",
    "coref": "She → Anna",
    "summarisation": "Anna sold the flour in Delft.",
    "summarisation-marker": "Anna sold the flour in Delft.",
    "lora": "trade",
}
"""By the folder of a model, the answer of its first case in words."""


def load(name: str) -> tuple[Predictor, Any]:
    """A small trained model, and the first of the inputs it was tried on."""
    (case, *_) = read(DATA / "tasks" / f"{name}.json")
    return spanlab.load(DATA / "tasks" / name, precision="fp32", device="cpu"), case["input"]


def total(texts: tuple[AttributedText, ...]) -> float:
    return sum(token.value for text in texts for token in text.tokens)


@pytest.mark.parametrize("name", EXPLAINED)
def test_the_shares_sum_up_to_the_score(name: str) -> None:
    model, given = load(name)
    found = attribute(model, given, steps=1000 if name == "qa-xlnet" else 256)
    assert found.answer == EXPLAINED[name]
    assert abs(found.error) < 0.01
    # Special tokens are the same at both ends of the path, and have no share.
    assert total(found.texts) == pytest.approx(found.score - found.baseline, abs=0.01)
    for text in found.texts:
        covered = {index for token in text.tokens for index in range(token.start, token.end)}
        assert covered == {index for index, character in enumerate(text.text) if not character.isspace()}
    json.dumps(found.to_dict(), allow_nan=False)


@pytest.mark.parametrize("name", ["qa-pointers", "classification"])
def test_the_score_is_the_one_that_was_predicted_by(name: str) -> None:
    model, given = load(name)
    (result,) = model.predict([given])
    found = attribute(model, given)
    if name == "classification":
        other = attribute(model, given, answer="water")
        odds = np.log(result.scores["trade"] / result.scores["water"])
        assert found.score - other.score == pytest.approx(odds, abs=1e-4)
    else:
        second = attribute(model, given, answer=1)
        assert second.answer == result.nbest[1].answer
        odds = np.log(result.nbest[0].score / result.nbest[1].score)
        assert found.score - second.score == pytest.approx(odds, abs=1e-2)


def test_few_steps_become_more_where_the_shares_miss_the_score() -> None:
    model, given = load("classification")
    assert abs(attribute(model, given, steps=32).error) > 0.1
    found = attribute(model, given)
    assert found.steps > 32
    assert abs(found.error) <= 0.01 * abs(found.score - found.baseline) + 1e-3


def test_integrated_gradients_of_a_plain_function() -> None:
    x, baseline = torch.tensor([[1.0, 2.0], [3.0, -1.0]]), torch.tensor([[0.0, 1.0], [1.0, 1.0]])
    # f = sum of squares: the integral of 2z along the line, times the difference, is x² - b².
    shares = integrated_gradients(lambda z: (z**2).sum(), x, baseline, 4)
    torch.testing.assert_close(shares, x**2 - baseline**2)


@pytest.mark.parametrize("steps", [8, 50])
def test_the_shares_are_those_of_captum(steps: int) -> None:
    attr = pytest.importorskip("captum.attr", reason="captum is not installed")
    encoder = spanlab.Encoder.from_pretrained(DATA / "tasks" / "classification").eval()
    torch.manual_seed(1)
    ids = torch.randint(5, encoder.config.vocab_size, (9,))
    x, baseline = encoder.word_table[ids].detach(), encoder.word_table[4].detach().expand(9, -1)
    direction = torch.randn(encoder.config.width)

    def score(embeds: Tensor) -> Tensor:
        hidden: Tensor = encoder(inputs_embeds=embeds, lengths=torch.tensor([len(embeds)])).hidden
        return torch.tanh(hidden @ direction).sum()

    def batched(embeds: Tensor) -> Tensor:
        return torch.stack([score(row) for row in embeds])

    theirs = attr.IntegratedGradients(batched).attribute(
        x[None], baselines=baseline[None].contiguous(), n_steps=steps, method="gausslegendre"
    )
    ours = integrated_gradients(score, x, baseline, steps)
    torch.testing.assert_close(ours, theirs[0].to(ours.dtype), rtol=1e-3, atol=1e-4)


def test_windows_and_documents_are_added_up_in_the_users_text() -> None:
    model, _ = load("qa-pointers")
    long = " ".join(["The mill stood by the river."] * 30) + " " + TEXT
    found = attribute(model, {"question": "Who sold the flour?", "context": ["Nothing here.", long]}, steps=8)
    (result,) = model.predict([{"question": "Who sold the flour?", "context": ["Nothing here.", long]}])
    assert result.windows > 2
    fields = [(text.field, text.document) for text in found.texts]
    assert fields == [("question", 0), ("context", result.document)]
    assert found.texts[1].text == ["Nothing here.", long][result.document]
    assert all(0 <= token.start < token.end <= len(found.texts[1].text) for token in found.texts[1].tokens)

    classifier, _ = load("classification")
    found = attribute(classifier, long, steps=8)
    starts = [token.start for token in found.texts[0].tokens]
    assert starts == sorted(set(starts))
    assert starts[-1] > len(long) - 3


def test_answers_that_do_not_exist_are_refused() -> None:
    classifier, _ = load("classification")
    with pytest.raises(InputError, match=r"no label 'trad' .did you mean 'trade'"):
        attribute(classifier, TEXT, answer="trad")
    tagger, _ = load("ner-tag")
    with pytest.raises(InputError, match="there is no entity 99"):
        attribute(tagger, TEXT, answer=99)
    with pytest.raises(InputError, match="takes an index"):
        attribute(tagger, TEXT, answer="person")
    with pytest.raises(InputError, match="no text"):
        attribute(tagger, "  ")
    generator, given = load("generation-both")
    with pytest.raises(InputError, match="no single score"):
        attribute(generator, given)
    with pytest.raises(InputError, match="steps is 0"):
        attribute(classifier, TEXT, steps=0)


def test_weights_in_half_precision_are_followed_in_full_and_stay_as_they_are() -> None:
    model, given = load("classification")
    exact = attribute(model, given)
    half = spanlab.load(DATA / "tasks" / "classification", precision="bf16", device="cpu")
    before = {name: weight.clone() for name, weight in half.model.encoder.state_dict().items()}
    found = attribute(half, given)
    assert abs(found.error) <= 0.01 * abs(found.score - found.baseline) + 1e-3
    assert found.score == pytest.approx(exact.score, abs=0.1)
    for name, weight in half.model.encoder.state_dict().items():
        assert weight.dtype == before[name].dtype
        torch.testing.assert_close(weight, before[name], rtol=0, atol=0)


@pytest.mark.parametrize("name", ["lora", "ner-span"])
def test_threads_share_a_model(name: str) -> None:
    model, given = load(name)
    alone, (predicted,) = attribute(model, given, steps=8), model.predict([given])
    found: list[Attribution] = []

    def work() -> None:
        for _ in range(3):
            found.append(attribute(model, given, steps=8))
            assert model.predict([given])[0].to_dict() == predicted.to_dict()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 12
    for other in found:
        assert other.score == pytest.approx(alone.score, abs=1e-4)
        assert total(other.texts) == pytest.approx(total(alone.texts), abs=1e-3)
    assert not any(parameter.grad is not None for parameter in model.model.encoder.parameters())


def test_two_texts_are_two_fields() -> None:
    model, _ = load("similarity-bi")
    found = attribute(model, ("Anna sold the flour.", TEXT))
    assert [(text.field, text.text) for text in found.texts] == [("text_a", "Anna sold the flour."), ("text_b", TEXT)]
