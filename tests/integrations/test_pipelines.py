"""Pipelines beside those of transformers on the same small models; those it no longer has, by their documentation."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import spanlab
from spanlab.errors import InputError
from tests.integrations.models import entity_rows

TEXT = "ada lived in paris ."
STORY = "Ada Lovelace was born in London. She worked with Charles Babbage, who admired her."


def theirs(task: str, model: Path, **options: Any) -> Any:
    transformers = pytest.importorskip("transformers")
    folder = model / "model" if (model / "model").is_dir() else model
    return transformers.pipeline(task, model=str(folder), device=-1, **options)


def ours(task: str, model: Path, **options: Any) -> Any:
    if task == "fill-mask":
        return spanlab.pipeline(task, model, device=-1, **options)
    return spanlab.pipeline(task, spanlab.load(model, device="cpu", precision="fp32"), **options)


def assert_same(first: Any, second: Any) -> None:
    """Equal in nesting, keys, order and values; numbers up to rounding."""
    if isinstance(first, dict):
        assert list(first) == list(second)
        for key in first:
            assert_same(first[key], second[key])
    elif isinstance(first, list):
        assert isinstance(second, list)
        assert len(first) == len(second)
        for one, other in zip(first, second, strict=True):
            assert_same(one, other)
    elif isinstance(first, float | np.floating):
        assert float(second) == pytest.approx(float(first), abs=1e-4)
    else:
        assert first == second


@pytest.mark.parametrize(
    ("inputs", "options"),
    [
        ("this is ada", {}),
        (["this is ada", "this is paris"], {}),
        ("this is ada", {"top_k": None}),
        ("this is ada", {"top_k": 1}),
        (["this is ada", "this is paris"], {"top_k": 2}),
        ({"text": "this is ada"}, {}),
    ],
)
def test_text_classification(inputs: Any, options: dict[str, Any], class_model: Path) -> None:
    for task in ("text-classification", "sentiment-analysis"):
        pipes = theirs(task, class_model), ours(task, class_model)
        assert_same(*(pipe(inputs, **options) for pipe in pipes))
    pipes = theirs("text-classification", class_model, **options), ours("text-classification", class_model, **options)
    assert_same(*(pipe(inputs) for pipe in pipes))


def test_token_classification_by_words(entity_model: Path) -> None:
    """The model reads a word at its first token, as `first` does: there both mean the same."""
    pipes = (
        theirs("ner", entity_model, aggregation_strategy="first"),
        ours("ner", entity_model, aggregation_strategy="first"),
    )
    texts = [row["text"] for row in entity_rows()]
    assert_same(*(pipe(texts) for pipe in pipes))
    assert_same(*(pipe(TEXT) for pipe in pipes))


def test_token_classification_by_tokens(entity_model: Path) -> None:
    """transformers gives a tag to each token, and this model was trained on the first of each word."""
    found = ours("token-classification", entity_model)(TEXT)
    expected = theirs("token-classification", entity_model)(TEXT)
    assert expected
    by_index = {token["index"]: token for token in found}
    for token in expected:
        if token["entity"].startswith("B-"):
            assert_same(token, by_index[token["index"]])
    words = [(token["entity"], token["word"].removeprefix("##")) for token in found]
    assert "".join(word for tag, word in words if tag.endswith("PER")) == "ada"
    assert "".join(word for tag, word in words if tag.endswith("LOC")) == "paris"
    assert [list(token) for token in found] == [list(expected[0])] * len(found)
    with pytest.raises(InputError, match="aggregation_strategy is 'best'; use one of none, simple"):
        ours("ner", entity_model, aggregation_strategy="best")(TEXT)


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("the old [MASK] went to sea", {}),
        ("the old [MASK] went to [MASK]", {"top_k": 2}),
        ("the old [MASK] went to sea", {"targets": ["a", "e", "the"], "top_k": 2}),
        (["the [MASK]", "an old [MASK] went out"], {"top_k": 3}),
    ],
)
def test_fill_mask(text: Any, options: dict[str, Any], tiny_model: Path) -> None:
    assert_same(theirs("fill-mask", tiny_model)(text, **options), ours("fill-mask", tiny_model)(text, **options))


def test_feature_extraction(tiny_model: Path) -> None:
    pipes = theirs("feature-extraction", tiny_model), ours("feature-extraction", tiny_model)
    assert_same(*(pipe(TEXT) for pipe in pipes))
    assert_same(*(pipe([TEXT, "another"]) for pipe in pipes))
    assert tuple(pipes[1](TEXT, return_tensors=True).shape) == tuple(pipes[0](TEXT, return_tensors=True).shape)
    with pytest.raises(InputError, match=r"more than 128 tokens.*encode, which takes texts of any length"):
        pipes[1]("many words " * 200)


@pytest.fixture(scope="module")
def question_answering(minilm: Path) -> Any:
    return spanlab.pipeline("question-answering")


def test_question_answering_as_it_was_documented(question_answering: Any) -> None:
    answer = question_answering(question="Where was Ada born?", context=STORY)
    assert list(answer) == ["score", "start", "end", "answer"]
    assert answer["answer"] == STORY[answer["start"] : answer["end"]] == "London"
    assert 0 < answer["score"] <= 1
    pair = {"question": "Where was Ada born?", "context": STORY}
    other = {"question": "Who admired her?", "context": STORY}
    assert question_answering(pair) == question_answering([pair]) == answer
    answers = question_answering([pair, other])
    assert [found["answer"] for found in answers] == ["London", "Charles Babbage"]
    assert question_answering(question=[pair["question"], other["question"]], context=STORY) == answers
    assert list(question_answering(iter([pair, other]))) == answers


def test_several_answers_and_none(question_answering: Any) -> None:
    best = question_answering(question="Where was Ada born?", context=STORY, top_k=3)
    assert best[0]["answer"] == "London"
    assert len(best) == 3
    assert sorted(best, key=lambda found: -found["score"]) == best
    asked = {"question": "What is the price of tea in China?", "context": STORY}
    assert question_answering(asked)["answer"] in STORY
    assert question_answering(asked)["answer"]
    none = question_answering(asked, handle_impossible_answer=True)
    assert (none["answer"], none["start"], none["end"]) == ("", 0, 0)


def test_summarization_as_it_was_documented(minilm: Path) -> None:
    summarizer = spanlab.pipeline("summarization", model="reader")
    (summary,) = summarizer(STORY)
    assert list(summary) == ["summary_text"]
    assert summary["summary_text"] in STORY
    assert summarizer([STORY, STORY]) == [summary, summary]
    with pytest.warns(UserWarning, match="min_length is not used"):
        (short,) = summarizer(STORY, max_length=7, min_length=2, do_sample=False)
    assert short["summary_text"] == "Ada Lovelace was born in London."
    with pytest.raises(InputError, match="'do_sample' is not for this model"):
        summarizer(STORY, do_sample=True)


def test_coreference(minilm: Path) -> None:
    found = spanlab.pipeline("coreference-resolution")(STORY)
    assert [mention["text"] for mention in found["clusters"][0]] == ["Ada Lovelace", "She", "her"]
    assert all(STORY[m["start"] : m["end"]] == m["text"] for cluster in found["clusters"] for m in cluster)
    assert found["resolved"].count("Ada Lovelace") == 3


def test_what_cannot_be_done_is_said(class_model: Path, minilm: Path) -> None:
    with pytest.raises(InputError, match=r"unknown task 'summarisation' .did you mean 'summarization'"):
        spanlab.pipeline("summarisation")
    with pytest.raises(InputError, match=r"no task of the model is for ner; fine-tune it for ner"):
        spanlab.pipeline("ner", model=class_model)
    with pytest.raises(InputError, match=r"sentiment, topic are for text-classification; .*name='sentiment'"):
        spanlab.pipeline("text-classification", model="reader")
    with pytest.raises(InputError, match="no option 'batch_size'; batches follow from the lengths"):
        spanlab.pipeline("text-classification", model=class_model, batch_size=8)
    with pytest.raises(InputError, match="device is 'gpu'"):
        spanlab.pipeline("ner", device="gpu")
    topic = spanlab.pipeline("text-classification", model="reader", name="topic")
    assert topic("The recipe needs flour, butter and an oven.")[0]["label"] == "cooking"
    assert spanlab.pipeline("text-classification")("A lovely film.")[0]["label"] == "positive"
