"""Spans as HTML: the text is all there and escaped, every span has its bar and label, crossing ones their lanes."""

import re
from html import unescape

from hypothesis import given
from hypothesis import strategies as st

from spanlab.tasks.spans.html import draw_spans

LABEL = re.compile(r"<span style='[^']*white-space:nowrap[^']*'>[^<]*</span>")
TAG = re.compile(r"<[^>]*>")


@st.composite
def texts_with_spans(draw: st.DrawFn) -> tuple[str, list[tuple[int, int, str]]]:
    text = draw(st.text(alphabet="ab <>&'\"é谁\n", min_size=1, max_size=40))
    spans = []
    for _ in range(draw(st.integers(0, 6))):
        start = draw(st.integers(0, len(text) - 1))
        spans.append((start, draw(st.integers(start + 1, len(text))), draw(st.sampled_from(["PER", "<b>", "é"]))))
    return text, spans


@given(texts_with_spans())
def test_the_text_is_whole_and_every_span_is_labelled_once(case: tuple[str, list[tuple[int, int, str]]]) -> None:
    text, spans = case
    html = draw_spans(text, spans)
    assert len(LABEL.findall(html)) == len(spans)
    assert unescape(TAG.sub("", LABEL.sub("", html))) == text


def test_overlapping_spans_lie_in_lanes_of_their_own() -> None:
    html = draw_spans("New York Times Square", [(0, 14, "ORG"), (9, 21, "LOC"), (0, 8, "LOC")])
    tops = re.findall(r"top:([\d.]+)em;width:100%", html)
    assert len(set(tops)) == 2
    assert draw_spans("plain", []).endswith(">plain</div>")


def test_a_label_keeps_its_colour_from_text_to_text() -> None:
    labels = ["LOC", "ORG", "PER"]
    colours = [
        set(re.findall(r"background:(#\w+)", draw_spans("Ana sleeps in Rome", spans, labels)))
        for spans in ([(0, 3, "PER")], [(0, 3, "PER"), (14, 18, "LOC")])
    ]
    assert colours[0] < colours[1]
    assert not colours[0] & set(re.findall(r"background:(#\w+)", draw_spans("Ana sleeps", [(0, 3, "LOC")], labels)))
