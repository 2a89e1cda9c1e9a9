import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanlab.text import Tokenizer
from spanlab.text.independent_chunks import chunk_rule, split_long
from spanlab.text.tokens import TokenTable
from spanlab.text.words import ALONE, HAN, character_classes
from tests.text.hostile_text import HONEST, hostile_text


def assert_same(one: TokenTable, other: TokenTable) -> None:
    for name in ("counts", "ids", "starts", "ends", "word_starts"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


@given(texts=st.lists(hostile_text, min_size=1, max_size=4))
def test_cache_gives_what_tokenizers_gives(tokenizer: Tokenizer, texts: list[str]) -> None:
    assert_same(tokenizer.encode_table(texts), tokenizer._encode_uncached(texts))


def test_tokenizers_with_independent_chunks(trained: dict[str, Tokenizer]) -> None:
    boundaries = {name: tokenizer._rule.boundaries if tokenizer._rule else None for name, tokenizer in trained.items()}
    assert boundaries == {
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
def test_a_full_cache_keeps_its_chunks_until_it_is_cleared(
    trained: dict[str, Tokenizer], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spanlab.text.encoding_cache.MAX_CHUNKS", 30)
    tokenizer = Tokenizer(trained[kind]._backend)
    sizes = []
    for line in HONEST.splitlines() * 2:
        assert_same(tokenizer.encode_table([line]), tokenizer._encode_uncached([line]))
        sizes.append(len(tokenizer._cache._cached.rows))
    assert max(sizes) <= 30
    assert sizes.count(0) > 2  # emptied more than once (the first line is blank)


@pytest.mark.parametrize("kind", ["wordpiece uncased", "bpe gpt", "unigram xlnet"])
@given(texts=st.lists(hostile_text, min_size=1, max_size=3), length=st.integers(1, 30))
def test_splitting_long_texts_changes_no_token(
    trained: dict[str, Tokenizer], kind: str, texts: list[str], length: int
) -> None:
    texts = [f"{HONEST[40:160]} {text} {HONEST[-80:]}" for text in texts]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("spanlab.text.encoding_cache.MAX_CHARACTERS", length)
        assert_same(trained[kind].encode_table(texts), trained[kind]._encode_uncached(texts))
    parts = split_long(texts[0], length)
    assert len(parts) > 3
    assert "".join(texts[0][first:last] for first, last in parts) == texts[0]


def test_a_failed_encoding_leaves_no_chunk_without_tokens(trained: dict[str, Tokenizer]) -> None:
    tokenizer = Tokenizer(trained["wordpiece cased"]._backend)
    working = tokenizer._cache._encode

    def fail(texts: list[str]) -> TokenTable:
        raise KeyboardInterrupt

    tokenizer._cache._encode = fail
    with pytest.raises(KeyboardInterrupt):
        tokenizer.encode("the ferry")
    tokenizer._cache._encode = working
    assert_same(tokenizer.encode_table(["the ferry"]), tokenizer._encode_uncached(["the ferry"]))


def test_bert_isolates_every_character_that_begins_a_chunk(trained: dict[str, Tokenizer]) -> None:
    classes = character_classes(np.arange(0x110000, dtype=np.uint32))
    backend = trained["wordpiece cased"]._backend
    cut_at = np.flatnonzero((classes == ALONE) | (classes == HAN)).tolist()
    assert len(cut_at) > 70_000
    joined = backend.normalizer.normalize_str("a".join(map(chr, cut_at)))
    parts = [part for part, _ in backend.pre_tokenizer.pre_tokenize_str(joined)]
    assert parts[1::2] == ["a"] * (len(cut_at) - 1)
    assert len(parts) == 2 * len(cut_at) - 1


def test_an_unknown_construction_has_no_chunks(trained: dict[str, Tokenizer]) -> None:
    description = json.loads(trained["bpe roberta"]._backend.to_str())
    prefixed = {**description, "pre_tokenizer": {**description["pre_tokenizer"], "add_prefix_space": True}}
    replaced = {**description, "normalizer": {"type": "Replace", "pattern": {"Regex": " +"}, "content": " "}}
    assert chunk_rule(description) is not None
    assert chunk_rule(prefixed) is None
    assert chunk_rule(replaced) is None
    assert chunk_rule({**description, "pre_tokenizer": None}) is None
