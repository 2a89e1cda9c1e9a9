"""ROUGE through its package, BLEU against NLTK's."""

import sys
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nltk.translate.bleu_score import corpus_bleu

from spanlab.errors import InputError, MissingExtraError
from spanlab.metrics.generation import score_rouge
from spanlab.metrics.translation import score_bleu

TOKENS = st.lists(st.sampled_from("abcd"), min_size=1, max_size=12)
# NLTK counts a 4-gram that cannot be in texts of less than four tokens; the definition does not.
LONG_TOKENS = st.lists(st.sampled_from("abcd"), min_size=4, max_size=12)
TEXTS = st.lists(st.tuples(st.lists(TOKENS, min_size=1, max_size=3), LONG_TOKENS), min_size=1, max_size=5)


def test_rouge_by_hand() -> None:
    scores = score_rouge(
        ["the quick brown fox", "police killed the gunman"], ["The quick fox!", "police kill the gunman"]
    )
    # 3 of 4 and 3 of 3 words, one bigram of 3 and 2, three words in order; the second is the same but for its stems.
    expected = {"rouge1": (6 / 7 + 1) / 2, "rouge2": (2 / 5 + 1) / 2, "rougeL": (6 / 7 + 1) / 2}
    assert scores == pytest.approx({name: 100 * score for name, score in expected.items()})


def test_rouge_of_scripts_that_the_package_does_not_know() -> None:
    assert score_rouge(["北京大学"], ["北京大学"], language="zh") == pytest.approx(
        dict.fromkeys(("rouge1", "rouge2", "rougeL"), 100)
    )
    assert score_rouge(["북경 대학"], ["북경 학교"], language="ko")["rouge1"] == pytest.approx(50.0)


def test_rouge_without_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rouge_score", None)
    monkeypatch.delitem(sys.modules, "rouge_score.rouge_scorer", raising=False)
    with pytest.raises(MissingExtraError, match="pip install 'spanlab\\[summarise\\]'"):
        score_rouge(["a"], ["a"])


@given(TEXTS)
def test_bleu_is_that_of_nltk(texts: list[tuple[list[list[str]], list[str]]]) -> None:
    references, predicted = (list(column) for column in zip(*texts, strict=True))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = 100 * corpus_bleu(references, predicted)
    assert score_bleu(references, predicted)["bleu"] == pytest.approx(expected, abs=1e-6)


def test_bleu_by_hand() -> None:
    words = ["the", "cat", "sat", "on", "the", "mat", "today"]
    assert score_bleu([[words]], [words])["bleu"] == pytest.approx(100.0)
    shorter = score_bleu([[words]], [words[:5]])["bleu"]
    assert shorter == pytest.approx(100 * 2.718281828 ** (1 - 7 / 5))
    assert score_bleu([[words]], [[]]) == {"bleu": 0.0}
    assert score_bleu([[words]], [words[:3]]) == {"bleu": 0.0}
    assert score_bleu([[words], [["yes"]]], [words, ["yes"]])["bleu"] == pytest.approx(100.0)


def test_refusals() -> None:
    with pytest.raises(InputError, match="a text has no reference"):
        score_bleu([[]], [["a"]])
    with pytest.raises(InputError, match="1 gold summaries and 0 predicted"):
        score_rouge(["a"], [])
