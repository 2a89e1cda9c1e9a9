import subprocess
import sys
from pathlib import Path

import pytest

from spanlab.errors import ConfigError, InputError
from spanlab.text import Tokenizer
from spanlab.text.plain_files import open_plain_files
from spanlab.text.train import TokenizerConfig, train_tokenizer
from tests.text.conftest import TRAINED
from tests.text.hostile_text import HONEST

_TRAIN = """
from spanlab.text.train import TokenizerConfig, train_tokenizer
from tests.text.hostile_text import HONEST
for kind in ("wordpiece", "bpe", "unigram", "word"):
    print(train_tokenizer([HONEST] * 2, TokenizerConfig(kind=kind, vocab_size=600)).fingerprint)
"""


def test_the_same_text_gives_the_same_tokenizer_in_every_process() -> None:
    def fingerprints() -> str:
        return subprocess.run([sys.executable, "-c", _TRAIN], capture_output=True, text=True, check=True).stdout

    first = fingerprints()
    assert len(set(first.split())) == 4
    assert fingerprints() == first == fingerprints()


@pytest.mark.parametrize(
    ("name", "special"),
    [
        ("wordpiece cased", ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]),
        ("bpe roberta", ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]),
        ("unigram albert", ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]),
        ("unigram xlnet", ["<unk>", "<s>", "</s>", "<cls>", "<sep>", "<pad>", "<mask>", "<eod>", "<eop>"]),
        ("word elmo", ["<S>", "</S>", "<UNK>"]),
    ],
)
def test_special_tokens_have_their_published_ids(trained: dict[str, Tokenizer], name: str, special: list[str]) -> None:
    vocabulary = trained[name].vocabulary
    assert list(vocabulary[: len(special)]) == special
    assert len(set(vocabulary)) == len(vocabulary)


def test_gpt_has_its_token_last(trained: dict[str, Tokenizer]) -> None:
    assert trained["bpe gpt"].vocabulary[-1] == "<|endoftext|>"
    assert trained["bpe gpt"].vocab_size == 600


def test_vocabulary_has_the_size_asked_for(trained: dict[str, Tokenizer]) -> None:
    for name, config in TRAINED.items():
        size = trained[name].vocab_size
        assert size == config.vocab_size or (config.kind == "unigram" and 200 < size < config.vocab_size), name


def test_case_and_accents(trained: dict[str, Tokenizer]) -> None:
    def decoded(name: str) -> str:
        return trained[name].decode(trained[name].encode("The café").ids)

    assert decoded("wordpiece cased") == "The café"
    assert decoded("wordpiece uncased") == "the cafe"
    assert decoded("wordpiece lower, accents kept") == "the café"
    assert decoded("unigram albert") == "the cafe"
    assert decoded("unigram xlnet") == "The café"
    assert decoded("bpe lower") == "the cafe"


def test_chinese_characters_are_split_or_not(trained: dict[str, Tokenizer]) -> None:
    together = [token for token in trained["wordpiece, Chinese not split"].vocabulary if "的" in token]
    assert any(len(token.removeprefix("##")) > 1 for token in together)
    split = trained["wordpiece cased"]
    assert not any(token.startswith("##") and "\u4e00" <= token[2] <= "\u9fff" for token in split.vocabulary)


@pytest.mark.parametrize("kind", ["wordpiece", "unigram", "bpe"])
@pytest.mark.parametrize("lowercase", [False, True])
def test_korean_is_spelled_out(kind: str, lowercase: bool) -> None:
    korean = [line for line in HONEST.splitlines() if "다." in line] * 2
    tokenizer = train_tokenizer(korean, TokenizerConfig(kind=kind, vocab_size=500, lowercase=lowercase))
    tokens = tokenizer.encode("개가 등대지기의 섬을 떠났다.")
    assert tokenizer.unk_id not in tokens.ids.tolist()
    assert tokens.word_starts.sum() == 5


def test_rare_characters_do_not_fill_the_vocabulary() -> None:
    rare = "".join(chr(code) for code in range(0xAC00, 0xAC00 + 3000))
    for kind in ("wordpiece", "unigram"):
        tokenizer = train_tokenizer([HONEST] * 3 + [rare], TokenizerConfig(kind=kind, vocab_size=800))
        assert tokenizer.vocab_size <= 800
        assert tokenizer.unk_id in tokenizer.encode(rare[-1]).ids.tolist()
        assert tokenizer.unk_id not in tokenizer.encode("The ferry left the island.").ids.tolist()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "bpe", "vocab_size": 200}, "bpe needs at least 261"),
        ({"kind": "wordpiece", "vocab_size": 5}, "wordpiece needs at least 6"),
        ({"kind": "word", "vocab_size": 100, "min_frequency": 0}, "at least 1"),
        ({"kind": "unigram", "vocab_size": 100, "system": "gpt"}, "gpt has no unknown token"),
    ],
)
def test_impossible_wishes_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        TokenizerConfig(**options)


@pytest.mark.parametrize("kind", ["wordpiece", "unigram", "word"])
def test_text_without_capitals_must_be_declared(kind: str) -> None:
    with pytest.raises(InputError, match=r"no capital letter.*--lowercase"):
        train_tokenizer([HONEST[:900].lower()] * 5, TokenizerConfig(kind=kind, vocab_size=200))


@pytest.mark.parametrize("kind", ["wordpiece", "unigram", "word"])
def test_text_without_words_is_refused(kind: str) -> None:
    with pytest.raises(InputError, match="no words"):
        train_tokenizer([" \n\t "], TokenizerConfig(kind=kind, vocab_size=100))


def test_what_can_be_read_only_once_is_a_mistake() -> None:
    with pytest.raises(TypeError, match="read only once"):
        train_tokenizer(iter([HONEST]), TokenizerConfig(kind="word", vocab_size=100))


def test_files_give_what_their_text_gives(tmp_path: Path) -> None:
    half = len(HONEST) // 2
    half = HONEST.index("\n", half) + 1
    (tmp_path / "a.txt").write_text(HONEST[:half], encoding="utf-8")
    (tmp_path / "b.txt").write_text(HONEST[half:], encoding="utf-8-sig")
    files = open_plain_files([tmp_path / "a.txt", tmp_path / "b.txt"])
    config = TokenizerConfig(kind="wordpiece", vocab_size=400)
    assert train_tokenizer(files, config).fingerprint == train_tokenizer([HONEST], config).fingerprint


def test_damaged_file_stops_the_training_by_name(tmp_path: Path) -> None:
    (tmp_path / "bad.txt").write_bytes(b"The ferry left. " * 1000 + b"\xff\xfe")
    with pytest.raises(InputError, match=r"bad.txt: not UTF-8 text \(byte 16000\)"):
        train_tokenizer(open_plain_files([tmp_path / "bad.txt"]), TokenizerConfig(kind="bpe", vocab_size=300))
