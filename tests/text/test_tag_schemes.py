"""Tags to spans and back, against seqeval in both its modes and conlleval's table, and the schemes told apart."""

import warnings
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from seqeval.metrics.sequence_labeling import get_entities
from seqeval.scheme import BILOU, IOB1, IOB2, IOBES, Tokens

from spanlab.errors import InputError
from spanlab.text.tag_schemes import (
    TAG_SCHEMES,
    LabelledSpan,
    TagScheme,
    detect_scheme,
    irregular_tags,
    spans_to_tags,
    tags_to_spans,
)

LETTERS = {"IOB1": "BI", "IOB2": "BI", "BIOES": "BIES", "BILOU": "BILU", "BMES": "BMES"}
ORACLES = {"IOB1": IOB1, "IOB2": IOB2, "BIOES": IOBES, "BILOU": BILOU, "BMES": IOBES}
SCHEMES = st.sampled_from(TAG_SCHEMES)


@st.composite
def schemes_and_tags(draw: st.DrawFn) -> tuple[TagScheme, list[str]]:
    scheme = draw(SCHEMES)
    tags = st.sampled_from(["O", *(f"{letter}-{label}" for letter in LETTERS[scheme] for label in ("X", "Y", "A-B"))])
    return scheme, draw(st.lists(tags, max_size=12))


@st.composite
def sentences(draw: st.DrawFn) -> tuple[list[LabelledSpan], int]:
    """Spans that do not overlap, some of them touching, and the words they stand among."""
    spans, end = [], 0
    for gap, length, label in draw(
        st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4), st.sampled_from(["X", "Y"])), max_size=6)
    ):
        spans.append(LabelledSpan(end + gap, end + gap + length, label))
        end += gap + length
    return spans, end + draw(st.integers(0, 2))


def as_seqeval(tags: list[str]) -> list[str]:
    """seqeval has no M."""
    return [f"I{tag[1:]}" if tag.startswith("M") else tag for tag in tags]


@given(schemes_and_tags())
def test_lenient_reading_is_that_of_seqeval(drawn: tuple[TagScheme, list[str]]) -> None:
    scheme, tags = drawn
    bioes = [
        {"L": "E", "U": "S"}.get(tag[0], tag[0]) + tag[1:] for tag in as_seqeval(tags)
    ]  # lenient seqeval's letters
    expected = [(start, last + 1, label) for label, start, last in get_entities(bioes)]
    assert tags_to_spans(tags, scheme) == expected


@given(schemes_and_tags())
def test_strict_reading_is_that_of_seqeval(drawn: tuple[TagScheme, list[str]]) -> None:
    scheme, tags = drawn
    expected = [(found.start, found.end, found.tag) for found in Tokens(as_seqeval(tags), ORACLES[scheme]).entities]
    assert tags_to_spans(tags, scheme, strict=True) == expected


def conlleval_chunks(tags: list[str]) -> list[tuple[int, int, str]]:
    """The chunks of a sentence of B, I and O, by the table of conlleval: what ends one, and what starts one."""
    chunks, start = [], None
    before, label = "O", ""
    for index, tag in enumerate([*tags, "O"]):
        letter, _, name = tag.partition("-")
        ends = (before, letter) in {("B", "B"), ("B", "O"), ("I", "B"), ("I", "O")}
        starts = (before, letter) in {("B", "B"), ("I", "B"), ("O", "B"), ("O", "I")}
        ends |= before != "O" and name != label
        starts |= letter != "O" and name != label
        if ends and start is not None:
            chunks.append((start, index, label))
            start = None
        if starts:
            start = index
        before, label = letter, name
    return chunks


