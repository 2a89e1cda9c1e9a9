"""Masks in a text: the row a model sees is the one it would have been trained on."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanlab.errors import InputError
from spanlab.inference.masked_text import fill_spans, read_masked_text, read_piece
from spanlab.text import Tokenizer
from spanlab.text.train import TokenizerConfig, train_tokenizer
from tests.inference.models import KINDS, LINES, make_tokenizer

TOKENIZERS: dict[str, Tokenizer] = {system: make_tokenizer(system) for system in KINDS if system != "electra"}
WORDS = sorted({word for line in LINES for word in line.split()})


@given(
    system=st.sampled_from(sorted(TOKENIZERS)),
    words=st.lists(st.sampled_from(WORDS), min_size=2, max_size=8),
    data=st.data(),
)
def test_a_masked_word_leaves_nothing_behind(system: str, words: list[str], data: st.DataObject) -> None:
    """Writing a mask for each token of some words gives the row in which those tokens are masked."""
    tokenizer = TOKENIZERS[system]
    text = " ".join(words)
    tokens = tokenizer.encode(text)
    starts = [sum(len(word) + 1 for word in words[:number]) for number in range(len(words))]
    chosen = data.draw(st.sets(st.integers(0, len(words) - 1), min_size=1))
    expected, written = tokens.ids.tolist(), []
    for number, (word, start) in enumerate(zip(words, starts, strict=True)):
        inside = [place for place, first in enumerate(tokens.starts) if start - 1 <= first < start + len(word)]
        if number in chosen:
            written.append("[MASK]" * len(inside))
            for place in inside:
                expected[place] = tokenizer.mask_id
        else:
            written.append(word)
    masked = read_masked_text(" ".join(written), tokenizer)
    assert masked.ids == (tokenizer.cls_id, *expected, tokenizer.sep_id)
    held = [place for run in masked.runs for place in range(run.span.first, run.span.last + 1)]
    assert held == [place for place, number in enumerate(masked.ids) if number == tokenizer.mask_id]
    assert all(len(run.char_spans) == len(run.span) for run in masked.runs)


@given(system=st.sampled_from(sorted(TOKENIZERS)), words=st.lists(st.sampled_from(WORDS), min_size=1, max_size=6))
def test_the_true_tokens_put_back_give_the_text(system: str, words: list[str]) -> None:
    tokenizer = TOKENIZERS[system]
    ids = tokenizer.encode("So " + " ".join(words)).ids.tolist()
    known = len(tokenizer.encode("So"))
    pieces = [read_piece(tokenizer, token_id) for token_id in ids[known:]]
    masks = " ".join(["[MASK]"] * len(pieces))
    places = [(3 + 7 * number, 9 + 7 * number) for number in range(len(pieces))]
    assert fill_spans(f"So {masks}", places, pieces) == "So " + " ".join(words)


def test_han_characters_are_not_parted() -> None:
    lines = ["渔夫补网,灯一盏盏灭了。", "村里没人记得磨坊何时停下。"]
    tokenizer = train_tokenizer(lines * 3, TokenizerConfig(kind="wordpiece", vocab_size=80, lowercase=True))
    pieces = [read_piece(tokenizer, token_id) for token_id in tokenizer.encode("磨坊停").ids.tolist()]
    assert fill_spans("村里[MASK][MASK][MASK]。", [(2, 8), (8, 14), (14, 20)], pieces) == "村里磨坊停。"


def test_a_tokenizer_without_a_mask_is_named() -> None:
    words = train_tokenizer(LINES * 3, TokenizerConfig(kind="word", vocab_size=60))
    with pytest.raises(InputError, match="no mask token"):
        read_masked_text("The [MASK]", words)
