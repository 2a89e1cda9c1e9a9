"""`spanlab init translation`, the commands that it prints, and `spanlab new`."""

import json
import shlex
from pathlib import Path

import pytest
import torch

from spanlab.encoder import Encoder, load_model
from spanlab.text import Tokenizer
from tests.cli.run import run_here

SHORT = ("training.steps=2", "training.batch_size=2", "training.precision=fp32", "training.threads=1")
NAMES = ["tokenizer", "new", "finetune", "evaluate", "predict"]


def test_the_printed_commands_run(tmp_path: Path) -> None:
    folder = tmp_path / "the start"
    done = run_here("init", "translation", str(folder))
    assert done.returncode == 0, done.stderr
    assert "MODEL is" not in done.stdout
    commands = [shlex.split(line)[1:] for line in done.stdout.splitlines() if line.startswith("  spanlab ")]
    assert [command[0] for command in commands] == NAMES
    for split in ("dev", "test"):
        for suffix in ("en", "de"):  # searched after two steps, targets are as long as they may be
            file = folder / f"{split}.{suffix}"
            file.write_text("".join(file.read_text(encoding="utf-8").splitlines(keepends=True)[:2]), encoding="utf-8")
    for command in commands:
        done = run_here(*command, *(SHORT if command[0] == "finetune" else ("--json",)))
        assert done.returncode == 0, done.stderr
        if command[0] == "evaluate":
            result = json.loads(done.stdout)
            assert result["count"] == 2
            assert {"bleu", "chrf"} < result["metrics"].keys()
    assert len(done.stdout.splitlines()) == 2
    assert (folder / "config.yaml").read_text(encoding="utf-8").startswith("# spanlab finetune generation")
    refused = run_here("init", "translation", str(tmp_path / "other"), "--language", "zh")
    assert refused.returncode == 2
    assert "the sample pairs are English and German; leave --language out" in refused.stderr


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory, tiny_model: Path) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer")
    Tokenizer.load(tiny_model).save(folder)
    return folder


def test_new_writes_the_shape_of_a_recipe(tokenizer: Path, tmp_path: Path) -> None:
    def new(name: str, *settings: str) -> Encoder:
        done = run_here("new", "transformer", "--tokenizer", str(tokenizer), "--out", str(tmp_path / name), *settings)
        assert done.returncode == 0, done.stderr
        return load_model(tmp_path / name).encoder

    small = ("size=tiny", "encoder.layers=3", "data.length=64")
    first, again, other = new("first", *small), new("again", *small), new("other", *small, "seed=1")
    assert (first.config.layers, first.config.width, first.config.positions) == (3, 128, "sinusoidal")
    assert first.config.max_positions == 64
    words = Tokenizer.load(tmp_path / "first")
    assert words.fingerprint == Tokenizer.load(tokenizer).fingerprint
    assert first.config.vocab_size == words.vocab_size
    torch.testing.assert_close(first.word_table, again.word_table, rtol=0, atol=0)
    assert not torch.allclose(first.word_table, other.word_table)


def test_what_new_refuses(tokenizer: Path, tmp_path: Path) -> None:
    def error(recipe: str, *options: str) -> str:
        done = run_here("new", recipe, *options)
        assert done.returncode == 2
        return done.stderr

    there = ("--tokenizer", str(tokenizer))
    out = ("--out", str(tmp_path / "new"))
    assert "did you mean 'transformer'?" in error("transformr", *there, *out)
    assert "nowhere" in error("transformer", "--tokenizer", str(tmp_path / "nowhere"), *out)
    assert "unknown key 'layrs'" in error("transformer", "encoder.layrs=2", *there, *out)
    assert not (tmp_path / "new").exists()
    assert "not empty" in error("transformer", *there, "--out", str(tokenizer))