@given(st.lists(st.sampled_from(["O", "B-X", "I-X", "B-Y", "I-Y"]), max_size=12), st.sampled_from(["IOB1", "IOB2"]))
def test_mixed_tags_are_read_as_conlleval_reads_them(tags: list[str], scheme: TagScheme) -> None:
    """Whichever scheme a file is said to be in, and as seqeval does by default."""
    spans = tags_to_spans(tags, scheme)
    assert spans == conlleval_chunks(tags)
    assert spans == [(start, last + 1, label) for label, start, last in get_entities(tags)]
    assert tags_to_spans(tags, detect_scheme([tags])) == spans


@given(schemes_and_tags())
def test_irregular_entities_are_those_that_strict_reading_rejects(drawn: tuple[TagScheme, list[str]]) -> None:
    scheme, tags = drawn
    if scheme != "IOB1":  # where seqeval keeps a part of what it rejects
        rejected = set(tags_to_spans(tags, scheme)) - set(tags_to_spans(tags, scheme, strict=True))
        assert irregular_tags(tags, scheme) == sorted(span.start for span in rejected)


def test_irregular_tags_by_hand() -> None:
    tags = ["I-X", "O", "B-X", "I-X", "B-X", "I-Y", "B-Y"]
    assert irregular_tags(tags, "IOB1") == [2]
    assert irregular_tags(tags, "IOB2") == [0, 5]
    assert irregular_tags(["B-X", "I-X", "E-X", "S-X", "M-X", "E-X"], "BIOES") == [4]
    assert irregular_tags(["B-X", "I-X", "E-X", "S-X", "M-X", "E-X"], "BMES") == [0, 4]


def test_letters_alone_are_spans_without_a_name() -> None:
    tags = ["B", "M", "E", "S", "O"]
    assert tags_to_spans(tags, "BMES") == [(0, 3, "_"), (3, 4, "_")]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert get_entities(as_seqeval(tags)[:1] + as_seqeval(["E", "S"])) == [("_", 0, 1), ("_", 2, 2)]


@given(sentences(), SCHEMES, st.booleans())
def test_spans_come_back_from_their_tags(
    sentence: tuple[list[LabelledSpan], int], scheme: TagScheme, strict: bool
) -> None:
    spans, length = sentence
    tags = spans_to_tags(reversed(spans), length, scheme)
    assert len(tags) == length
    assert tags_to_spans(tags, scheme, strict=strict) == spans


def test_tags_by_hand() -> None:
    spans = [(0, 1, "X"), (1, 4, "X"), (5, 7, "Y")]
    assert spans_to_tags(spans, 8, "IOB1") == ["I-X", "B-X", "I-X", "I-X", "O", "I-Y", "I-Y", "O"]
    assert spans_to_tags(spans, 8, "IOB2") == ["B-X", "B-X", "I-X", "I-X", "O", "B-Y", "I-Y", "O"]
    assert spans_to_tags(spans, 8, "BIOES") == ["S-X", "B-X", "I-X", "E-X", "O", "B-Y", "E-Y", "O"]
    assert spans_to_tags(spans, 8, "BMES") == ["S-X", "B-X", "M-X", "E-X", "O", "B-Y", "E-Y", "O"]


