"""Answers by the rules of SQuAD 1.1 and 2.0, CMRC 2018 and KorQuAD, on cases made by hand and on real files."""

import json
import lzma
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanlab.errors import InputError
from spanlab.metrics.squad import answer_scores, best_no_answer_threshold, normalise_answer, score_answers

WORDS = st.lists(st.sampled_from(["the", "a", "red", "Red", "fox", "fox.", "42", "."]), max_size=5).map(" ".join)
QUESTIONS = st.lists(
    st.tuples(st.lists(WORDS, max_size=3), WORDS, st.integers(-3, 3).map(float)), min_size=1, max_size=12
)


@pytest.mark.parametrize(
    ("text", "normalised"),
    [
        ("The Cat", "cat"),
        ("an  apple,\ta day\n", "apple day"),
        ("theatre than Anna", "theatre than anna"),
        ("U.S.A.", "usa"),
        ("a-b", "ab"),
        ("the a an", ""),
        ("“curly” — stays", "“curly” — stays"),
        ("rock 'n' roll", "rock n roll"),
        ("The.Cat", "thecat"),
        ("", ""),
    ],
)
def test_normalised_english(text: str, normalised: str) -> None:
    assert normalise_answer(text) == normalised


@pytest.mark.parametrize(
    ("gold", "predicted", "exact_match", "f1"),
    [
        (["the Eiffel Tower"], "Eiffel tower.", 100, 100),
        (["Eiffel Tower"], "the tower in Paris", 0, 100 * 2 * (1 / 3) * (1 / 2) / (1 / 3 + 1 / 2)),
        (["in 1889", "1889"], "1889", 100, 100),
        (["in 1889", "the year 1889"], "year", 0, 100 * 2 / 3),
        (["cat cat dog"], "cat dog dog", 0, 100 * 2 / 3),
        (["dog"], "cat", 0, 0),
        (["dog"], "", 0, 0),
        ([], "", 100, 100),
        ([], "dog", 0, 0),
        ([], "the", 100, 100),
        (["!"], "", 100, 100),
        (["!", "dog"], "", 0, 0),
    ],
)
def test_english_answers(gold: list[str], predicted: str, exact_match: float, f1: float) -> None:
    scores = answer_scores(gold, predicted)
    assert scores.exact_match == exact_match
    assert scores.f1 == pytest.approx(f1)


@pytest.mark.parametrize(
    ("gold", "predicted", "exact_match", "f1"),
    [
        (["《红楼梦》"], "红楼梦", 100, 100),
        (["红楼梦"], "红楼", 0, 100 * 2 * 2 / 5),
        # The longest run in common counts, not the bag of characters.
        (["北京大学"], "大学北京", 0, 50),
        (["使用 Python 3.5"], "python 3.5", 0, 100 * 2 * 2 / 6),
        (["1,000 人"], "1,000", 0, 100 * 2 / 3),
        (["A.B.C. 公司"], "a.b.c.", 0, 100 * 2 * 2 / 6),
        (["……"], "……", 100, 100),
        (["冯·卡门"], "冯卡门", 100, 100),
    ],
)
def test_chinese_answers(gold: list[str], predicted: str, exact_match: float, f1: float) -> None:
    scores = answer_scores(gold, predicted, language="zh")
    assert scores.exact_match == exact_match
    assert scores.f1 == pytest.approx(f1)


@pytest.mark.parametrize(
    ("gold", "predicted", "exact_match", "f1"),
    [
        (["《서울》"], "서울", 100, 100),
        (["서울(Seoul)"], "서울 seoul", 100, 100),
        (["대한민국 서울"], "대한민국서울", 0, 100),
        (["서울시"], "서울", 0, 80),
        (["1,000명"], "1000명", 100, 100),
        (["부산"], "서울", 0, 0),
        (["the 서울"], "서울", 0, 100 * 2 * 2 / 7),
    ],
)
def test_korean_answers(gold: list[str], predicted: str, exact_match: float, f1: float) -> None:
    scores = answer_scores(gold, predicted, language="ko")
    assert scores.exact_match == exact_match
    assert scores.f1 == pytest.approx(f1)


