"""Where spans may begin and end: at the boundaries of words, by the scripts on both sides."""

import numpy as np
import pytest
from hypothesis import given

from spanlab.text.whole_words import are_mostly_whole, are_whole_words, inside_words
from tests.text.hostile_text import hostile_text


def is_whole(marked: str) -> bool:
    """Whether the part in braces is whole words of the text without them."""
    start = marked.index("{")
    end = marked.index("}") - 1
    text = marked.replace("{", "").replace("}", "")
    return bool(are_whole_words(text, np.array([start]), np.array([end]))[0])


@pytest.mark.parametrize(
    "marked",
    [
        "the {Golden Ladle} in Puebla",
        "{the} end",
        "a {U.S.}-based firm",
        "a {U.S}.-based firm",
        "a {23}-year-old",
        "it cost {$5bn}.",
        "it cost ${5bn}",
        "{O'Neil}'s boat",
        "O'{Neil}'s boat",
        "{Ankara}'da",
        "a_{b}_c",
        "{2}½ sacks",
        "{café} crème",
        "{cafe\u0301} creme",
        "{서울}에서 왔다",  # a particle is not part of the name
        "{KBS}가 말했다",
        "{iPhone}을",
        "我在{北京}大学",
        "在{2008}年",
        "{東京}タワー",
        "{กรุงเทพ}มหานคร",
        "{ハリー}・ポッター",
        "{하}늘",
        "{}",
    ],
)
def test_whole(marked: str) -> None:
    assert is_whole(marked)


@pytest.mark.parametrize(
    "marked",
    [
        "the Go{lden Ladle in Puebla}",
        "the {Golden Lad}le",
        "the Go{lden} Ladle",
        "in {199}0",
        "the {1990}s",
        "{Donau}dampfschiff",
        "{кон}ец",
        "{سلا}م",
        "{cafe}\u0301",
    ],
)
def test_cut(marked: str) -> None:
    assert not is_whole(marked)


@given(text=hostile_text)
def test_boundaries_of_any_text(text: str) -> None:
    inside = inside_words(text)
    assert len(inside) == len(text) + 1
    assert not inside[0]
    assert not inside[-1]
    for position in np.flatnonzero(inside).tolist():
        assert not text[position - 1].isspace()
        assert not text[position].isspace()


def test_a_few_cut_spans_are_errors_of_the_data_and_many_are_its_rule() -> None:
    text = "Donaudampfschiff fuhr"
    whole, cut = [(0, 16)], [(0, 5)]
    assert are_mostly_whole([text] * 100, [whole] * 99 + [cut])
    assert not are_mostly_whole([text] * 100, [whole] * 98 + [cut] * 2)
    assert are_mostly_whole([], [])
