"""Questions without an answer: half of SQuAD 2.0's dev set split by article into training, tuning and test.

    python -m benchmarks.no_answer [--epochs 2] [--threads 2] [--train N] [--answerable 2000]

The real MiniLM is trained on three fifths of the articles, together with questions of SQuAD 1.1, which all have an
answer: the articles alone are too few to learn answering from. The threshold of no answer is tuned on one fifth and
used on the last, which neither training nor tuning has seen. For comparison: the score of never answering, which is
the share of questions that have no answer, and the score of always answering.
"""

import argparse
import json
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from benchmarks.finetune import data_folder, minilm, read_squad
from benchmarks.measure import circumstances, print_result
from spanlab.inference.load import load_torch
from spanlab.inference.torch_predictor import TorchPredictor
from spanlab.tasks.model import TaskModel
from spanlab.tasks.qa.task import THRESHOLD, QuestionAnswering
from spanlab.workflows.finetune import finetune


def write_parts(folder: Path, most: int | None, answerable: int) -> dict[str, Path]:
    """The articles, in the order of their titles, split into three files; more questions for training."""
    document = json.loads((data_folder() / "qa/squad2_half_dev.json").read_text(encoding="utf-8"))
    articles = sorted(document["data"], key=lambda article: str(article["title"]))
    parts: dict[str, list[Any]] = {"train": [], "tune": [], "test": []}
    for number, article in enumerate(articles):
        parts[("train", "train", "train", "tune", "test")[number % 5]].append(article)
    files = {name: folder / f"{name}.jsonl" for name in parts}
    for name, path in files.items():
        rows = [row for article in parts[name] for row in questions(article)]
        chosen = rows[:most] + more_questions(answerable) if name == "train" else rows
        path.write_text("".join(json.dumps(row) + "\n" for row in chosen), encoding="utf-8")
    return files


def questions(article: dict[str, Any]) -> list[dict[str, Any]]:
    """The questions of an article as rows."""
    return [
        {
            "id": one["id"],
            "question": one["question"],
            "context": paragraph["context"],
            "answers": [{"text": each["text"], "start": each["answer_start"]} for each in one["answers"]],
        }
        for paragraph in article["paragraphs"]
        for one in paragraph["qas"]
    ]


def more_questions(count: int) -> list[dict[str, Any]]:
    """Questions of SQuAD 1.1, taken evenly from all its articles."""
    rows = list(read_squad(data_folder() / "qa/squad1_train.json.xz"))
    return rows[:: len(rows) // count][:count] if count else []


def always_answering(model: TorchPredictor, path: Path) -> float:
    """F1 of the same model without a threshold."""
    (name,) = model.tasks
    task = model.model.tasks[name]
    bold = QuestionAnswering(task.config, replace(task.fitted, thresholds={}))
    loud: TaskModel = replace(model.model, tasks={name: bold})
    return TorchPredictor(loud, model.process).evaluate(str(path)).metrics["f1"]


def never_answering(rows: Sequence[dict[str, Any]]) -> float:
    """F1 of saying nothing."""
    return 100 * sum(not row["answers"] for row in rows) / len(rows)


def main() -> None:
    """Measure and print; the last line is the result for scripts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=float, default=2.0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--train", type=int, help="at most so many questions of the articles")
    parser.add_argument("--answerable", type=int, default=2000, help="questions of SQuAD 1.1")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    about = circumstances()
    with tempfile.TemporaryDirectory() as folder:
        files = write_parts(Path(folder), options.train, options.answerable)
        training = {"lr": 2e-4, "epochs": options.epochs, "eval_every": 10**9, "threads": options.threads}
        run = Path(folder) / "run"
        finetune(
            "qa",
            model=minilm(),
            train=files["train"],
            dev=files["tune"],
            out=run,
            training=training,
            data={"length": 384, "batch_tokens": 4096},
            on_record=lambda record: print(record.to_dict(), flush=True) if record.split == "dev" else None,
        )
        model = load_torch(run)
        rows = [json.loads(line) for line in files["test"].read_text(encoding="utf-8").splitlines()]
        metrics = model.evaluate(str(files["test"])).metrics
        result = {
            "threshold": round(model.model.tasks["qa"].fitted.thresholds[THRESHOLD], 4),
            **{name: round(value, 2) for name, value in metrics.items()},
            "always_answering_f1": round(always_answering(model, files["test"]), 2),
            "never_answering_f1": round(never_answering(rows), 2),
            "questions": len(rows),
        }
    print_result({**result, **about})


if __name__ == "__main__":
    main()
