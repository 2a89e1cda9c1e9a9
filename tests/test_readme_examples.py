"""The README's sentences and its question: the commands as they stand there, with small files and with real ones."""

import gzip
import io
import json
import lzma
import shlex
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from spanlab.encoder import TransformerEncoder, preset
from spanlab.text import Tokenizer
from tests.cli.run import run_here

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
GREAT, TERRIBLE = "This movie is great!", "The acting is terrible."
QUESTION, CONTEXT = "谁发明了电话？", "亚历山大·贝尔是一位著名的发明家，他发明了电话。"
SMALL = (
    "training.batch_size=8",
    "training.lr=3e-3",
    "training.precision=fp32",
    "training.threads=1",
    "training.eval_every=1000",
)


def commands(word: str) -> list[str]:
    """The lines of the README that fine-tune to or predict with a run of this name."""
    named = (f"--out {word}", f"spanlab predict {word}")
    return [line.strip() for line in README.splitlines() if any(name in line for name in named)]


def run_readme(line: str, replaced: dict[str, str], *settings: str) -> str:
    """A line of the README with its places filled in: `echo … | spanlab …` or `spanlab …`; what it prints."""
    told, _, command = line.rpartition(" | ")
    arguments = [replaced.get(word, word) for word in shlex.split(command)[1:]]
    stdin = io.TextIOWrapper(io.BytesIO("".join(shlex.split(told)[1:]).encode()))
    with mock.patch.object(sys, "stdin", stdin):
        done = run_here(*arguments, *settings)
    assert done.returncode == 0, done.stderr
    return done.stdout


def classify(model: Path, data: Path, out: Path, *settings: str) -> list[str]:
    """The labels of the README's two sentences."""
    train, *asked = commands("sentiment")
    files = {f"SST-2/{name}.tsv": str(data / f"{name}.tsv") for name in ("train", "dev")}
    replaced = {"MODEL": str(model), "sentiment": str(out), **files}
    run_readme(train, replaced, *settings)
    return [run_readme(line, replaced).split("\t")[1] for line in asked]


def answer(model: Path, data: Path, out: Path, *settings: str) -> dict[str, Any]:
    """The result of the README's question."""
    train, asked = commands("answers")
    replaced = {"MODEL": str(model), "answers": str(out), "cmrc2018_trial_zh.json": str(data)}
    run_readme(train, replaced, *settings)
    result: dict[str, Any] = json.loads(run_readme(asked, replaced))
    return result


def is_marked_rightly(found: dict[str, Any]) -> bool:
    """Whether every answer given is the characters it points at."""
    given = [one for one in (found, *found["nbest"]) if one["start"] is not None]
    return bool(given) and all(one["answer"] == CONTEXT[one["start"] : one["end"]] for one in given)


def test_the_readme_has_these_texts() -> None:
    sentiment, answers = "\n".join(commands("sentiment")), "\n".join(commands("answers"))
    assert GREAT in sentiment
    assert TERRIBLE in sentiment
    assert json.dumps({"question": QUESTION, "context": CONTEXT}, ensure_ascii=False) in answers


def test_two_sentences_with_a_tiny_model(tiny_model: Path, tmp_path: Path) -> None:
    films = ["The play", "This story", "The end of it", "The music", "My seat", "The first act"]
    rows = [f"{film} was {word}\t{label}" for film in films for word, label in (("great !", 1), ("terrible .", 0))]
    for name in ("train", "dev"):
        (tmp_path / f"{name}.tsv").write_text("sentence\tlabel\n" + "\n".join(rows) + "\n")
    labels = classify(tiny_model, tmp_path, tmp_path / "run", *SMALL, "training.epochs=15")
    assert labels == ["label=1", "label=0"]


def test_the_question_with_a_tiny_model(tiny_model: Path, tmp_path: Path) -> None:
    context = "爱迪生在一八七九年改良了电灯。"
    asked = {"id": "1", "question": "谁改良了电灯？", "answers": [{"text": "爱迪生", "answer_start": 0}]}
    wrong = {"id": "2", "question": "什么时候？", "answers": [{"text": "一九零零年", "answer_start": 4}]}
    document = {"data": [{"paragraphs": [{"context": context, "qas": [asked, wrong]}]}]}
    (tmp_path / "train.json").write_text(json.dumps(document, ensure_ascii=False), encoding="utf-8")
    found = answer(tiny_model, tmp_path / "train.json", tmp_path / "run", *SMALL, "training.epochs=3")
    assert is_marked_rightly(found)


@pytest.mark.slow
def test_two_sentences_by_a_model_trained_on_sst2(minilm: Path, real_data: Path, tmp_path: Path) -> None:
    folder = real_data / "classification" / "SST-2"
    for name, count in (("train", 10_001), ("dev", 201)):
        lines = (folder / f"{name}.tsv").read_text(encoding="utf-8").splitlines(keepends=True)
        (tmp_path / f"{name}.tsv").write_text("".join(lines[:count]), encoding="utf-8")
    settings = ("training.epochs=1", "training.lr=1e-4", "training.threads=1", "training.eval_every=1000000")
    assert classify(minilm, tmp_path, tmp_path / "run", *settings) == ["label=1", "label=0"]


@pytest.mark.slow
def test_the_question_by_a_model_trained_on_cmrc(real_data: Path, tmp_path: Path) -> None:
    tokenizer = Tokenizer.load(real_data / "tokenizers" / "bert-base-chinese")
    TransformerEncoder(preset("spanbert", "tiny", vocab_size=tokenizer.vocab_size)).save_pretrained(
        tmp_path / "encoder"
    )
    tokenizer.save(tmp_path / "encoder")
    data = real_data / "qa" / "cmrc2018_trial_zh.json"
    assert is_marked_rightly(answer(tmp_path / "encoder", data, tmp_path / "run", *SMALL, "training.steps=30"))


NOVELS = "novels"


def contents(path: Path) -> Iterator[bytes]:
    """A file as it is, unpacked."""
    if path.name.endswith(".tar.xz"):
        with tarfile.open(path) as archive:
            for member in archive:
                file = archive.extractfile(member) if member.isfile() else None
                if file is not None:
                    yield file.read()
    else:
        opener: Any = {".xz": lzma.open, ".gz": gzip.open}.get(path.suffix, open)
        with opener(path, "rb") as file:
            yield file.read()


@pytest.mark.parametrize("novels", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_no_file_holds_what_is_asked(novels: bool, real_data: Path) -> None:
    """Whatever the case and the spaces; a text of JSON may be written with escapes."""
    wanted = [bare(text.encode()) for text in (GREAT, TERRIBLE, QUESTION, CONTEXT)]
    wanted += [bare(json.dumps(text).strip('"').encode()) for text in (QUESTION, CONTEXT)]
    paths = [path for path in real_data.rglob("*") if path.is_file() and (NOVELS in path.parts) == novels]
    assert len(paths) > (0 if novels else 20)
    for path in paths:
        for content in map(bare, contents(path)):
            assert not any(text in content for text in wanted), path


def bare(content: bytes) -> bytes:
    return content.lower().translate(None, b" \t\r\n")
