"""Chinese words at preparation: those of jieba, kept in the corpus, and masked whole."""

import re
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer as Backend
from tokenizers import models, normalizers, pre_tokenizers

from spanlab.corpus import PrepareConfig, PreparedCorpus, plan_preparation, run_preparation
from spanlab.corruption import Masking, MaskingConfig, RandomTokens, SpecialTokenLayout, TokenBatch, batch_sequences
from spanlab.errors import ConfigError, InputError
from spanlab.samples import load
from spanlab.text import Tokenizer, word_spans
from spanlab.text.words import load_segmenter
from tests.cli.run import run_here
from tests.corpus.making import SPECIAL, folder_digest

LENGTH = 128


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("chinese") / "zh.txt"
    passages = [passage.text for passage in load() if passage.language == "zh"]
    path.write_text("\n\n".join(passages) + "\n\nHe said 你好世界, and left.\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def tokenizer(text: Path) -> Tokenizer:
    """WordPiece over the characters of the text, so that none is unknown."""
    characters = sorted(set(text.read_text(encoding="utf-8").lower()))
    tokens = [*SPECIAL, *characters, *("##" + character for character in characters)]
    backend = Backend(models.WordPiece({token: index for index, token in enumerate(tokens)}, unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer(lowercase=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.add_special_tokens(SPECIAL)
    return Tokenizer(backend)


def prepare(text: Path, tokenizer: Tokenizer, out: Path, *, workers: int = 1) -> PreparedCorpus:
    plan = plan_preparation([str(text)], PrepareConfig(documents="blank-line", segmenter="jieba", segment_bytes=4096))
    run_preparation(plan, tokenizer=tokenizer, out=out, workers=workers)
    return PreparedCorpus.open(out)


@pytest.fixture(scope="module")
def corpus(text: Path, tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> PreparedCorpus:
    pytest.importorskip("jieba", reason="the zh extra is not installed")
    return prepare(text, tokenizer, tmp_path_factory.mktemp("corpus") / "out")


def words_of(corpus: PreparedCorpus) -> list[str]:
    """The words of a corpus as its tokens spell them."""
    tokens = corpus.read([0], [corpus.counts.tokens])
    vocabulary = corpus.tokenizer.vocabulary
    spelled = [vocabulary[token].removeprefix("##") for token in tokens.ids.tolist()]
    begins = [*np.flatnonzero(tokens.word_starts).tolist(), len(spelled)]
    return ["".join(spelled[first:last]) for first, last in pairwise(begins)]


def test_words_are_those_of_jieba(corpus: PreparedCorpus, text: Path, tmp_path: Path) -> None:
    import jieba

    oracle = jieba.Tokenizer()
    oracle.tmp_dir = str(tmp_path)  # jieba's own initialisation writes a cache
    han = re.findall(r"[\u4e00-\u9fa5]+", text.read_text(encoding="utf-8"))
    expected = [word for run in han for word in oracle.lcut(run)]
    found = words_of(corpus)
    assert [word for word in found if re.match(r"[\u4e00-\u9fa5]", word)] == expected
    assert sum(map(len, expected)) > 1.3 * len(expected)  # words, not characters
    assert {"he", "said", ",", "你好", "世界"} <= set(found)
    assert corpus.manifest.options.segmenter == "jieba"


def test_the_number_of_workers_changes_nothing(
    corpus: PreparedCorpus, text: Path, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    prepare(text, tokenizer, tmp_path / "out", workers=2)
    assert folder_digest(tmp_path / "out") == folder_digest(corpus.folder)


def batch_of(corpus: PreparedCorpus) -> TokenBatch:
    tokens = corpus.read([0], [corpus.counts.tokens])
    cls_id, sep_id = corpus.tokenizer.cls_id, corpus.tokenizer.sep_id
    assert cls_id is not None
    assert sep_id is not None
    rows = range(0, len(tokens.ids) - LENGTH, LENGTH)
    sequences = [[cls_id, *tokens.ids[start : start + LENGTH].tolist(), sep_id] for start in rows]
    flags = [[True, *tokens.word_starts[start : start + LENGTH].tolist(), True] for start in rows]
    layout = SpecialTokenLayout(cls_id=cls_id, sep_id=sep_id, special_ids=corpus.tokenizer.special_ids)
    return batch_sequences(sequences, flags, layout)


@pytest.mark.parametrize("law", ["word", "span"])
def test_masks_cover_whole_chinese_words(corpus: PreparedCorpus, law: str) -> None:
    tokenizer, batch = corpus.tokenizer, batch_of(corpus)
    assert tokenizer.mask_id is not None
    tokens = RandomTokens(tokenizer.vocab_size, tokenizer.special_ids)
    config = MaskingConfig(law=law, random_from="vocabulary")  # type: ignore[arg-type]
    masking = Masking(config, mask_id=tokenizer.mask_id, random_tokens=tokens)
    masked = 0
    for epoch in range(20):
        flags = np.zeros(len(batch.ids), bool)
        flags[masking(batch, seed=0, epoch=epoch).positions] = True
        inside = np.flatnonzero(batch.maskable & ~batch.word_starts)
        assert (flags[inside] == flags[inside - 1]).all()
        masked += int(flags[inside].sum())
    assert masked > 100  # words of several characters are among them


def test_a_missing_jieba_is_told_before_anything_is_written(
    text: Path, tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_segmenter.cache_clear()
    monkeypatch.setitem(sys.modules, "jieba", None)
    tokenizer.save(tmp_path / "tokenizer")
    command = ("--segmenter", "jieba", "--tokenizer", str(tmp_path / "tokenizer"), "--out", str(tmp_path / "out"))
    done = run_here("prepare", str(text), *command)
    assert done.returncode == 2
    assert "--segmenter jieba needs the 'zh' extra; pip install 'spanlab[zh]'" in done.stderr
    assert not (tmp_path / "out").exists()


def test_only_names_of_the_list_are_segmenters(text: Path, tmp_path: Path) -> None:
    done = run_here(
        "prepare", str(text), "--segmenter", "os:system", "--tokenizer", "t", "--out", str(tmp_path / "out")
    )
    assert done.returncode == 2
    assert "jieba" in done.stderr


def test_a_corpus_that_names_another_segmenter_is_refused(corpus: PreparedCorpus, tmp_path: Path) -> None:
    manifest = (corpus.folder / "manifest.json").read_text(encoding="utf-8")
    (tmp_path / "manifest.json").write_text(manifest.replace('"jieba"', '"os:system"'), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"manifest\.json.*segmenter.*os:system"):
        PreparedCorpus.open(tmp_path)


def test_a_segmenter_in_the_tokenizer_is_refused(text: Path, tokenizer: Tokenizer, tmp_path: Path) -> None:
    own = Tokenizer(tokenizer._backend, segmenter=list)
    plan = plan_preparation([str(text)], PrepareConfig())
    with pytest.raises(InputError, match="workers' tokenizers do not have; load it without, and name one"):
        run_preparation(plan, tokenizer=own, out=tmp_path / "out")


def test_no_cache_of_the_temporary_folder_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jieba would take the dictionary from there, whoever wrote it."""
    pytest.importorskip("jieba", reason="the zh extra is not installed")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    load_segmenter.cache_clear()
    text = "我们喜欢音乐"
    assert [text[first:last] for first, last in word_spans(text, load_segmenter("jieba"))] == ["我们", "喜欢", "音乐"]
    assert list(tmp_path.iterdir()) == []
