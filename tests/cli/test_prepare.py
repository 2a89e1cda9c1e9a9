import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from spanlab.cli.inspect_corpus import corpus
from spanlab.cli.prepare import prepare
from spanlab.errors import SpanlabError
from tests.corpus.making import folder_digest, letters_tokenizer

app = typer.Typer(pretty_exceptions_enable=False)
app.command("prepare")(prepare)
app.command("corpus")(corpus)


def run(*arguments: object, stdin: str | None = None) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin)


def failure(*arguments: object) -> str:
    result = run(*arguments)
    assert isinstance(result.exception, SpanlabError), result.output
    return str(result.exception)


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    letters_tokenizer().save(tmp_path / "tokenizer")
    return tmp_path / "tokenizer"


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("The first one is short.\nThe second is not so short.\n\nAnother document here.\nIt ends.\n\n" * 2)
    return path


def test_text_is_prepared_and_inspected(tmp_path: Path, tokenizer: Path, text: Path) -> None:
    result = run("prepare", text, "--tokenizer", tokenizer, "--out", tmp_path / "out", "--workers", 1)
    assert result.exit_code == 0
    assert (
        "documents: blank-line (detected: blank lines separate documents; change it with --documents)" in result.stderr
    )
    assert "lines: sentences (detected: each line is a sentence; change it with --lines)" in result.stderr
    assert "duplicate documents left out" in result.stdout
    shown = run("corpus", tmp_path / "out", "--verify", "--samples", 2, "--length", 64)
    assert shown.exit_code == 0
    assert "verified: every file is as it was written" in shown.stderr
    for part in ("in 1 shard", "sentence lengths in tokens", "document lengths in tokens", "‖ i·t e·n·d·s ."):
        assert part in shown.stdout


def test_results_as_json(tmp_path: Path, tokenizer: Path, text: Path) -> None:
    made = run("prepare", text, "--tokenizer", tokenizer, "--out", tmp_path / "out", "--workers", 1, "--json")
    counts = json.loads(made.stdout)["counts"]
    assert (counts["documents"], counts["duplicates"], counts["sentences"]) == (2, 2, 4)
    figures = json.loads(run("corpus", tmp_path / "out", "--json").stdout)
    assert figures["counts"] == counts
    assert figures["verified"] is None
    assert figures["unknown_rate"] == figures["unknown"] / counts["tokens"] == 0
    assert figures["bytes_per_token"] == pytest.approx(counts["bytes"] / counts["tokens"], rel=1e-5)
    for name, total in (("sentence_lengths", 4), ("document_lengths", 2)):
        assert sum(count for _, _, count in figures[name]["histogram"]) == total
    assert figures["sentence_lengths"]["longest"] == len("Thesecondisnotsoshort.")


def test_standard_input(tmp_path: Path, tokenizer: Path) -> None:
    arguments = ("--tokenizer", tokenizer, "--out", tmp_path / "out", "--workers", 1, "--documents", "line", "--json")
    result = run("prepare", "-", *arguments, stdin="one\ntwo\nthree\n")
    assert json.loads(result.stdout)["counts"]["documents"] == 3


def test_the_number_of_workers_changes_nothing(tmp_path: Path, tokenizer: Path, text: Path) -> None:
    for workers in (1, 2):
        out = tmp_path / f"out{workers}"
        assert run("prepare", text, "--tokenizer", tokenizer, "--out", out, "--workers", workers).exit_code == 0
    assert folder_digest(tmp_path / "out1") == folder_digest(tmp_path / "out2")


def test_damage_is_named(tmp_path: Path, tokenizer: Path, text: Path) -> None:
    out = tmp_path / "out"
    run("prepare", text, "--tokenizer", tokenizer, "--out", out, "--workers", 1)
    shard = out / "shard-00000.bin"
    content = bytearray(shard.read_bytes())
    content[4] ^= 1  # another id of the vocabulary
    shard.write_bytes(content)
    assert run("corpus", out).exit_code == 0  # only reading everything finds it
    assert f"{shard}: its bytes changed: sha256" in failure("corpus", out, "--verify")
    result = run("corpus", out, "--verify", "--json")
    assert json.loads(result.stdout)["damage"][0]["file"] == "shard-00000.bin"
    shard.write_bytes(content[:-3])
    assert f"{shard}: the shard has {len(content) - 3} bytes" in failure("corpus", out)


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        (b"", (), "text.txt: nothing to read, the input is empty"),
        (b" \n\t\n", (), "text.txt: no document to prepare"),
        (b"abc\n", ("--min-tokens", 50), "text.txt: no document to prepare (1 had fewer than 50 tokens)"),
        (b"good\nb\xe9d\n", (), "text.txt:2: byte 6 (0xe9) is not UTF-8 text; convert the file to UTF-8"),
        (b"abc\n", ("--documents", "file", "missing.txt"), "missing.txt: no such file or folder"),
    ],
)
def test_bad_input_is_told_and_leaves_no_corpus(
    tmp_path: Path, tokenizer: Path, content: bytes, arguments: tuple[object, ...], message: str
) -> None:
    (tmp_path / "text.txt").write_bytes(content)
    options = ("--tokenizer", tokenizer, "--out", tmp_path / "out", "--workers", 1)
    assert message in failure("prepare", tmp_path / "text.txt", *options, *arguments)
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_wrong_bytes_can_be_replaced(tmp_path: Path, tokenizer: Path) -> None:
    (tmp_path / "text.txt").write_bytes(b"good\nb\xe9d\n")
    options = ("--tokenizer", tokenizer, "--out", tmp_path / "out", "--workers", 1, "--errors", "replace")
    result = run("prepare", tmp_path / "text.txt", *options)
    assert result.exit_code == 0
    assert "invalid byte sequences replaced" in result.stdout


def test_wrong_choices_are_usage_errors(tmp_path: Path, tokenizer: Path, text: Path) -> None:
    for wrong in (("--documents", "page"), ("--engine", "slurm"), ("--workers", 0), ("--min-tokens", "few")):
        assert run("prepare", text, "--tokenizer", tokenizer, "--out", tmp_path / "out", *wrong).exit_code == 2
    assert not (tmp_path / "out").exists()


def test_the_commands_start_without_heavy_modules() -> None:
    import subprocess
    import sys

    code = (
        "import sys, spanlab.cli.prepare, spanlab.cli.inspect_corpus; print({'numpy', 'tokenizers'} & set(sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