def test_questions_with_and_without_answers_apart() -> None:
    metrics = score_answers([["red fox"], ["fox"], [], []], ["red", "the fox", "", "fox"])
    assert metrics == pytest.approx(
        {
            "exact_match": 50, "f1": 100 * (2 / 3 + 1 + 1) / 4,
            "has_answer_exact_match": 50, "has_answer_f1": 100 * (2 / 3 + 1) / 2,
            "no_answer_exact_match": 50, "no_answer_f1": 50,
        }
    )  # fmt: skip


def test_scores_of_questions_that_are_not_there_are_not_given() -> None:
    assert set(score_answers([["a b"]], ["b"])) == {"exact_match", "f1", "has_answer_exact_match", "has_answer_f1"}
    assert set(score_answers([[]], [""])) == {"exact_match", "f1", "no_answer_exact_match", "no_answer_f1"}


def test_refusals() -> None:
    with pytest.raises(InputError, match="1 gold answers and 2 predicted"):
        score_answers([["a"]], ["a", "b"])
    with pytest.raises(InputError, match="no answers to score"):
        score_answers([], [])
    with pytest.raises(InputError, match=r"no rules for answers in 'kor' \(did you mean 'ko'"):
        score_answers([["a"]], ["a"], language="kor")
    with pytest.raises(InputError, match="difference is not finite"):
        best_no_answer_threshold([["a"]], ["a"], [float("nan")])


@given(QUESTIONS)
def test_the_best_threshold_gives_the_f1_it_promises_and_no_other_gives_more(
    questions: list[tuple[list[str], str, float]],
) -> None:
    gold, texts, differences = (list(column) for column in zip(*questions, strict=True))

    def f1_at(threshold: float) -> float:
        silenced = ["" if above > threshold else text for text, above in zip(texts, differences, strict=True)]
        return score_answers(gold, silenced)["f1"]

    best = best_no_answer_threshold(gold, texts, differences)
    assert f1_at(best.threshold) == pytest.approx(best.f1)
    assert best.f1 == pytest.approx(max(f1_at(threshold) for threshold in (-4.0, *differences)))


def test_the_threshold_of_a_case_by_hand() -> None:
    gold = [["fox"], [], ["dog"], []]
    best = best_no_answer_threshold(gold, ["fox", "cat", "dog", "cat"], [-2.0, 1.0, 0.5, 3.0])
    assert (best.threshold, best.f1) == (0.5, 100.0)
    lowest = best_no_answer_threshold(gold, ["fox", "cat", "dog", "cat"], [-2.0, -1.0, 0.5, 3.0])
    assert (lowest.threshold, lowest.f1) == (-2.0, 75.0)
    silent = best_no_answer_threshold([[], ["fox"]], ["cat", "cat"], [-2.0, -1.0])
    assert silent.threshold < -2.0
    assert silent.f1 == 50.0


def questions_of(path: Path) -> list[tuple[str, list[str]]]:
    content = lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()
    articles = json.loads(content)["data"]
    return [
        (paragraph["context"], [answer["text"] for answer in question["answers"]])
        for article in articles
        for paragraph in article["paragraphs"]
        for question in paragraph["qas"]
    ]


@pytest.mark.parametrize(
    ("name", "language"),
    [
        ("squad2_half_dev.json", "en"),
        ("squad1_dev.json.xz", "en"),
        ("korquad1_dev_ko.json", "ko"),
        ("cmrc2018_dev_zh.json", "zh"),
    ],
)
def test_a_gold_answer_scores_all_and_its_context_no_exact_match(real_data: Path, name: str, language: str) -> None:
    questions = questions_of(real_data / "qa" / name)[:1500]
    gold = [answers for _, answers in questions]
    perfect = score_answers(gold, [answers[-1] if answers else "" for answers in gold], language=language)
    assert set(perfect.values()) == {100.0}
    lazy = score_answers(gold, [context for context, _ in questions], language=language)
    assert lazy["exact_match"] == 0.0
    assert 0.0 < lazy["f1"] < 30.0
