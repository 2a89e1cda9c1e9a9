import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanlab.text import Tokenizer
from spanlab.text.independent_chunks import cut_long, cut_rule
from spanlab.text.tokens import TokenTable
from spanlab.text.words import ALONE, HAN, character_classes
from tests.text.hostile_text import HONEST, hostile_text


def assert_same(one: TokenTable, other: TokenTable) -> None:
    for name in ("counts", "ids", "starts", "ends", "word_starts"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


@given(texts=st.lists(hostile_text, min_size=1, max_size=4))
def test_memory_of_pieces_gives_what_tokenizers_gives(tokenizer: Tokenizer, texts: list[str]) -> None:
    assert_same(tokenizer.encode_table(texts), tokenizer._encode_plainly(texts))


def test_memory_is_used_for_the_kinds_it_was_made_for(trained: dict[str, Tokenizer]) -> None:
    places = {name: tokenizer._rule.places if tokenizer._rule else None for name, tokenizer in trained.items()}
    assert places == {
        "wordpiece cased": "words",
        "wordpiece uncased": "words",
        "wordpiece lower, accents kept": "words",
        "wordpiece, Chinese not split": None,
        "bpe roberta": "spaces before",
        "bpe gpt": "spaces before",
        "bpe lower": "spaces before",
        "unigram albert": "spaces between",
        "unigram xlnet": "spaces between",
        "word elmo": "words",
    }


@pytest.mark.parametrize("kind", ["wordpiece cased", "bpe roberta", "unigram albert"])
def test_full_memory_stops_learning_and_begins_anew(
    trained: dict[str, Tokenizer], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spanlab.text.encoding_cache.MOST_PIECES", 30)
    tokenizer = Tokenizer(trained[kind]._backend)
    sizes = []
    for line in HONEST.splitlines() * 2:
        assert_same(tokenizer.encode_table([line]), tokenizer._encode_plainly([line]))
        sizes.append(len(tokenizer._memory._numbers))
    assert max(sizes) <= 30
    assert sizes.count(0) > 2  # emptied more than once (the first line is blank)


@pytest.mark.parametrize("kind", ["wordpiece uncased", "bpe gpt", "unigram xlnet"])
@given(texts=st.lists(hostile_text, min_size=1, max_size=3), length=st.integers(1, 30))
def test_long_texts_are_cut_up_without_a_trace(
    trained: dict[str, Tokenizer], kind: str, texts: list[str], length: int
) -> None:
    texts = [f"{HONEST[40:160]} {text} {HONEST[-80:]}" for text in texts]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("spanlab.text.encoding_cache.AT_ONCE", length)
        assert_same(trained[kind].encode_table(texts), trained[kind]._encode_plainly(texts))
    parts = cut_long(texts[0], length)
    assert len(parts) > 3
    assert "".join(texts[0][first:last] for first, last in parts) == texts[0]


def test_failure_while_learning_leaves_no_piece_without_tokens(trained: dict[str, Tokenizer]) -> None:
    tokenizer = Tokenizer(trained["wordpiece cased"]._backend)
    working = tokenizer._memory._encode

    def fail(texts: list[str]) -> TokenTable:
        raise KeyboardInterrupt

    tokenizer._memory._encode = fail
    with pytest.raises(KeyboardInterrupt):
        tokenizer.encode("the ferry")
    tokenizer._memory._encode = working
    assert_same(tokenizer.encode_table(["the ferry"]), tokenizer._encode_plainly(["the ferry"]))


def test_bert_isolates_every_character_that_text_is_cut_at(trained: dict[str, Tokenizer]) -> None:
    classes = character_classes(np.arange(0x110000, dtype=np.uint32))
    backend = trained["wordpiece cased"]._backend
    cut_at = np.flatnonzero((classes == ALONE) | (classes == HAN)).tolist()
    assert len(cut_at) > 70_000
    joined = backend.normalizer.normalize_str("a".join(map(chr, cut_at)))
    parts = [part for part, _ in backend.pre_tokenizer.pre_tokenize_str(joined)]
    assert parts[1::2] == ["a"] * (len(cut_at) - 1)
    assert len(parts) == 2 * len(cut_at) - 1


def test_unknown_construction_is_not_cut(trained: dict[str, Tokenizer]) -> None:
    description = json.loads(trained["bpe roberta"]._backend.to_str())
    prefixed = {**description, "pre_tokenizer": {**description["pre_tokenizer"], "add_prefix_space": True}}
    replaced = {**description, "normalizer": {"type": "Replace", "pattern": {"Regex": " +"}, "content": " "}}
    assert cut_rule(description) is not None
    assert cut_rule(prefixed) is None
    assert cut_rule(replaced) is None
    assert cut_rule({**description, "pre_tokenizer": None}) is None
