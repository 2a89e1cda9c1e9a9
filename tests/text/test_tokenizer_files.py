"""Reading tokenizers in every form they come in, and refusing what is none."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from spanlab.errors import InputError
from spanlab.text import Tokenizer
from spanlab.text.sentencepiece import read_sentencepiece
from tests.text.hostile_text import HONEST


def write_vocab(folder: Path, tokenizer: Tokenizer, settings: dict[str, object] | None = None) -> Path:
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in tokenizer.vocabulary), encoding="utf-8")
    if settings is not None:
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


def write_merges(folder: Path, tokenizer: Tokenizer, names: tuple[str, str]) -> Path:
    model = tokenizer._description["model"]
    (folder / names[0]).write_text(json.dumps(dict(zip(tokenizer.vocabulary, range(10**6), strict=False))))
    lines = [" ".join(pair) for pair in model["merges"]]
    (folder / names[1]).write_text("#version: 0.2\n" + "\n".join(lines) + "\n", encoding="utf-8")
    return folder


@pytest.mark.parametrize("name", ["wordpiece cased", "wordpiece uncased"])
def test_bare_vocabulary_tells_its_case_itself(trained: dict[str, Tokenizer], name: str, tmp_path: Path) -> None:
    tokenizer = trained[name]
    folder = write_vocab(tmp_path, tokenizer)
    for path in (folder, folder / "vocab.txt"):
        again = Tokenizer.load(path)
        assert again.fingerprint == tokenizer.fingerprint
        assert again.lower_cases is (name == "wordpiece uncased")
        assert (again.system, again.mask_id) == ("bert", tokenizer.mask_id)


def test_settings_of_a_vocabulary_are_followed(trained: dict[str, Tokenizer], tmp_path: Path) -> None:
    kept = trained["wordpiece lower, accents kept"]
    folder = write_vocab(tmp_path, kept, {"do_lower_case": True, "strip_accents": False})
    assert Tokenizer.load(folder).fingerprint == kept.fingerprint


@pytest.mark.parametrize("names", [("vocab.json", "merges.txt"), ("encoder.json", "vocab.bpe")])
@pytest.mark.parametrize("name", ["bpe roberta", "bpe gpt"])
def test_vocabulary_with_merges(
    trained: dict[str, Tokenizer], name: str, names: tuple[str, str], tmp_path: Path
) -> None:
    tokenizer = trained[name]
    write_merges(tmp_path, tokenizer, names)
    for path in (tmp_path, tmp_path / names[0]):
        again = Tokenizer.load(path)
        np.testing.assert_array_equal(again.encode(HONEST).ids, tokenizer.encode(HONEST).ids)
        assert (again.system, again.special_ids) == (tokenizer.system, tokenizer.special_ids)


def test_gpt_1_ends_its_words_with_a_mark(tmp_path: Path) -> None:
    vocabulary = ["<unk>", "t", "h", "e", "t</w>", "h</w>", "e</w>", ".</w>", "th", "the</w>"]
    (tmp_path / "vocab.json").write_text(json.dumps({token: number for number, token in enumerate(vocabulary)}))
    (tmp_path / "merges.txt").write_text("#version: 0.2\nt h\nth e</w>\n")
    tokenizer = Tokenizer.load(tmp_path)
    tokens = tokenizer.encode("The het. x")
    assert [vocabulary[number] for number in tokens.ids] == ["the</w>", "h", "e", "t</w>", ".</w>", "<unk>"]
    assert tokens.word_starts.tolist() == [True, True, False, False, True, True]
    assert (tokenizer.system, tokenizer.unk_id, tokenizer.lower_cases) == ("gpt", 0, True)


def test_roles_named_in_the_settings_win(trained: dict[str, Tokenizer], tmp_path: Path) -> None:
    trained["bpe gpt"].save(tmp_path)
    settings = json.loads((tmp_path / "tokenizer_config.json").read_text())
    settings |= {"pad_token": "<|endoftext|>", "unk_token": {"content": "<|endoftext|>", "lstrip": False}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    again = Tokenizer.load(tmp_path)
    assert again.pad_id == again.unk_id == again.sep_id == 599


def _truncated(folder: Path) -> Path:
    (folder / "tokenizer.json").write_text('{"version": "1.0",\n "model":')
    return folder


def _foreign_json(folder: Path) -> Path:
    (folder / "tokenizer.json").write_text('{"version": "1.0", "model": {"type": "Surprise"}}')
    return folder


def _no_unknown(folder: Path) -> Path:
    (folder / "vocab.txt").write_text("the\nferry\n")
    return folder


def _latin_1(folder: Path) -> Path:
    (folder / "vocab.txt").write_bytes("[UNK]\ncaf\xe9\n".encode("latin-1"))
    return folder


def _no_merges(folder: Path) -> Path:
    (folder / "vocab.json").write_text("{}")
    return folder


def _not_sentencepiece(folder: Path) -> Path:
    (folder / "spiece.model").write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    return folder


def _other_file(folder: Path) -> Path:
    (folder / "model.safetensors").write_bytes(b"x")
    return folder / "model.safetensors"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda folder: folder / "nowhere", "nowhere: no such file or folder"),
        (lambda folder: folder, "has no tokenizer; use a folder with one of tokenizer.json, vocab.txt"),
        (_truncated, r"tokenizer.json:2:\d+: not valid JSON"),
        (_foreign_json, "tokenizer.json: cannot be read as a tokenizer"),
        (_no_unknown, r"vocab.txt: has no line \[UNK\]"),
        (_latin_1, r"vocab.txt: not UTF-8 text \(byte 9\)"),
        (_no_merges, "vocab.json: merges.txt is missing in its folder"),
        (_not_sentencepiece, "spiece.model: not a SentencePiece model"),
        (_other_file, "model.safetensors: not a tokenizer file"),
    ],
)
def test_what_is_no_tokenizer_is_refused_by_name(make: Callable[[Path], Path], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        Tokenizer.load(make(tmp_path))


@pytest.fixture(scope="module")
def spiece(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small SentencePiece model with the special tokens of ALBERT."""
    sentencepiece = pytest.importorskip("sentencepiece")
    folder = tmp_path_factory.mktemp("spiece")
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(HONEST.lower().splitlines() * 3),
        model_prefix=str(folder / "spiece"),
        vocab_size=300,
        pad_id=0,
        unk_id=1,
        bos_id=-1,
        eos_id=-1,
        control_symbols=["[CLS]", "[SEP]", "[MASK]"],
        user_defined_symbols=["-", "."],
        character_coverage=1.0,
        minloglevel=2,
    )
    return folder / "spiece.model"


