"""Tokenizer files that nobody vouches for: read, or refused in one line, without taking time or memory."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer as Backend
from tokenizers import models

from spanlab.errors import InputError
from spanlab.text import Tokenizer
from tests.cli.run import run_spanlab
from tests.encoder.test_hostile_folders import bounded

WORDPIECE = json.loads(Backend(models.WordPiece({"[UNK]": 0, "a": 1, "##a": 2}, unk_token="[UNK]")).to_str())
UNIGRAM = json.loads(Backend(models.Unigram([("a", -1.0), ("b", -2.0)], unk_id=0)).to_str())
DOUBLING = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
EMPTY_MATCH = {"type": "Replace", "pattern": {"Regex": "x*"}, "content": "y"}
BACKTRACKING = {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": False}


def in_row(*steps: Any) -> dict[str, Any]:
    return {"normalizer": {"type": "Sequence", "normalizers": list(steps)}}


def character_map(text: bytes) -> str:
    """A map whose trie is empty and whose texts are one."""
    return base64.b64encode((4).to_bytes(4, "little") + bytes(4) + text + b"\0").decode()


def vocabulary(**ids: Any) -> dict[str, Any]:
    return {"model": {**WORDPIECE["model"], "vocab": {"[UNK]": 0, **ids}}}


def added(**changes: Any) -> dict[str, Any]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
    return {"added_tokens": [{"id": 3, "content": "x", **flags, **changes}]}


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "id": (vocabulary(a=2**31), "token 'a' has id 2,147,483,648, and there are 2 tokens"),
    "largest id": (vocabulary(a=2**32 - 1), "has id 4,294,967,295"),
    "hole": (vocabulary(a=9_000_000), "has id 9,000,000, and there are 2 tokens"),
    "no id of 32 bits": (vocabulary(a=2**40), "cannot be read as a tokenizer"),
    "negative id": (vocabulary(a=-1), "cannot be read as a tokenizer"),
    "text for an id": (vocabulary(a="1"), "cannot be read as a tokenizer"),
    "added type": (added(id="x"), "cannot be read as a tokenizer"),
    "no tokens": ({"model": {**WORDPIECE["model"], "vocab": {}}}, "has no tokens"),
    "doubling": (in_row(*[DOUBLING] * 40), "the normalizer makes texts up to .* times as long"),
    "nested doubling": (in_row(*[in_row(*[DOUBLING] * 6)["normalizer"]] * 6), "the normalizer makes texts up to"),
    "empty matches": (in_row(*[EMPTY_MATCH] * 40), "the normalizer makes texts up to"),
    "long content": ({"normalizer": {**DOUBLING, "content": "a" * 10**6}}, "up to 1,000,000 times as long"),
    "prepended": ({"normalizer": {"type": "Prepend", "prepend": "a" * 10**6}}, "1,000,000 characters longer"),
    "prepended, doubled": (in_row({"type": "Prepend", "prepend": "a" * 500}, *[DOUBLING] * 5), "characters longer"),
    "decoder": ({"decoder": {**DOUBLING, "content": "a" * 1000}}, "the decoder makes texts up to 1,000 times"),
    "map": (
        {"normalizer": {"type": "Precompiled", "precompiled_charsmap": character_map(b"a" * 10**6)}},
        "has a text of 1,000,000 bytes for one character",
    ),
    "damaged map": ({"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}}, "cannot be read"),
    "regex": ({"normalizer": {**DOUBLING, "pattern": {"Regex": "("}}}, "cannot be read as a tokenizer: Oniguruma"),
    "normalizer": ({"normalizer": 5}, "cannot be read as a tokenizer"),
    "steps": ({"normalizer": {"type": "Sequence", "normalizers": 5}}, "cannot be read as a tokenizer"),
    "pattern": ({"normalizer": {**DOUBLING, "pattern": 5}}, "cannot be read as a tokenizer"),
    "model": ({"model": 5}, "cannot be read as a tokenizer"),
    "added": ({"added_tokens": 5}, "cannot be read as a tokenizer"),
}


def write(folder: Path, changes: dict[str, Any], base: dict[str, Any] = WORDPIECE) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps({**base, **changes}))
    return folder


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str, tmp_path: Path) -> None:
    changes, message = REFUSED[name]
    folder = write(tmp_path / "tokenizer", changes)
    with pytest.raises(InputError, match=message) as caught, bounded():
        Tokenizer.load(folder)
    assert str(folder) in str(caught.value)


@pytest.mark.parametrize(
    "changes",
    [
        in_row({"type": "Replace", "pattern": {"String": "``"}, "content": '"'}, {"type": "NFKD"}),
        in_row({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "▁"}, {"type": "Lowercase"}),
        in_row({"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}),
        vocabulary(a=500),
        {},
    ],
)
def test_usual_ones_are_read(changes: dict[str, Any], tmp_path: Path) -> None:
    Tokenizer.load(write(tmp_path, changes)).encode("a a")


@pytest.mark.parametrize(
    ("changes", "base", "text"),
    [
        ({"pre_tokenizer": BACKTRACKING}, WORDPIECE, "a" * 40 + "b"),
        ({"normalizer": {**DOUBLING, "pattern": {"Regex": "(a+)+$"}}}, WORDPIECE, "a" * 40 + "b"),
        ({"pre_tokenizer": {"type": "FixedLength", "length": 0}}, WORDPIECE, "a a"),
        ({"model": {**UNIGRAM["model"], "unk_id": None}}, UNIGRAM, "z"),
        ({"model": {**WORDPIECE["model"], "unk_token": "?"}}, WORDPIECE, "z"),
    ],
)
def test_failures_on_a_text_are_typed(changes: dict[str, Any], base: dict[str, Any], text: str, tmp_path: Path) -> None:
    tokenizer = Tokenizer.load(write(tmp_path, changes, base))
    with pytest.raises(InputError, match="the tokenizer fails on a text: "), bounded():
        tokenizer.encode(text)


def test_the_command_ends_with_2(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("a" * 40 + "b\n")
    folder = write(tmp_path / "tokenizer", {"pre_tokenizer": BACKTRACKING})
    arguments = ("prepare", str(tmp_path / "text.txt"), "--tokenizer", str(folder), "--out", str(tmp_path / "corpus"))
    done = run_spanlab(*arguments, "--documents", "line", "--workers", "1")
    assert done.returncode == 2
    assert "the tokenizer fails on a text" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_ids_in_other_files(tmp_path: Path) -> None:
    (tmp_path / "vocab.json").write_text(json.dumps({"a": 0, "b": 2**31}))
    (tmp_path / "merges.txt").write_text("#version: 0.2\n")
    with pytest.raises(InputError, match="has id 2,147,483,648"), bounded():
        Tokenizer.load(tmp_path)


@pytest.mark.parametrize(
    "content", [{"do_lower_case": "x"}, {"unk_token": 5}, {"strip_accents": []}, {"pad_token": {}}]
)
def test_settings_of_other_types(content: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nAb\ncd\n")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(content))
    try:
        Tokenizer.load(tmp_path)
    except InputError:
        return
