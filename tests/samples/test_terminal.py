"""The terminal's drawing: lines that fit, marks that stand under their words and never touch."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from spanlab.samples import Mention, Passage, load, parse
from spanlab.samples.terminal import draw_lines, draw_passage, list_passages

SMALL = """\
## en-law-01 style=news split=dev
title: A [bold]choir[/bold]
* {1:PER|Ada} left {2:ORG|{3:LOC|Ulm} Choir} for {LOC|Bern}.

- {1|She} sang.

rel: 1 works_for 2
rel: 2 located_in 3
q: Who left?
a: Ada
q: Who stayed?
not: Bern
same: Ada sang alone. | Alone sang Ada.
diff: Ada left Ulm. | Ulm left Ada.
"""


def drawn(passage: Passage, width: int) -> str:
    console = Console(width=width, color_system=None, highlight=False)
    with console.capture() as capture:
        console.print(draw_passage(passage, width), soft_wrap=True)
    return "\n".join(line.rstrip() for line in capture.get().split("\n"))


def test_a_small_passage() -> None:
    assert (
        drawn(parse(SMALL)[0], 60)
        == """\
en-law-01  en · law · news · dev
A [bold]choir[/bold]

* Ada left Ulm Choir for Bern.
  PER 1    LOC 3         LOC
           ╰ORG 2──╯

  She sang.
  ╰1╯

Clusters
   1  Ada · She

Relations
  Ada 1 ──works_for──▶ Ulm Choir 2
  Ulm Choir 2 ──located_in──▶ Ulm 3

Questions
  1  Who left?
     Ada
  2  Who stayed?
     no answer (tempting: Bern)

Pairs
  = Ada sang alone.
    Alone sang Ada.
  ≠ Ada left Ulm.
    Ulm left Ada.
"""
    )


@pytest.mark.parametrize("width", [50, 80, 120])
def test_every_shipped_passage_fits(width: int) -> None:
    for passage in load():
        body = drawn(passage, width).split("\nClusters\n")[0].split("\n")[3:]
        assert all(cell_len(line) <= width for line in body), passage.id
        words = "".join(line[2:] for line in body if not re.fullmatch(r"[╰╯─ A-Z\d]*", line))
        assert re.sub(r"\s", "", words) == re.sub(r"\s", "", passage.text), passage.id


def mentions_of(text: str, edges: list[tuple[int, int]]) -> list[Mention]:
    spans = {(min(a, b) % len(text), max(a, b) % len(text) + 1) for a, b in edges}
    return [Mention(start=a, end=b, label="QUANTITY", entity=7) for a, b in spans if a < b]


texts = st.text(st.sampled_from("ab 漢가é"), min_size=1, max_size=80).map(lambda text: text.strip() or "a")


@given(texts, st.lists(st.tuples(st.integers(0, 90), st.integers(0, 90)), max_size=6), st.integers(12, 40))
def test_marks_stand_under_their_words(text: str, edges: list[tuple[int, int]], width: int) -> None:
    mentions = mentions_of(text, edges)
    lines = draw_lines(text, 0, len(text), mentions, width)
    assert "".join(text[line.start : line.end] for line in lines).replace(" ", "") == text.replace(" ", "")
    covered: dict[Mention, set[int]] = {mention: set() for mention in mentions}
    for line in lines:
        columns = [cell_len(text[line.start : place]) for place in range(line.start, line.end + 1)]
        for lane in line.lanes:
            assert all(a.right < b.start for a, b in pairwise(lane))
            for mark in lane:
                assert mark.right <= width
                first, last = (line.start + columns.index(edge) for edge in (mark.start, mark.end))
                covered[mark.mention] |= set(range(first, last))
                assert mark.begins == (mark.mention.start >= line.start)
                assert mark.ends == (mark.mention.end <= line.end)
    for mention in mentions:
        wanted = {place for place in range(mention.start, mention.end) if text[place] != " "}
        assert wanted <= covered[mention] <= set(range(mention.start, mention.end))


def test_the_list_names_every_passage() -> None:
    console = Console(width=100, color_system=None)
    with console.capture() as capture:
        console.print(list_passages(load()))
    lines = capture.get().split("\n")
    for passage in load():
        assert any(line.split()[:3] == [passage.id, passage.style, passage.split] for line in lines), passage.id
