"""BLEU and chrF held to sacrebleu, on texts with all that its tokenisers treat specially."""

from collections.abc import Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spanlab.errors import InputError
from spanlab.metrics.translation import bleu_tokens, score_bleu, score_chrf

sacrebleu = pytest.importorskip("sacrebleu")
from sacrebleu.metrics.bleu import BLEU  # noqa: E402
from sacrebleu.metrics.chrf import CHRF  # noqa: E402
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a  # noqa: E402
from sacrebleu.tokenizers.tokenizer_zh import TokenizerZh  # noqa: E402

# Words of a few kinds, so that n-grams match, with spaces that are doubled, missing or at the end.
PIECES = [
    "the",
    "cat",
    "a",
    "sat",
    "mat",
    " ",
    " ",
    " ",
    ",",
    ".",
    "1.5",
    "2,000",
    "-",
    "3-4",
    "it's",
    "&quot;",
    "&amp;",
]
PIECES += [
    "&",
    "<skipped>",
    "-\n",
    "\n",
    "(",
    ")",
    "$",
    "ü",
    "猫",
    "坐",
    "在",
    "。",
    "“",
    "한국",
    "😀",
    "\u3000",
    "A.B.",
]
TEXT = st.lists(st.sampled_from(PIECES), max_size=14).map("".join)
CORPUS = st.lists(st.tuples(st.lists(TEXT, min_size=1, max_size=3), TEXT), min_size=1, max_size=4)
Corpus = Sequence[tuple[Sequence[str], str]]


def streams(corpus: Corpus) -> tuple[list[str], list[list[str]]]:
    """Predictions and reference streams as sacrebleu takes them; a text with fewer references repeats its first."""
    most = max(len(references) for references, _ in corpus)
    padded = [[*references, *[references[0]] * (most - len(references))] for references, _ in corpus]
    return [text for _, text in corpus], [list(stream) for stream in zip(*padded, strict=True)]


def bleu(corpus: Corpus, language: str = "en") -> float:
    references = [[bleu_tokens(reference, language) for reference in gold] for gold, _ in corpus]
    return score_bleu(references, [bleu_tokens(text, language) for _, text in corpus], smooth=True)["bleu"]


ENDS_EARLY: Corpus = [(["the cat sat on the mat today"], "the cat sat on"), (["a cat"], "")]
WITHOUT_4_GRAMS: Corpus = [(["the cat sat on the mat"], "the cat a mat the cat"), (["one two three"], "three two one")]
TOO_SHORT: Corpus = [(["the cat"], "the cat")]  # no 3-gram at all: 0, since the effective order is off
TWO_REFERENCES: Corpus = [(["the cat sat", "a cat was sitting on the mat"], "a cat sat on the mat."), (["x y"], "x")]


@settings(max_examples=200)
@given(CORPUS)
@example(ENDS_EARLY)
@example(WITHOUT_4_GRAMS)
@example(TOO_SHORT)
@example(TWO_REFERENCES)
def test_bleu_and_chrf_are_those_of_sacrebleu(corpus: Corpus) -> None:
    texts, references = streams(corpus)
    assert bleu(corpus) == pytest.approx(BLEU().corpus_score(texts, references).score, abs=1e-6)
    chinese = BLEU(tokenize="zh").corpus_score(texts, references).score
    assert bleu(corpus, "zh") == pytest.approx(chinese, abs=1e-6)
    ours = score_chrf([gold for gold, _ in corpus], texts)["chrf"]
    assert ours == pytest.approx(CHRF().corpus_score(texts, references).score, abs=1e-6)


def test_the_corpora_above_are_of_the_kinds_they_are_meant_to_be() -> None:
    """No smoothing without the 4-grams, a penalty for brevity, and 0 where an order cannot occur."""
    tokens = [([gold[0].split()], text.split()) for gold, text in WITHOUT_4_GRAMS]
    references, predicted = (list(column) for column in zip(*tokens, strict=True))
    assert score_bleu(references, predicted)["bleu"] == 0.0 < score_bleu(references, predicted, smooth=True)["bleu"]
    assert bleu(TOO_SHORT) == 0.0
    assert 0 < bleu(ENDS_EARLY) == pytest.approx(100 * 2.718281828 ** (1 - 9 / 4))


@given(st.text(max_size=40))
def test_tokens_of_any_text(text: str) -> None:
    assert bleu_tokens(text) == Tokenizer13a()(text.rstrip()).split()
    assert bleu_tokens(text, "zh") == TokenizerZh()(text.rstrip()).split()


def test_every_character_is_chinese_where_sacrebleu_says_so() -> None:
    tokenizer = TokenizerZh()
    for code in range(0x10000):
        if not 0xD800 <= code < 0xE000:
            text = f"a{chr(code)}b"
            assert bleu_tokens(text, "zh") == tokenizer(text).split(), hex(code)


def test_tokens_by_hand() -> None:
    assert bleu_tokens("It's 2,000.5 (or so), 3-4.") == [
        "It's",
        "2,000.5",
        "(",
        "or",
        "so",
        ")",
        ",",
        "3",
        "-",
        "4",
        ".",
    ]
    assert bleu_tokens('well-\nknown &amp; "loved"') == ["wellknown", "&", '"', "loved", '"']
    assert bleu_tokens("猫坐在mat上。", "zh") == ["猫", "坐", "在", "mat", "上", "。"]


def test_chrf_by_hand() -> None:
    # Characters: 3 of 3, and 3 of 4 of the reference; pairs 2 of 2 and 2 of 3; triples 1 of 1 and 1 of 2; no fours.
    precision, recall = 1.0, (3 / 4 + 2 / 3 + 1 / 2) / 3
    assert score_chrf(["ab cd"], ["abc"])["chrf"] == pytest.approx(
        100 * 5 * precision * recall / (4 * precision + recall)
    )
    assert score_chrf(["ab"], [""]) == {"chrf": 0.0}
    with pytest.raises(InputError, match="a text has no reference"):
        score_chrf([[]], ["a"])
    with pytest.raises(InputError, match="1 gold texts and 0 predicted"):
        score_chrf(["a"], [])
