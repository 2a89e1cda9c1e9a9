"""Commands whose disk is full: one line that names the file and the way on, nothing half-written, and a second try."""

from pathlib import Path

import pytest

from tests.breaking import file_size_limit
from tests.cli.run import run_here

LABELLED = '{"text": "good", "label": "yes"}\n{"text": "bad", "label": "no"}\n' * 20


def arguments(command: str, folder: Path, model: Path) -> list[str]:
    """A command that writes `out` in the folder, or files in it."""
    (folder / "labelled.jsonl").write_text(LABELLED)
    (folder / "text.txt").write_text("the quick brown fox jumps over the lazy dog\n" * 50)
    out = str(folder / "out")
    return {
        "tokenizer": [
            *("tokenizer", "train", str(folder / "text.txt"), "--type", "wordpiece", "--lowercase"),
            *("--vocab-size", "60", "--out", out),
        ],
        "fix": ["data", "check", "classification", str(folder / "labelled.jsonl"), "--fix", out],
        "init": ["init", "ner", out],
        "init-multitask": ["init", "multitask", out],
        "almanac-export": ["almanac", "export", "qa", "--out", out],
        "almanac-page": ["almanac", "show", "--html", out],
        "convert": ["convert", str(model), "--out", out],
        "attention": ["inspect", "attention", str(model), "a short text", "--html", out],
    }[command]


COMMANDS = ("tokenizer", "fix", "init", "init-multitask", "almanac-export", "almanac-page", "convert", "attention")


@pytest.mark.parametrize("limit", [0, 700, 3000])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_full_disk_leaves_nothing_and_the_command_can_be_repeated(
    command: str, limit: int, tmp_path: Path, tiny_model: Path
) -> None:
    line = arguments(command, tmp_path, tiny_model)
    before = sorted(tmp_path.rglob("*"))
    with file_size_limit(limit):
        result = run_here(*line)
    if result.returncode == 0:
        assert limit > 700, "a limit that no command should meet"
        return
    message = result.stderr.splitlines()[-1]
    assert result.returncode == 2, result.stderr
    assert message.startswith(f"spanlab: {tmp_path / 'out'}"), message
    assert message.endswith("free some space and run the command again"), message
    assert ".partial" not in message
    assert ".unfinished" not in message
    assert sorted(tmp_path.rglob("*")) == before
    again = run_here(*line)
    assert "exists" not in again.stderr
    assert (tmp_path / "out").exists()
