"""`spanlab tokenizer train` as a user runs it."""

import json
from pathlib import Path

import pytest

from spanlab.text import Tokenizer
from tests.cli.run import run_spanlab
from tests.text.hostile_text import HONEST


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text(HONEST, encoding="utf-8")
    return [str(tmp_path / "a.txt"), str(tmp_path / "b.txt")]


def train(files: list[str], out: Path, kind: str, *options: str, size: int = 400) -> tuple[int, str, str]:
    arguments = ("--type", kind, "--vocab-size", str(size), "--out", str(out), *options)
    done = run_spanlab("tokenizer", "train", *files, *arguments)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("kind", ["wordpiece", "bpe", "unigram", "word"])
def test_trains_every_type(files: list[str], kind: str, tmp_path: Path) -> None:
    code, out, err = train(files, tmp_path / "tokenizer", kind, "--json")
    assert code == 0, err
    told = json.loads(out)
    tokenizer = Tokenizer.load(tmp_path / "tokenizer")
    assert (told["type"], told["fingerprint"]) == (tokenizer.kind, tokenizer.fingerprint) == (kind, told["fingerprint"])
    assert told["vocab_size"] == tokenizer.vocab_size <= 400


def test_options_reach_the_tokenizer(files: list[str], tmp_path: Path) -> None:
    options = ("--lowercase", "--keep-accents", "--system", "xlnet")
    code, out, err = train(files, tmp_path / "tokenizer", "unigram", *options, size=300)
    assert code == 0, err
    tokenizer = Tokenizer.load(tmp_path / "tokenizer")
    assert (tokenizer.system, tokenizer.lower_cases) == ("xlnet", True)
    assert "é" in tokenizer.decode(tokenizer.encode("Café").ids)
    assert "xlnet" in out


def test_full_folder_is_refused_and_overwritten(files: list[str], tmp_path: Path) -> None:
    out = tmp_path / "tokenizer"
    assert train(files, out, "wordpiece")[0] == 0
    before = {file.name: file.read_bytes() for file in out.iterdir()}
    code, printed, err = train(files, out, "bpe")
    assert (code, printed) == (2, "")
    assert f"{out}: exists and is not empty" in err
    assert {file.name: file.read_bytes() for file in out.iterdir()} == before
    assert train(files, out, "bpe", "--overwrite")[0] == 0
    assert sorted(file.name for file in out.iterdir()) == ["tokenizer.json", "tokenizer_config.json"]


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (None, (), "text.txt: no such file"),
        (b"", (), "text.txt: is empty"),
        (b" \n \n", (), "the text has no words"),
        (b"The ferry \xff", (), "text.txt: not UTF-8 text (byte 10)"),
        (b"The ferry left.", ("--system", "gpt"), "gpt has no unknown token"),
        (b"The ferry left.", ("--vocab-size", "4"), "wordpiece needs at least 6"),
        (
            b"the ferry left and the dog barked",
            (),
            "no capital letter, so every capital would be unknown; add --lowercase",
        ),
    ],
)
def test_wrong_input_exits_with_2(
    content: bytes | None, options: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / "text.txt").write_bytes(content)
    code, printed, err = train(
        [str(tmp_path / "text.txt")], tmp_path / "out", "wordpiece", "--min-frequency", "1", *options
    )
    assert (code, printed) == (2, "")
    assert message in err
    assert len(err.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()
