"""A cased vocabulary and a lower-casing tokenizer must not meet."""

import json
from pathlib import Path

import pytest

from spanlab.errors import InputError
from spanlab.text import Tokenizer
from spanlab.text.casing import has_capitals, lacks_capitals
from spanlab.text.tokenizer import check_model_case


def change(folder: Path, *, lowercase: bool | None = None, settings: dict[str, object] | None = None) -> Path:
    """Alter a saved tokenizer as careless hands do."""
    file, config = folder / "tokenizer.json", folder / "tokenizer_config.json"
    if lowercase is not None:
        content = json.loads(file.read_text(encoding="utf-8"))
        content["normalizer"]["lowercase"] = lowercase
        file.write_text(json.dumps(content), encoding="utf-8")
    if settings is not None:
        config.write_text(json.dumps(settings))
    return folder


@pytest.fixture
def cased(trained: dict[str, Tokenizer], tmp_path: Path) -> Path:
    trained["wordpiece cased"].save(tmp_path / "cased")
    return tmp_path / "cased"


@pytest.fixture
def uncased(trained: dict[str, Tokenizer], tmp_path: Path) -> Path:
    trained["wordpiece uncased"].save(tmp_path / "uncased")
    return tmp_path / "uncased"


def test_cased_vocabulary_with_lower_casing_normalizer(cased: Path) -> None:
    change(cased, lowercase=True, settings={})
    with pytest.raises(InputError, match="cased: the vocabulary is cased, but its tokenizer lower-cases"):
        Tokenizer.load(cased)


def test_uncased_vocabulary_with_a_normalizer_that_keeps_capitals(tmp_path: Path) -> None:
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"word{letter}" for letter in "abcdefghij")]
    (tmp_path / "vocab.txt").write_text("\n".join(words) + "\n")
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    with pytest.raises(InputError, match="the vocabulary is uncased, but its tokenizer keeps capitals"):
        Tokenizer.load(tmp_path)


def test_settings_that_contradict_the_normalizer(cased: Path, uncased: Path) -> None:
    with pytest.raises(InputError, match=r"do_lower_case true, but the tokenizer keeps capitals"):
        Tokenizer.load(change(cased, settings={"do_lower_case": True}))
    with pytest.raises(InputError, match=r"do_lower_case false, but the tokenizer lower-cases"):
        Tokenizer.load(change(uncased, settings={"do_lower_case": False}))


def test_model_and_foreign_tokenizer_are_both_named(cased: Path, uncased: Path) -> None:
    with pytest.raises(InputError) as refused:
        check_model_case(cased, Tokenizer.load(uncased), uncased)
    assert f"the model {cased} is cased, but the tokenizer {uncased} lower-cases" in str(refused.value)
    with pytest.raises(InputError) as refused:
        check_model_case(uncased, Tokenizer.load(cased), cased)
    assert f"the model {uncased} is uncased, but the tokenizer {cased} keeps capitals" in str(refused.value)
    check_model_case(cased, Tokenizer.load(cased), cased)


def test_what_counts_as_a_capital() -> None:
    small = [f"word{number}" for number in range(500)]
    assert not has_capitals([*small, "[UNK]", "<S>", "A", "ℝ", "##b"])
    assert has_capitals([*small, "The"])
    assert has_capitals([*small, "##Neill"])
    assert has_capitals([*small, "Мама"])
    assert not has_capitals([*small, "Ġthe", "ĠÐ¼Ð°"])  # letters that stand for bytes
    assert has_capitals([*small, "Ġthe", "ĠThe"])


def test_scripts_without_capitals_prove_nothing() -> None:
    assert lacks_capitals(["the", "ferry", "left"])
    assert not lacks_capitals(["中", "文", "字", "안녕", "the"])


def test_published_vocabularies(real_data: Path) -> None:
    told = {
        folder.name: Tokenizer.load(folder).lower_cases
        for folder in sorted((real_data / "tokenizers").iterdir())
        if folder.is_dir()
    }
    assert told == {
        "albert-v2_spiece": True,
        "bert-base-cased": False,
        "bert-base-chinese": True,
        "bert-base-uncased": True,
        "gpt2-roberta-bpe": False,
    }


AMINO_ACIDS = "ARNDCQEGHILKMFPSTWYV"


@pytest.mark.parametrize("alphabet", [AMINO_ACIDS, "ACGT", "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"])
def test_a_vocabulary_of_single_capital_letters_is_cased(alphabet: str, tmp_path: Path) -> None:
    """As proteins and genes are written: there is no word to decide by, and lower-cased everything would be unknown."""
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    (tmp_path / "vocab.txt").write_text("\n".join([*specials, *alphabet]) + "\n")
    tokenizer = Tokenizer.load(tmp_path)
    assert not tokenizer.lower_cases
    ids = tokenizer.encode(" ".join(alphabet)).ids.tolist()
    assert ids == list(range(5, 5 + len(alphabet)))
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": true}')
    with pytest.raises(InputError, match="the vocabulary is cased, but its tokenizer lower-cases"):
        Tokenizer.load(tmp_path)


def test_evidence_of_a_case() -> None:
    pieces = [f"##{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"]
    words = ["the", "and", "##ing", "of"]
    assert not has_capitals([*pieces, *words, "1", "2", "Q"])  # a symbol
    assert not has_capitals([*pieces, *words, "中", "文", "ℝ"])
    assert has_capitals([*pieces, *words, *"ABCDEFGHIJ"])  # a small cased vocabulary, without a capitalised word
    assert not has_capitals(["1", "2", "中", "안", "[UNK]"])  # nothing has a case
    assert not has_capitals([])
    byte_level = [chr(code) for code in range(ord("!"), ord("~"))]
    assert not has_capitals([*byte_level, "Ġ", "the"])  # its single letters stand for bytes
