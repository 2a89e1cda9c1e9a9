"""The public collator: on every kind of tokenizer, ours and transformers', and on word starts told from ids."""

from pathlib import Path

import numpy as np
import pytest
import torch

from spanlab import SpanMasking
from spanlab.errors import ConfigError, InputError
from spanlab.text import Tokenizer
from spanlab.text.train import TokenizerConfig, train_tokenizer
from spanlab.text.words import VocabularyWords

ENGLISH = (
    "The lighthouse keeper counted seventeen ships before breakfast, and wrote their names in a tattered notebook. "
    "Nobody believed him; unbelievable stories, they said, belong to unbelievable people! Yet the harbourmaster's "
    "daughter kept every page (all 412 of them) in a drawer lined with newspapers from 1911. "
)
CHINESE = (
    "灯塔的守护人在早饭前数了十七艘船，把它们的名字写在一本破旧的笔记本上。"
    "没有人相信他，只有港长的女儿把每一页都收在抽屉里。"
)
TEXTS = [ENGLISH * 3, CHINESE * 3 + ENGLISH]


@pytest.fixture(scope="module", params=["wordpiece", "bpe", "unigram"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return train_tokenizer(TEXTS * 20, TokenizerConfig(kind=request.param, vocab_size=400))


def encoded(tokenizer: Tokenizer) -> list[dict[str, object]]:
    features = []
    for number, text in enumerate(TEXTS * 6):
        tokens = tokenizer.encode(text)
        ids = [tokenizer.cls_id, *tokens.ids.tolist(), tokenizer.sep_id]
        features.append({"input_ids": ids, "word_starts": [True, *tokens.word_starts.tolist(), True], "index": number})
    return features


def test_works_on_every_kind_of_tokenizer(tokenizer: Tokenizer) -> None:
    features = encoded(tokenizer)
    batch = SpanMasking(tokenizer, seed=3)(features)
    width = max(len(feature["input_ids"]) for feature in features)  # type: ignore[arg-type]
    assert batch["input_ids"].shape == batch["labels"].shape == batch["attention_mask"].shape == (12, width)
    predicted = batch["labels"] != -100
    original = torch.full_like(batch["input_ids"], tokenizer.pad_id or 0)
    for row, feature in enumerate(features):
        original[row, : len(feature["input_ids"])] = torch.tensor(feature["input_ids"])  # type: ignore[arg-type]
    assert torch.equal(batch["labels"][predicted], original[predicted])
    assert torch.equal(batch["input_ids"][~predicted], original[~predicted])
    assert 0.1 < predicted.sum() / batch["attention_mask"].sum() < 0.16
    flat = original.flatten()
    assert torch.equal(flat[batch["span_position"]], batch["span_target"])
    assert not predicted.flatten()[batch["span_left"]].any()
    assert not predicted.flatten()[batch["span_right"]].any()
    assert (batch["span_offset"] >= 0).all()


def test_masks_depend_on_index_and_epoch_not_on_order(tokenizer: Tokenizer) -> None:
    features = encoded(tokenizer)
    masking = SpanMasking(tokenizer, seed=3)
    forward, backward = masking(features), masking(features[::-1])
    assert torch.equal(forward["labels"], backward["labels"].flip(0))
    masking.epoch = 1
    assert not torch.equal(forward["labels"], masking(features)["labels"])


def test_whole_words_are_masked_in_chinese_and_english(tokenizer: Tokenizer) -> None:
    features = encoded(tokenizer)
    examples = SpanMasking(tokenizer, seed=1, mask_share=1.0, random_share=0.0, keep_share=0.0).mask(features)
    starts = np.concatenate([np.asarray(feature["word_starts"], bool) for feature in features])
    masked = np.zeros(len(starts), bool)
    masked[examples.positions] = True
    inside = np.flatnonzero(~starts)
    assert (masked[inside] == masked[inside - 1]).all()


def test_words_told_from_ids_agree_with_words_told_from_text(tokenizer: Tokenizer) -> None:
    words = VocabularyWords(tokenizer.vocabulary)
    agreed, count = 0, 0
    for text in TEXTS:
        tokens = tokenizer.encode(text)
        ids = tokens.ids.astype(np.int64)
        told = words.word_starts(ids, np.isin(ids, tokenizer.special_ids))
        agreed += int((told == tokens.word_starts).sum())
        count += len(ids)
    assert agreed / count > 0.98


def test_a_transformers_tokenizer_and_plain_lists(tokenizer: Tokenizer, tmp_path: Path) -> None:
    hf = pytest.importorskip("transformers")
    tokenizer.save(tmp_path)
    theirs = hf.AutoTokenizer.from_pretrained(tmp_path)
    features = encoded(tokenizer)
    lists = [feature["input_ids"] for feature in features]
    batch = SpanMasking(theirs, seed=3, boundaries=False)(lists)  # type: ignore[arg-type]
    ours = SpanMasking(tokenizer, seed=3, boundaries=False)(lists)  # type: ignore[arg-type]
    assert set(batch) == {"input_ids", "attention_mask", "labels"}
    for name in batch:
        assert torch.equal(batch[name], ours[name]), name


def test_wrong_use() -> None:
    with pytest.raises(InputError, match="a str is not a tokenizer"):
        SpanMasking("bert-base-cased")
    tokenizer = train_tokenizer(TEXTS, TokenizerConfig(kind="wordpiece", vocab_size=200))
    with pytest.raises(InputError, match="empty"):
        SpanMasking(tokenizer)([])
    with pytest.raises(ConfigError, match="did you mean 'ratio'"):
        SpanMasking(tokenizer, ration=0.2)
