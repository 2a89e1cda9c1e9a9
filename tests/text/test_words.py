from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given

from spanlab.errors import InputError
from spanlab.text import Tokenizer, word_spans
from spanlab.text.words import code_points
from tests.text.hostile_text import hostile_text


def words(text: str) -> list[str]:
    return [text[start:end] for start, end in word_spans(text)]


@given(text=hostile_text)
def test_words_joined_give_back_the_characters(text: str) -> None:
    assert "".join(words(text)) == "".join(text.split())


@given(text=hostile_text)
def test_spans_are_in_order_without_overlap_or_space(text: str) -> None:
    spans = word_spans(text)
    assert all(start < end for start, end in spans)
    assert all(one[1] <= other[0] for one, other in pairwise(spans))
    assert not any(character.isspace() for word in words(text) for character in word)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Don't re-read  it.", ["Don", "'", "t", "re", "-", "read", "it", "."]),
        ("中文字 and 日本語かな", ["中", "文", "字", "and", "日", "本", "語", "かな"]),
        ("안녕하세요 여러분, 반갑습니다!", ["안녕하세요", "여러분", ",", "반갑습니다", "!"]),
        ("e\u0301te\u0301 cafe\u0301,\u0301x", ["e\u0301te\u0301", "cafe\u0301", ",\u0301", "x"]),
        ("👩\u200d👩\u200d👧🏽 ok ❤️!", ["👩\u200d👩\u200d👧🏽", "ok", "❤️", "!"]),
        ("שלום, עולם", ["שלום", ",", "עולם"]),
        ("a\u200bb \u0301 3.5", ["a\u200bb", "\u0301", "3", ".", "5"]),
        ("", []),
        (" \n\t\u3000", []),
    ],
)
def test_words_of_many_scripts(text: str, expected: list[str]) -> None:
    assert words(text) == expected


def test_segmenter_groups_chinese_characters() -> None:
    def pairs(run: str) -> list[str]:
        return [run[first : first + 2] for first in range(0, len(run), 2)]

    text = "我们喜欢音乐, really 好"
    spans = word_spans(text, pairs)
    assert [text[start:end] for start, end in spans] == ["我们", "喜欢", "音乐", ",", "really", "好"]


def test_segmenter_that_loses_characters_is_refused() -> None:
    with pytest.raises(InputError, match="characters 0 to 3"):
        word_spans("中文字", lambda run: [run[:1]])


def test_tokens_follow_the_segmenter(trained: dict[str, Tokenizer]) -> None:
    for name in ("wordpiece cased", "bpe roberta", "unigram xlnet"):
        tokenizer = Tokenizer(trained[name]._backend, segmenter=lambda run: [run[:2], run[2:]])
        tokens = tokenizer.encode("安娜说 the")
        starts = tokens.starts[tokens.word_starts]
        assert set(starts.tolist()) <= {0, 2, 4}, name
        assert tokens.word_starts.sum() >= 2, name


def test_half_a_surrogate_pair_is_named() -> None:
    with pytest.raises(InputError, match="character 2"):
        code_points("ab\ud83d")
    with pytest.raises(InputError, match="character 2"):
        word_spans("ab\ud83d")


def test_code_points_are_those_of_the_string() -> None:
    np.testing.assert_array_equal(code_points("a🙂"), [0x61, 0x1F642])
