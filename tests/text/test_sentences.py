from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanlab.errors import ConfigError
from spanlab.text import sentence_spans
from tests.text.hostile_text import hostile_text

languages = st.sampled_from([None, "en", "zh", "ko"])


def sentences(text: str, language: str | None = None) -> list[str]:
    return [text[start:end] for start, end in sentence_spans(text, language)]


def assert_covers(text: str, spans: list[tuple[int, int]]) -> None:
    assert all(start < end for start, end in spans)
    assert all(one[1] <= other[0] for one, other in pairwise(spans))
    inside = {place for start, end in spans for place in range(start, end)}
    assert all(place in inside or character.isspace() for place, character in enumerate(text))
    assert not any(text[start].isspace() or text[end - 1].isspace() for start, end in spans)


@given(text=hostile_text, language=languages)
def test_every_character_is_in_one_sentence(text: str, language: str | None) -> None:
    assert_covers(text, sentence_spans(text, language))


@given(parts=st.lists(st.sampled_from(["He left.", "She stayed!", "Why?", "它走了。", "개가 짖었다."]), max_size=6))
def test_plain_sentences_are_found_again(parts: list[str]) -> None:
    assert sentences(" ".join(parts)) == parts


@pytest.mark.parametrize(
    "expected",
    [
        ["Mr. Smith met Dr. Jones on Jan. 5.", "They talked."],
        ["J. R. R. Tolkien wrote it.", "C. S. Lewis read it."],
        ["It costs 3.50 dollars.", "That is version 2.0.1 of it."],
        ["We met at 5 p.m. in the U.S. Senate.", "He lives in the U.S.", "The weather is good."],
        ['"Stop!" he cried.', '"Why?" she asked.', "Nobody knew."],
        ['He said "yes."', "She left.", "(It was late.)", "Really?!"],
        ["Well... maybe.", "He paused...", "Then he went on."],
        ["See Fig. 3 and Eq. 2, e.g. the second.", "No. 7 is missing."],
        ["It grew from 10.09 to 10.13.", "Oil rose, too."],
        ["他说：“你好！”", "然后走了。", "我们去吧……", "好的。"],
        ["价格是3.5元。", "（这是真的。）", "下雨了！！", "回家吧"],
        ["저는 3.5점을 줬다.", '"정말요?"', "그가 물었다.", "(사실이다.)"],
    ],
)
def test_marks_that_end_a_sentence_and_marks_that_do_not(expected: list[str]) -> None:
    eastern = any("\u3400" < character < "\ua000" for character in "".join(expected))
    assert sentences(("" if eastern else " ").join(expected)) == expected


def test_korean_without_space_after_the_stop() -> None:
    assert sentences("영화가 좋았다.그래서 또 봤다!정말이다.") == ["영화가 좋았다.", "그래서 또 봤다!", "정말이다."]


def test_line_breaks() -> None:
    assert sentences("A title\n\nThe first\nsentence. The\nsecond\n \n\nend") == [
        "A title",
        "The first\nsentence.",
        "The\nsecond",
        "end",
    ]


def test_language_can_be_told() -> None:
    assert sentences("你好。我们走", "en") == ["你好。我们走"]
    assert sentences("你好。我们走", "zh") == ["你好。", "我们走"]
    with pytest.raises(ConfigError, match="the language 'kr'; use en, zh or ko"):
        sentence_spans("안녕", "kr")


def test_long_runs_of_marks_are_gone_through_once() -> None:
    for run in (".", "。", '"', ".)", "\n", "\n ", ". ", "「"):
        text = "A" + run * (300_000 // len(run)) + "b"
        spans = sentence_spans(text, "zh")
        assert spans[0][0] == 0
        assert spans[-1][1] == len(text)
