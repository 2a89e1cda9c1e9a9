"""What works without torch, and without waiting for it: in processes that cannot import torch."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from spanlab.tasks.spans.labelled import are_nested, read_spans
from spanlab.tasks.table import TASKS

SLOW = ("torch", "transformers", "ray", "scipy.stats")
"""Modules whose import takes most of a second or more."""
_BLOCK = f"""
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if any(name == slow or name.startswith(slow + ".") for slow in {SLOW}):
            raise ModuleNotFoundError(f"No module named '{{name}}'", name=name)

sys.meta_path.insert(0, Blocker())
"""
_TORCH_FREE = [
    *(f"spanlab.{name}" for name in ("metrics", "text", "corpus", "samples", "models", "arrays", "machine", "config")),
    *(f"spanlab.metrics.{name}" for name in ("confidence", "coref", "entities", "generation", "similarity", "squad")),
    *(f"spanlab.tasks.{name}" for name in ("table", "scoring", "checking", "outputs", "batching", "windows", "card")),
    "spanlab.tasks.formats.reading",
    "spanlab.decoding.config",
    "spanlab.inference.finite_results",
    "spanlab.inference.writers",
    *(f"spanlab.inference.{name}" for name in ("load", "predictor", "output_file", "onnx_folder", "onnx_predictor")),
    *(f"spanlab.tasks.{name}" for name in ("fitted", "host_head")),
    "spanlab.finetuning.config",
    "spanlab.finetuning.defaults",
]


def without_torch(code: str, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Python code in a process that cannot import torch and what else is slow."""
    command = [sys.executable, "-c", _BLOCK + code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, cwd=cwd)


def run_without_torch(commands: Sequence[Sequence[str]], cwd: Path) -> str:
    """Commands of `spanlab`, one after the other in one such process; their output."""
    code = """
from spanlab.cli.main import main

for command in json.loads(sys.argv[1]):
    sys.argv = ["spanlab", *command]
    try:
        main()
    except SystemExit as ending:
        assert not ending.code, (command, ending.code)
"""
    done = without_torch("import json" + code, json.dumps(commands), cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_tasks_metrics_formats_and_results_import_without_torch() -> None:
    done = without_torch("".join(f"import {module}\n" for module in _TORCH_FREE))
    assert done.returncode == 0, done.stderr


def test_the_blocker_blocks() -> None:
    assert "No module named 'torch" in without_torch("import spanlab.tasks.head").stderr


def test_files_of_every_task_are_made_checked_and_scored_without_torch(tmp_path: Path) -> None:
    run_without_torch([["init", task, task] for task in TASKS], tmp_path)
    counts = {task: _keep_dev(task, tmp_path / task) for task in TASKS}
    checks = [["data", "check", task, f"{task}/gold.jsonl"] for task in TASKS]
    scores = [
        ["score", task, "--gold", f"{task}/gold.jsonl", "--predicted", f"{task}/predicted.jsonl", "--json"]
        for task in TASKS
    ]
    run_without_torch(checks, tmp_path)
    scored = [json.loads(line) for line in run_without_torch(scores, tmp_path).splitlines()]
    assert {score["task"]: score["count"] for score in scored} == counts


def _keep_dev(task: str, folder: Path) -> int:
    """Write some rows of dev as gold and as predicted; how many."""
    rows = [json.loads(line) for line in (folder / "dev.jsonl").read_text(encoding="utf-8").splitlines()]
    rows = [row for row in rows if task != "ner" or not are_nested(read_spans(row["spans"]))]
    _write(folder / "gold.jsonl", rows)
    _write(folder / "predicted.jsonl", [_as_prediction(task, row) for row in rows])
    return len(rows)


def _write(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def _as_prediction(task: str, row: dict[str, Any]) -> dict[str, Any]:
    """A labelled row as the result of a system that is always right, where that is another format."""
    if task == "qa":
        answers = row["answers"]
        return {"answer": answers[0]["text"] if answers else "", "no_answer": not answers}
    if task == "summarisation":
        return {"summary": row.get("summary") or " ".join(row["sentences"][:1])}
    return {"text": row["target"]} if task == "generation" else row


def test_commands_that_read_and_write_text_need_no_torch(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("A sentence about the sea.\n\nAnother about a ship.\n" * 50, encoding="utf-8")
    run_without_torch(
        [
            ["models"],
            ["almanac", "export", "ner", "--out", "almanac"],
            ["tokenizer", "train", "text.txt", "--type", "wordpiece", "--vocab-size", "60", "--out", "tokenizer"],
            ["prepare", "text.txt", "--tokenizer", "tokenizer", "--out", "corpus"],
        ],
        tmp_path,
    )
