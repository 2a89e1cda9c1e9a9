"""Extractive summaries of SciTLDR's abstracts: the real MiniLM against the first sentence and the best one, in one run.

    python -m benchmarks.summarisation [--epochs 3] [--threads 1] [--train N] [key=value …]

Every abstract has its sentences and a summary of one sentence, on dev up to four such; the labels are those of the
file. The summary is one sentence. `lead` takes the first, `oracle` the one that is best by the reference itself. The
file's dev set is halved: even lines choose the model of the run, odd lines are what it is scored on.
"""

import argparse
import tempfile
import time
from pathlib import Path

import torch

from benchmarks.finetune import data_folder, minilm
from benchmarks.measure import circumstances, print_result
from spanlab.config import merge, parse_overrides
from spanlab.inference.load import load
from spanlab.training.records import Record
from spanlab.workflows.finetune import finetune


def write_parts(folder: Path, most: int | None, most_scored: int | None = None) -> dict[str, Path]:
    """Training lines as they are, and the dev set split into two files."""
    source = data_folder() / "summarisation/scitldr"
    train = (source / "train.jsonl").read_text(encoding="utf-8").splitlines()[:most]
    dev = (source / "dev.jsonl").read_text(encoding="utf-8").splitlines()
    parts = {"train": train, "tune": dev[::2][:most_scored], "test": dev[1::2][:most_scored]}
    files = {name: folder / f"{name}.jsonl" for name in parts}
    for name, path in files.items():
        path.write_text("".join(line + "\n" for line in parts[name]), encoding="utf-8")
    return files


def show(record: Record) -> None:
    """Print the progress of the run."""
    print(record.to_dict(), flush=True)


def main() -> None:
    """Measure and print; the last line is the result for scripts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=float, default=3.0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--train", type=int, help="at most so many training abstracts")
    parser.add_argument("settings", nargs="*", help="key=value, such as sentence_vector=marker")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    about = circumstances()
    with tempfile.TemporaryDirectory() as folder:
        files, run = write_parts(Path(folder), options.train), Path(folder) / "run"
        training = {"epochs": options.epochs, "threads": options.threads, "eval_every": 62}
        settings = merge({"limit": 1, "training": training}, parse_overrides(options.settings))
        start = time.perf_counter()
        finetune(
            "summarisation",
            model=minilm(),
            train=files["train"],
            dev=files["tune"],
            out=run,
            on_record=show,
            **settings,
        )
        seconds = time.perf_counter() - start
        scores = load(run).evaluate(str(files["test"]))
    metrics = {name: round(value, 2) for name, value in scores.metrics.items()}
    print_result({**metrics, "abstracts": scores.count, "training_minutes": round(seconds / 60, 1), **about})


if __name__ == "__main__":
    main()
