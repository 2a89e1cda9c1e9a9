"""How a task is best put on MiniLM: trained as a whole, by adapters of several ranks, or by a head alone.

    python -m benchmarks.adapters [--questions 1500] [--threads 1] [--only qa,entities]

Questions of SQuAD 1.1 (500 of its dev file are the test) and entities of the almanac, one epoch and eight. For each
way: the score, the megabytes that the task adds in fp16 (the whole encoder where all of it is trained), and the seconds
of the processor that training took. One seed; learning rates are those that fine-tuning chooses by itself.
"""

import argparse
import json
import lzma
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from typing import Any

from benchmarks.finetune import data_folder
from benchmarks.measure import circumstances, print_result
from spanlab.inference.load import load
from spanlab.samples import load as load_almanac
from spanlab.samples.export import Selection, export
from spanlab.tasks.model import load_task_model

WAYS: Mapping[str, Sequence[str]] = {
    "head alone": ("--add", "name=task"),
    "LoRA 4": ("--add", "name=task", "tuning.lora=4", "tuning.lora_alpha=4"),
    "LoRA 16": ("--add", "name=task", "tuning.lora=16", "tuning.lora_alpha=16"),
    "LoRA 32": ("--add", "name=task", "tuning.lora=32", "tuning.lora_alpha=32"),
    "everything": (),
}


def write_questions(folder: Path, count: int) -> None:
    """`train.jsonl` and `test.jsonl`: questions taken evenly from all articles."""
    for part, size in (("train", count), ("dev", 500)):
        articles = json.loads(lzma.decompress((data_folder() / f"qa/squad1_{part}.json.xz").read_bytes()))["data"]
        rows = [
            {
                "question": question["question"],
                "context": paragraph["context"],
                "answers": [{"text": a["text"], "start": a["answer_start"]} for a in question["answers"]],
            }
            for article in articles
            for paragraph in article["paragraphs"]
            for question in paragraph["qas"]
        ]
        chosen = rows[:: len(rows) // size][:size]
        name = "train" if part == "train" else "test"
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in chosen), encoding="utf-8")


def measure(task: str, settings: Sequence[str], files: Path, out: Path, threads: int) -> dict[str, Any]:
    """Train one way in a process of its own, and score it."""
    way = [word for word in settings if not word.startswith("training.")]
    command = [sys.executable, "-m", "spanlab", "finetune", task, "--model", "minilm", *way]
    command += [word for word in settings if word.startswith("training.")]
    command += ["--train", str(files / "train.jsonl"), "--out", str(out), f"training.threads={threads}"]
    before, start = getrusage(RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    after = getrusage(RUSAGE_CHILDREN)
    model = load_task_model(out)
    (name,) = model.tasks
    modules = [model.heads[name], *(model.adapters[name] for _ in range(name in model.adapters))]
    modules += [] if "--add" in settings else [model.encoder]
    scores = load(out, device="cpu").evaluate(str(files / "test.jsonl")).metrics
    return {
        "f1": round(scores["f1"], 1),
        "megabytes": round(sum(weight.numel() for part in modules for weight in part.parameters()) * 2 / 1e6, 2),
        "cpu_seconds": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime),
        "seconds": round(time.perf_counter() - start),
    }


def main() -> None:
    """Measure and print; the last line is the result for scripts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=1500)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", default="qa,entities")
    options = parser.parse_args()
    about = circumstances()
    table: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for name in options.only.split(","):
            files = folder / name
            files.mkdir()
            if name == "qa":
                write_questions(files, options.questions)
                task, settings = "qa", ["training.epochs=1", "training.batch_size=16"]
            else:
                export(load_almanac(), "ner", files, Selection(language="en", format="jsonl"), overwrite=True)
                task, settings = "ner", ["head=span", "training.epochs=8", "training.batch_size=8"]
            for way, words in WAYS.items():
                result = measure(
                    task, [*words, *settings], files, folder / f"{name}-{way.replace(' ', '-')}", options.threads
                )
                table[f"{name}, {way}"] = result
                print(name, way, result, flush=True)
    print_result({"ways": table, **about})


if __name__ == "__main__":
    main()
