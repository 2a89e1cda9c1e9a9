"""The page of the almanac says what the passages say, and needs nothing beside it."""

import re
from pathlib import Path

import pytest

from spanlab.errors import InputError
from spanlab.samples import load, parse
from spanlab.samples.html_page import draw_page, write_page
from tests.samples.almanac_page_reader import PageReader

HOSTILE = """\
## en-law-01 style=news split=dev
title: <script>alert(1)</script> & "quotes"
* {1:PER|A<b>} met {2:ORG|{3:LOC|U&lt;lm} Choir} </p> & went home.

- {1|He} sang "O'er".

rel: 1 works_for 2
rel: 2 located_in 3
q: Who <i>met</i> whom?
a: A<b> met U&lt;lm
q: Where did it "rain"?
not: home
same: <u>He</u> sang here. | Singing was & is done.
"""


def test_every_passage_is_told_in_full() -> None:
    cards = PageReader(draw_page(load())).cards
    assert list(cards) == [passage.id for passage in load()]
    for passage in load():
        card = cards[passage.id]
        assert card.text == passage.text
        mentions = [(m.start, m.end, m.label, str(m.entity) if m.entity else None) for m in passage.mentions]
        assert sorted(card.mentions, key=str) == sorted(mentions, key=str)
        assert card.key_sentences == [passage.span(sentence) for sentence in passage.sentences if sentence.key]
        for number, question in enumerate(passage.questions, start=1):
            spans = question.answers or (question.tempting,)
            lit = set().union(*(range(span.start, span.end) for span in spans if span))
            assert card.answers[str(number)] == lit
            shown = card.questions[number - 1]
            assert shown.startswith(question.text)
            assert ("no answer in the text" in shown) == (not question.answers)
            assert all(span.text in shown for span in spans if span)
        for relation, shown in zip(passage.relations, card.relations, strict=True):
            names = [{passage.span(m) for m in passage.mentions_of(e)} for e in (relation.head, relation.tail)]
            head, tail = shown.split(relation.label.replace("_", " "))
            assert head in names[0]
            assert tail in names[1]
        assert card.pairs == [pair.text_a + pair.text_b for pair in passage.pairs]


def test_text_is_never_taken_for_markup() -> None:
    (passage,) = parse(HOSTILE)
    page = draw_page([passage])
    reader = PageReader(page)
    card = reader.cards["en-law-01"]
    assert card.text == passage.text
    assert page.count("<script>") == 1
    assert not reader.tags & {"b", "i", "u"}
    # The answer crosses two mentions, one of them nested.
    answer = passage.questions[0].answers[0]
    assert card.answers["1"] == set(range(answer.start, answer.end))
    assert (passage.text.index("U"), passage.text.index("U") + 7, "LOC", "3") in card.mentions


def test_the_page_loads_nothing() -> None:
    page = draw_page(load())
    assert not re.search(r"https?:|//\w|url\(|@import|<link|<img|src=", page)


def test_one_passage_has_no_index() -> None:
    assert "<nav" not in draw_page(load()[:1])
    assert "<nav" in draw_page(load()[:2])


def test_a_page_is_replaced_only_when_told(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("mine")
    with pytest.raises(InputError, match="file exists"):
        write_page(load()[:1], path)
    assert path.read_text() == "mine"
    write_page(load()[:1], path, overwrite=True)
    assert load()[0].title in path.read_text(encoding="utf-8")
    with pytest.raises(InputError, match="cannot be written"):
        write_page(load()[:1], tmp_path / "none" / "page.html")
