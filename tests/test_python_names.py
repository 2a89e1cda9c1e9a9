"""The names at the top of the package: each is there, documented on the page, and does what its command does."""

import json
import re
import subprocess
import sys
from pathlib import Path

import spanlab
from tests.pretraining.making import make_tokenizer, write_text

PAGE = Path(__file__).resolve().parents[1] / "docs" / "how-to" / "python.md"


def test_every_name_is_there_and_on_the_page() -> None:
    named = set(re.findall(r"`spanlab\.(\w+)", PAGE.read_text(encoding="utf-8")))
    assert set(spanlab.__all__) - {"__version__"} <= named
    assert all(callable(getattr(spanlab, name)) for name in spanlab.__all__ if name != "__version__")


def test_compare_can_be_called_before_and_after_its_modules_are_imported() -> None:
    code = """
import spanlab
first = spanlab.compare
import spanlab.compare.run
assert callable(first) and callable(spanlab.compare)
from spanlab.compare.run import run_study
try:
    spanlab.compare("one", models=True, out="nowhere")
except spanlab.compare.__class__.__mro__[-1] and ValueError as error:
    assert "nothing to compare" in str(error) or "no test set" in str(error), error
else:
    raise AssertionError
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr


def test_prepare_does_what_its_command_does(tmp_path: Path) -> None:
    text = write_text(tmp_path / "text.txt")
    make_tokenizer(text).save(tmp_path / "tokenizer")
    corpus = spanlab.prepare(text, tokenizer=tmp_path / "tokenizer", out=tmp_path / "a", documents="blank-line")
    again = spanlab.prepare(
        [text], tokenizer=spanlab.Tokenizer.load(tmp_path / "tokenizer"), out=tmp_path / "b", documents="blank-line"
    )
    assert corpus.manifest.counts == again.manifest.counts
    assert corpus.manifest.counts.tokens > 1000


def test_score_does_what_its_command_does(tmp_path: Path) -> None:
    rows = [{"id": str(index), "text": "a", "label": label} for index, label in enumerate("xyxy")]
    wrong = [{**row, "label": "x"} for row in rows]
    for name, content in (("gold", rows), ("theirs", wrong)):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in content))
    scores = spanlab.score("classification", tmp_path / "gold.jsonl", tmp_path / "theirs.jsonl")
    assert scores.metrics["accuracy"] == 50.0
