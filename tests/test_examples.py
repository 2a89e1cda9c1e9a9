"""The scripts in examples/ run, and do what they say."""

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


def test_first_steps_finds_the_sentence_that_fits(minilm: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "first_steps.py")], capture_output=True, text=True, check=True, timeout=120
    )
    ranked = [line.split(maxsplit=1)[1] for line in done.stdout.splitlines() if line.startswith("   ")]
    assert ranked[0] == "A span is marked by the two words at its edges."
