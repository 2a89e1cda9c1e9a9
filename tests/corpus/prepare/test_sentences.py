import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanlab.corpus.prepare.config import Lines
from spanlab.corpus.prepare.tokenize import sentences_of

LINES = st.sampled_from(["wrapped", "sentences", "paragraphs"])


def split(document: str, lines: Lines) -> list[str]:
    sentences = sentences_of(document, lines=lines, language=None)
    ends = [*sentences.starts[1:], len(sentences.text)]
    return [sentences.text[start:end].strip() for start, end in zip(sentences.starts, ends, strict=True)]


def test_a_hard_wrapped_line_break_is_a_space() -> None:
    document = "It was a dark\nand stormy night. The rain\nfell in torrents.\n\nA new\nparagraph\n"
    assert split(document, "wrapped") == [
        "It was a dark and stormy night.",
        "The rain fell in torrents.",
        "A new paragraph",
    ]


def test_one_sentence_a_line_is_taken_as_given() -> None:
    assert split("No. 5 is alive. Yes!\n\nand this\n", "sentences") == ["No. 5 is alive. Yes!", "and this"]


def test_a_paragraph_a_line_ends_a_sentence() -> None:
    assert split("One. Two\nthree. Four.", "paragraphs") == ["One.", "Two", "three.", "Four."]


def test_wrapped_chinese_gets_no_spaces_but_keeps_paragraphs() -> None:
    assert split("房子在巷子\n的尽头。没有人\n\n住了。", "wrapped") == ["房子在巷子的尽头。", "没有人", "住了。"]


@pytest.mark.parametrize("blank", ["", " ", "\n\n \t\n", "\x1c\x85\u3000"])
@pytest.mark.parametrize("lines", ["wrapped", "sentences", "paragraphs"])
def test_nothing_comes_of_blanks(blank: str, lines: Lines) -> None:
    assert sentences_of(blank, lines=lines, language=None).starts == []


@given(st.text("ab.!? \n\t\r\u3000漢。", max_size=80), LINES)
def test_every_character_is_in_a_sentence(document: str, lines: Lines) -> None:
    sentences = sentences_of(document, lines=lines, language=None)
    assert sentences.text.replace(" ", "") == "".join(document.split())
    assert "  " not in sentences.text
    assert sentences.starts == sorted(set(sentences.starts))
    assert bool(sentences.text) == bool(sentences.starts)
    if sentences.starts:
        assert sentences.starts[0] == 0
        assert all(sentences.text[start] != " " for start in sentences.starts)