def test_sentencepiece_file_is_read_as_its_library_reads_it(spiece: Path) -> None:
    import sentencepiece

    library = sentencepiece.SentencePieceProcessor(model_file=str(spiece))
    model = read_sentencepiece(spiece)
    assert len(model.pieces) == library.get_piece_size()
    for number, (piece, score) in enumerate(model.pieces):
        assert piece == library.id_to_piece(number)
        assert score == pytest.approx(library.get_score(number), abs=1e-8)
        assert (piece in model.control) == library.is_control(number)
    assert (model.unknown_id, model.normalization != b"") == (library.unk_id(), True)


def test_sentencepiece_model_gives_the_ids_of_its_library(spiece: Path) -> None:
    import sentencepiece

    library = sentencepiece.SentencePieceProcessor(model_file=str(spiece))
    tokenizer = Tokenizer.load(spiece)
    assert (tokenizer.kind, tokenizer.system, tokenizer.lower_cases) == ("unigram", "albert", True)
    for line in [*HONEST.splitlines(), "re-read U.S. half-open... 3.5", "x\ty  z"]:
        plain = line.lower().replace("é", "e").replace("ï", "i")
        assert tokenizer.encode(line).ids.tolist() == library.encode(plain), line


def test_cut_off_sentencepiece_file_is_refused(spiece: Path, tmp_path: Path) -> None:
    content = spiece.read_bytes()
    for share in (0.3, 0.7, 0.999):
        (tmp_path / "spiece.model").write_bytes(content[: int(len(content) * share)])
        with pytest.raises(InputError, match="not a SentencePiece model"):
            read_sentencepiece(tmp_path / "spiece.model")
