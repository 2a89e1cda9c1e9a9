"""Train the tasks of the reader, each as a head and adapters on the same frozen MiniLM.

    python -m reader_training.train --data DIR --out DIR [--only qa,coref] [--threads 1]

Each task is one run of `spanlab finetune --add`, in OUT/TASK, from files in OUT/data/TASK. A run that was stopped is
resumed; one that is finished is left alone.
"""

import argparse
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from reader_training import qa_data, span_data, text_data
from spanlab.training.run_folder import RunFolder

BASE = "minilm"


@dataclass(frozen=True, kw_only=True)
class ReaderTask:
    """How a task of the reader is trained and tested."""

    task: str
    """The task of `spanlab finetune`."""
    write_files: Callable[[Path, Path], None]
    """Writes the labelled files: from the folder of data sets, to a folder."""
    settings: tuple[str, ...]
    """KEY=VALUE."""
    dev: str = "dev.jsonl"
    tests: tuple[str, ...]
    """Labelled files that are neither trained on nor used to choose a model or a threshold."""


TASKS = {
    "qa": ReaderTask(
        task="qa",
        write_files=partial(qa_data.write_qa_files, questions=70_000),
        settings=("tuning.lora=32", "tuning.lora_alpha=32", "training.lr=1e-3", "training.batch_size=16",
                  "training.epochs=1", "training.eval_every=1000", "training.save_every=500"),
        tests=("squad1_test.jsonl", "squad2_test.jsonl", "almanac_test.jsonl"),
    ),
    "entities": ReaderTask(
        task="ner",
        write_files=span_data.write_entity_files,
        settings=("head=span", "data.bad_rows=drop", "tuning.lora=16", "training.lr=1e-3",
                  "training.lr_factors.heads=1", "training.batch_size=16", "training.epochs=6",
                  "training.eval_every=230"),
        tests=("almanac_test.jsonl", "conll2003_test.jsonl"),
    ),
    "coref": ReaderTask(
        task="coref",
        write_files=text_data.write_coref_files,
        settings=("coref=small", "layers.rounds=0", "tuning.lora=32", "tuning.lora_alpha=32", "training.lr=5e-4",
                  "training.lr_factors.heads=2.5", "training.ema=0.99", "training.steps=2400",
                  "training.eval_every=400"),
        dev="dev.conll",
        tests=("litbank_test.conll",),
    ),
    "relations": ReaderTask(
        task="relation",
        write_files=span_data.write_relation_files,
        settings=("head=joint", "tuning.lora=16", "training.lr=1e-3", "training.lr_factors.heads=4",
                  "training.batch_size=8", "training.epochs=14", "training.eval_every=220"),
        tests=("almanac_test.jsonl",),
    ),
    "summary": ReaderTask(
        task="summarisation",
        write_files=text_data.write_summary_files,
        settings=("limit=1", "tuning.lora=8", "tuning.lora_alpha=8", "training.lr=5e-4",
                  "training.lr_factors.heads=2", "training.batch_size=16", "training.epochs=2",
                  "training.eval_every=100", "inter_layers=1"),
        tests=("almanac_test.jsonl", "scitldr_test.jsonl"),
    ),
    "sentiment": ReaderTask(
        task="classification",
        write_files=text_data.write_sentiment_files,
        settings=("pooling=mean", "tuning.lora=8", "tuning.lora_alpha=8", "training.lr=1e-3",
                  "training.batch_size=32", "training.epochs=1", "training.eval_every=500"),
        tests=("sst2_test.jsonl",),
    ),
    "topic": ReaderTask(
        task="classification",
        write_files=text_data.write_topic_files,
        settings=("pooling=mean", "tuning.lora=4", "tuning.lora_alpha=4", "training.lr=1e-3",
                  "training.lr_factors.heads=5", "training.batch_size=8", "training.epochs=12",
                  "training.eval_every=40"),
        tests=("almanac_test.jsonl",),
    ),
}  # fmt: skip
"""By the name in the reader."""


def train(name: str, *, data: Path, out: Path, threads: int) -> None:
    """Run, or resume, the training of one task; raises if it fails."""
    task, files, run = TASKS[name], out / "data" / name, out / name
    folder = RunFolder(run)
    if (run / "config.yaml").is_file():
        if folder.read_status().finished:
            return
        arguments = ["--resume"]
    else:
        task.write_files(data, files)
        arguments = [task.task, "--model", BASE, "--add", f"name={name}", *task.settings, f"training.threads={threads}"]
        arguments += ["--train", str(files / "train.jsonl"), "--dev", str(files / task.dev)]
    subprocess.run([sys.executable, "-m", "spanlab", "finetune", *arguments, "--out", str(run)], check=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the data sets")
    parser.add_argument("--out", type=Path, required=True, help="folder of the runs")
    parser.add_argument("--only", default=",".join(TASKS), help="tasks, separated by commas")
    parser.add_argument("--threads", type=int, default=0, help="threads of each run; 0: those of the machine")
    options = parser.parse_args(arguments)
    for name in options.only.split(","):
        train(name, data=options.data, out=options.out, threads=options.threads)


if __name__ == "__main__":
    main()
