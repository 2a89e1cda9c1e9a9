"""Character spans to labelled units and back, for every kind of tokenizer and on real files."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spanlab.tasks.ner.decode import spans_to_tags, tags_to_spans
from spanlab.tasks.spans.units import LabelUnits, UnitKind, choose_units, encode_units
from spanlab.text import Tokenizer, TokenizerConfig, train_tokenizer
from tests.text.hostile_text import HONEST

KINDS: tuple[UnitKind, ...] = ("word", "piece", "character")
TOKENIZERS = {
    name: train_tokenizer([HONEST, HONEST], config)
    for name, config in {
        "wordpiece": TokenizerConfig(kind="wordpiece", vocab_size=550, lowercase=True),
        "bpe": TokenizerConfig(kind="bpe", vocab_size=600),
        "unigram": TokenizerConfig(kind="unigram", vocab_size=290, lowercase=True),
        "word": TokenizerConfig(kind="word", vocab_size=230, min_frequency=1),
    }.items()
}
PARTS = [*HONEST.split()[:60], "서울에서", "亚历山大·贝尔", "naïve", "👩‍🔬🏽", "e\u0301te\u0301", "U.S.-led"]
TEXTS = st.lists(st.tuples(st.sampled_from(PARTS), st.sampled_from([" ", "  ", "\n", "", "\u3000"])), max_size=8).map(
    lambda parts: "".join(word + gap for word, gap in parts)
)


def check_units(text: str, units: LabelUnits) -> None:
    """Units are in order, apart, not blank, and begin and end at tokens."""
    assert (units.starts < units.ends).all()
    assert (units.ends[:-1] <= units.starts[1:]).all()
    for start, end in zip(units.starts.tolist(), units.ends.tolist(), strict=True):
        assert text[start:end] == text[start:end].strip() != ""
    assert (units.tokens.starts[units.first_tokens] == units.starts).all()
    assert (units.tokens.ends[units.last_tokens] == units.ends).all()
    assert (units.first_tokens <= units.last_tokens).all()


def round_trip(units: LabelUnits, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Character spans to tags and back."""
    places = np.array(spans, dtype=np.int64).reshape(-1, 2)
    first, last = units.find(places[:, 0], places[:, 1])
    found = first >= 0
    tags = spans_to_tags(first[found], last[found], np.zeros(int(found.sum()), dtype=np.int64), len(units))
    begin, end, _ = tags_to_spans(tags)
    return list(zip(units.starts[begin].tolist(), units.ends[end].tolist(), strict=True))


@given(
    text=TEXTS,
    name=st.sampled_from(sorted(TOKENIZERS)),
    kind=st.sampled_from(KINDS),
    cuts=st.lists(st.integers(1, 3), max_size=12),
)
@settings(max_examples=200, deadline=None)
def test_spans_of_units_come_back(text: str, name: str, kind: UnitKind, cuts: list[int]) -> None:
    units = encode_units(TOKENIZERS[name], [text], kind)[0]
    check_units(text, units)
    edges = [0, *np.cumsum(cuts).tolist()]
    pairs = [(a, b - 1) for a, b in pairwise(edges) if b <= len(units)][::2]
    spans = [(int(units.starts[a]), int(units.ends[b])) for a, b in pairs]
    assert round_trip(units, spans) == spans


@given(text=TEXTS, name=st.sampled_from(sorted(TOKENIZERS)))
@settings(max_examples=100, deadline=None)
def test_every_character_is_a_unit(text: str, name: str) -> None:
    """Whatever begins and ends at visible characters is found, however the tokenizer cuts."""
    units = encode_units(TOKENIZERS[name], [text], "character")[0]
    plain = [place for place, character in enumerate(text) if character.isalpha() and ord(character) < 0x300]
    spans = [(place, place + 1) for place in plain if not ("\u0300" <= text[place + 1 : place + 2] <= "\u036f")]
    assert round_trip(units, spans) == spans


def test_what_lies_between_units_is_not_found() -> None:
    units = encode_units(TOKENIZERS["wordpiece"], ["New York City"], "word")[0]
    first, last = units.find(np.array([0, 4, 1, 0, 4, 8]), np.array([8, 13, 8, 6, 3, 99]))
    assert first.tolist() == [0, 1, -1, -1, -1, -1]
    assert last.tolist() == [1, 2, -1, -1, -1, -1]


def test_several_texts_at_once_are_the_same_as_alone() -> None:
    texts = ["", "One two", "  ", "서울에서 온 사람", "x"]
    for kind in KINDS:
        for text, units in zip(texts, encode_units(TOKENIZERS["bpe"], texts, kind), strict=True):
            alone = encode_units(TOKENIZERS["bpe"], [text], kind)[0]
            assert units.tokens.ids.tolist() == alone.tokens.ids.tolist()
            assert units.starts.tolist() == alone.starts.tolist()


def test_units_follow_the_spans() -> None:
    assert choose_units(["Kim left Seoul."], [[(0, 3), (9, 14)]]) == "word"
    assert choose_units(["서울에서 왔다"], [[(0, 2)]]) == "character"
    many = ["Kim left Seoul."] * 100
    assert choose_units(many, [[(0, 3), (9, 14)]] * 99 + [[(0, 2), (9, 14)]]) == "word"
    assert choose_units(["no entity"], [[]]) == "word"


def read_columns(path: Path, *, joiner: str, comment: str | None) -> list[tuple[str, list[tuple[int, int]]]]:
    """Texts and entity spans of a file of columns, in the plainest way."""
    sentences: list[list[list[str]]] = [[]]
    for line in path.read_text(encoding="utf-8").splitlines():
        if comment is not None and line.startswith(comment):
            continue
        if line.strip("\n") == "":
            sentences.append([])
        else:
            fields = line.split("\t") if "\t" in line else line.split(" ")
            sentences[-1].append([fields[0], fields[-1]])
    out = []
    for rows in filter(None, sentences):
        text, spans, before = "", [], "O"
        for word, tag in rows:
            text += joiner if text else ""
            inside = tag[0] in "IME" and before[2:] == tag[2:] and before != "O"
            if tag != "O" and inside:
                spans[-1] = (spans[-1][0], len(text) + len(word))
            elif tag != "O":
                spans.append((len(text), len(text) + len(word)))
            text, before = text + word, tag
        out.append((text, spans))
    return out


@pytest.mark.parametrize(
    ("file", "joiner", "comment", "tokenizer", "expected"),
    [
        ("conll2003.dev", " ", "-DOCSTART-", "bert-base-uncased", "word"),
        ("conll2003.dev", " ", "-DOCSTART-", "gpt2-roberta-bpe", "word"),
        ("conll2003.dev", " ", "-DOCSTART-", "albert-v2_spiece", "word"),
        ("resume_zh.dev", "", None, "bert-base-chinese", "word"),
        ("klue_ko.dev", "", "## ", "bert-base-chinese", "character"),
    ],
)
def test_real_entities_come_back(
    real_data: Path, file: str, joiner: str, comment: str | None, tokenizer: str, expected: UnitKind
) -> None:
    source = real_data / "tokenizers" / tokenizer
    examples = read_columns(real_data / "ner" / file, joiner=joiner, comment=comment)[:1500]
    texts, spans = [text for text, _ in examples], [spans for _, spans in examples]
    kind = choose_units(texts, spans)
    assert kind == expected
    wrong = 0
    for (text, wanted), units in zip(examples, encode_units(Tokenizer.load(source), texts, kind), strict=True):
        check_units(text, units)
        wrong += round_trip(units, wanted) != wanted
    assert wrong == 0
