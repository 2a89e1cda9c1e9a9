"""Entities against seqeval on random tags in every scheme, and spans that tags cannot hold."""

import warnings
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from seqeval.metrics import f1_score, precision_score, recall_score
from seqeval.metrics.sequence_labeling import precision_recall_fscore_support
from seqeval.scheme import IOB1, IOB2, IOBES

from spanlab.errors import InputError
from spanlab.metrics.entities import entity_table, score_entities, score_tags, tagged_spans
from spanlab.text.tag_schemes import TAG_SCHEMES, TagScheme

LETTERS = {"IOB1": "BI", "IOB2": "BI", "BIOES": "BIES", "BILOU": "BILU", "BMES": "BMES"}
ORACLES = {"IOB1": IOB1, "IOB2": IOB2, "BIOES": IOBES, "BILOU": IOBES, "BMES": IOBES}
Tagged = tuple[TagScheme, list[list[str]], list[list[str]]]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """seqeval and scikit-learn warn of every 0 that has nothing to divide by."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@st.composite
def tagged(draw: st.DrawFn) -> Tagged:
    scheme = draw(st.sampled_from(TAG_SCHEMES))
    tags = st.sampled_from(["O", *(f"{letter}-{label}" for letter in LETTERS[scheme] for label in ("X", "Y"))])
    lengths = draw(st.lists(st.integers(1, 8), min_size=1, max_size=4))
    gold, predicted = (
        [draw(st.lists(tags, min_size=length, max_size=length)) for length in lengths] for _ in ("gold", "predicted")
    )
    return scheme, gold, predicted


def as_seqeval(sentences: list[list[str]]) -> list[list[str]]:
    """In the letters of BIOES, which both modes of seqeval know."""
    letters = {"M": "I", "L": "E", "U": "S"}
    return [[letters.get(tag[0], tag[0]) + tag[1:] for tag in tags] for tags in sentences]


@given(tagged(), st.booleans())
def test_tags_score_as_in_seqeval(drawn: Tagged, strict: bool) -> None:
    scheme, gold, predicted = drawn
    mode = {"mode": "strict", "scheme": ORACLES[scheme]} if strict else {}
    ours = score_tags(gold, predicted, scheme=scheme, strict=strict)
    pair = as_seqeval(gold), as_seqeval(predicted)
    found = precision_score(*pair, **mode), recall_score(*pair, **mode), f1_score(*pair, **mode)
    assert [ours["precision"], ours["recall"], ours["f1"]] == pytest.approx([100 * score for score in found])
    if any(any(map(len, spans)) for spans in tagged_spans(gold, predicted, scheme=scheme, strict=strict)):
        assert ours["macro_f1"] == pytest.approx(100 * f1_score(*pair, average="macro", **mode))
    else:
        assert set(ours.values()) == {0.0}


@given(tagged())
def test_the_table_is_that_of_seqeval(drawn: Tagged) -> None:
    scheme, gold, predicted = drawn
    table = entity_table(*tagged_spans(gold, predicted, scheme=scheme))
    if table:
        columns = precision_recall_fscore_support(as_seqeval(gold), as_seqeval(predicted), average=None)
        rows = [(100 * p, 100 * r, 100 * f, support) for p, r, f, support in zip(*columns, strict=True)]
        ours = [(row.precision, row.recall, row.f1, row.support) for row in table.values()]
        assert ours == [pytest.approx(row) for row in rows]
        assert list(table) == sorted(table)


def test_nested_and_repeated_spans() -> None:
    gold = [[(0, 10, "ORG"), (0, 4, "LOC"), (0, 4, "LOC")], []]
    predicted = [[(0, 10, "ORG"), (0, 4, "PER"), (0, 4, "LOC")], [(1, 2, "PER")]]
    scores = score_entities(gold, predicted)
    assert scores == pytest.approx({"precision": 50, "recall": 100, "f1": 100 * 2 / 3, "macro_f1": 100 * 2 / 3})
    assert entity_table(gold, predicted)["PER"].support == 0


def test_a_span_counts_in_its_own_text_only() -> None:
    assert score_entities([[(0, 1, "X")], []], [[], [(0, 1, "X")]])["f1"] == 0.0


def test_the_scheme_is_told_from_gold_alone() -> None:
    gold, predicted = [["B-X", "I-X", "O", "B-X"]], [["I-X", "I-X", "O", "B-X"]]
    assert score_tags(gold, predicted)["f1"] == 100.0
    assert score_tags(gold, predicted, strict=True)["f1"] == pytest.approx(100 * 2 / 3)


def test_predictions_may_have_letters_that_gold_happens_not_to_need() -> None:
    scores = score_tags(
        [["S-X", "O", "O", "O"], ["O", "O", "O", "O"]], [["S-X", "B-X", "M-X", "E-X"], ["O", "O", "S-X", "O"]]
    )
    assert [scores["precision"], scores["recall"]] == pytest.approx([100 / 3, 100])
    assert score_tags([["O", "O"]], [["B-X", "E-X"]])["precision"] == 0.0


def test_refusals() -> None:
    with pytest.raises(InputError, match="sentence 2 has 1 gold tags and 2 predicted"):
        score_tags([["O"], ["O"]], [["O"], ["O", "O"]])
    with pytest.raises(InputError, match="2 gold sentences and 1 predicted"):
        score_tags([["O"], ["O"]], [["O"]])
