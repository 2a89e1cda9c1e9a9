"""The scripts in examples/ run, and do what they say."""

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def test_span_objective_learns_on_a_transformers_model() -> None:
    pytest.importorskip("transformers")
    first, last = runpy.run_path(str(EXAMPLES / "span_objective.py"))["main"](steps=20)
    assert last < 0.8 * first


def test_own_text_goes_from_a_file_to_masks(tmp_path: Path) -> None:
    text = tmp_path / "mine.txt"
    text.write_text((EXAMPLES.parent / "CONTRIBUTING.md").read_text() * 20)
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    command = bin_folder / "spanlab"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m spanlab.cli.main "$@"\n')
    command.chmod(0o755)
    done = subprocess.run(
        [str(EXAMPLES / "own_text.sh"), str(text), str(tmp_path / "out")],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, "PATH": f"{bin_folder}:{os.environ['PATH']}"},
    )
    assert done.returncode == 0, done.stderr
    assert "share of text masked" in done.stdout
    assert (tmp_path / "out" / "masks.html").is_file()


def test_first_steps_finds_the_sentence_that_fits(minilm: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "first_steps.py")], capture_output=True, text=True, check=True, timeout=120
    )
    ranked = [line.split(maxsplit=1)[1] for line in done.stdout.splitlines() if line.startswith("   ")]
    assert ranked[0] == "A span is marked by the two words at its edges."