@pytest.mark.parametrize(
    ("spans", "message"),
    [
        ([(0, 2, "X"), (1, 3, "Y")], "the spans 0 to 2 and 1 to 3 overlap"),
        ([(0, 4, "X")], "the span 0 to 4 'X' does not fit a sentence of 3 words"),
        ([(1, 1, "X")], "the span 1 to 1 'X' does not fit"),
        ([(0, 1, "")], "the span 0 to 1 '' does not fit"),
    ],
)
def test_spans_that_no_tags_spell(spans: list[tuple[int, int, str]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        spans_to_tags(spans, 3, "IOB2")


@pytest.mark.parametrize(
    ("tag", "scheme"),
    [("E-X", "IOB2"), ("M-X", "BIOES"), ("L-X", "BIOES"), ("S-X", "BILOU"), ("I-X", "BMES"), ("B-", "IOB2"),
     ("", "IOB1"), ("BX", "IOB2"), ("O-X", "IOB2"), ("PER", "BIOES")],
)  # fmt: skip
def test_tags_that_are_none(tag: str, scheme: TagScheme) -> None:
    with pytest.raises(InputError, match=f"'{tag}' is not a tag of {scheme}"):
        tags_to_spans([tag], scheme, strict=True)


def test_lenient_reading_takes_the_letters_of_any_scheme() -> None:
    assert tags_to_spans(["B-X", "M-X", "E-X", "S-X", "I-Y"], "IOB2") == [(0, 3, "X"), (3, 4, "X"), (4, 5, "Y")]
    with pytest.raises(InputError, match="'PER' is not a tag of IOB1, IOB2, BIOES, BILOU, BMES"):
        tags_to_spans(["PER"], "IOB2")


@given(st.lists(sentences(), min_size=1), SCHEMES)
def test_a_detected_scheme_reads_what_was_written(
    drawn: list[tuple[list[LabelledSpan], int]], scheme: TagScheme
) -> None:
    written = [spans_to_tags(spans, length, scheme) for spans, length in drawn]
    found = detect_scheme(written)
    assert [tags_to_spans(tags, found, strict=True) for tags in written] == [spans for spans, _ in drawn]
    assert not any(irregular_tags(tags, found) for tags in written)
    longest = max((end - start for spans, _ in drawn for start, end, _ in spans), default=0)
    if longest:  # BMES without M is BIOES
        assert found == ("BIOES" if scheme == "BMES" and longest < 3 else scheme)


@pytest.mark.parametrize(
    ("sentences", "scheme"),
    [
        ([["I-X", "O"], ["O", "B-Y"]], "IOB2"),
        ([["I-X", "O", "I-Z"], ["O", "B-Y"]], "IOB1"),
        ([["B-X", "O", "B-Z"], ["O", "I-Y"]], "IOB2"),
        ([["B-X", "M-X", "E-X", "B-X", "I-X", "E-X"]], "BMES"),
        ([["B-X", "M-X", "E-X", "B-X", "I-X", "I-X", "E-X"]], "BIOES"),
        ([["B-X", "I-X", "S-X"], ["I-X"]], "BIOES"),
        ([["B-X", "L-X", "U-X"], ["E-X"]], "BILOU"),
    ],
)
def test_of_mixed_schemes_the_more_frequent(sentences: list[list[str]], scheme: TagScheme) -> None:
    assert detect_scheme(sentences) == scheme


@pytest.mark.parametrize(
    ("sentences", "message"),
    [
        ([["I-X", "E-X"]], "convert IOE tags"),
        ([["B-X", "X-X"]], "'X-X' is not a tag of IOB1, IOB2, BIOES, BILOU, BMES"),
    ],
)
def test_schemes_that_cannot_be_told(sentences: list[list[str]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        detect_scheme(sentences)


@pytest.mark.parametrize(
    ("name", "column", "scheme", "entities"),
    [
        ("conll2003.train", 3, "IOB1", 23499),
        ("conll2003.dev", 3, "IOB1", 5942),
        ("wnut17.dev", 1, "IOB2", 836),
        ("resume_zh.dev", 1, "BMES", 1497),
        ("klue_ko.dev", 1, "IOB2", None),
    ],
)
def test_schemes_of_published_files(
    real_data: Path, name: str, column: int, scheme: TagScheme, entities: int | None
) -> None:
    blocks = (real_data / "ner" / name).read_text(encoding="utf-8").strip().split("\n\n")
    rows = [
        [line.split("\t" if "\t" in line else " ") for line in block.split("\n") if line[:2] != "##"]
        for block in blocks
    ]
    tags = [[row[column] for row in block] for block in rows]
    assert detect_scheme(tags) == scheme
    if entities is not None:
        assert sum(len(tags_to_spans(sentence, scheme)) for sentence in tags) == entities
