"""Five tasks on one encoder, compared with a model for each of them: scores, time, parameters, and a sixth task added.

    python -m benchmarks.multitask [--train N] [--dev N] [--epochs 2] [--threads 1] [--weighting uncertainty]

The encoder is the real MiniLM; the data are SST-2, STS-B, MRPC, CoNLL-2003 and SQuAD 1.1, and RTE as the task that is
added, found through SPANLAB_DATA. Both sides see the same examples for as many epochs, with the same learning rate and
batch size, and are scored on the same dev examples after their last step:

- single: a run and a model for each task;
- shared: one run over the list of tasks, whose turns come in proportion to their samples;
- added: RTE added to the five with its head alone and with adapters of its own, compared with a model for RTE alone;
  all predictions of the five tasks before and after are compared.

The time to answer is that of one text with a question, a second text and no batch: five models in turn, the shared one
task by task, and the shared one with all tasks together.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import mean
from typing import Any

import torch
import yaml

from benchmarks.finetune import data_folder, minilm, read_squad, read_task_file, write_rows
from benchmarks.measure import circumstances, in_turn, print_result
from spanlab.inference.load import load_torch
from spanlab.inference.torch_predictor import TorchPredictor
from spanlab.tasks.result import CORRELATIONS
from spanlab.training.records import Record
from spanlab.workflows.finetune import finetune

ADDED = "rte"
SQUAD_STEP = 43
"""Every so many-th question is taken, so that they are not all of a few articles."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """One task: its files and its metric."""

    task: str
    train: Callable[[Path], Iterator[dict[str, Any]]]
    dev: Callable[[Path], Iterator[dict[str, Any]]]
    metric: str
    length: int = 128
    train_count: int = 1000
    dev_count: int = 400


def in_tables(task: str, folder: str, metric: str, train_count: int = 1000) -> Subject:
    """A task whose examples are in a folder's train.tsv and dev.tsv."""

    def read(name: str, data: Path) -> Iterator[dict[str, Any]]:
        return read_task_file(task, data / folder / f"{name}.tsv")

    train, dev = partial(read, "train"), partial(read, "dev")
    return Subject(task=task, train=train, dev=dev, metric=metric, train_count=train_count)


SUBJECTS = {
    "sst2": in_tables("classification", "classification/SST-2", "accuracy", train_count=1500),
    "stsb": in_tables("similarity", "pairs/STS-B", "spearman"),
    "mrpc": in_tables("similarity", "pairs/MRPC", "accuracy"),
    "conll": Subject(
        task="ner",
        metric="f1",
        train=lambda data: read_task_file("ner", data / "ner/conll2003.train"),
        dev=lambda data: read_task_file("ner", data / "ner/conll2003.dev"),
        train_count=1500,
    ),
    "squad": Subject(
        task="qa",
        metric="f1",
        train=lambda data: islice(read_squad(data / "qa/squad1_train.json.xz"), 0, None, SQUAD_STEP),
        dev=lambda data: islice(read_squad(data / "qa/squad1_dev.json.xz"), 0, None, SQUAD_STEP // 4),
        length=256,
        train_count=600,
        dev_count=250,
    ),
    ADDED: in_tables("similarity", "pairs/RTE", "accuracy"),
}
TOGETHER = [name for name in SUBJECTS if name != ADDED]
TEXT = "Marie Curie was born in Warsaw in 1867 and later moved to Paris, where she studied physics at the Sorbonne."
INPUT = {
    "text": TEXT,
    "text_a": TEXT,
    "text_b": "Curie came to Paris to study physics.",
    "question": "Where was Marie Curie born?",
    "context": TEXT,
}


@dataclass(frozen=True, kw_only=True)
class Trained:
    """A run after its last step."""

    model: TorchPredictor
    seconds: float
    """Of the training steps."""

    @property
    def parameters(self) -> int:
        """Of the encoder, the heads and the task adapters."""
        kept = self.model.model
        modules: list[Any] = [kept.encoder, *kept.heads.values(), *kept.adapters.values()]
        return sum(weight.numel() for module in modules for weight in module.parameters())


class Bench:
    """The files of all tasks, and the runs over them."""

    def __init__(self, folder: Path, options: argparse.Namespace) -> None:
        self.folder, self.options = folder, options
        data = data_folder()
        for name, subject in SUBJECTS.items():
            (folder / name).mkdir()
            write_rows(subject.train(data), folder / name / "train.jsonl", options.train or subject.train_count)
            write_rows(subject.dev(data), folder / name / "dev.jsonl", options.dev or subject.dev_count)

    def settings(self) -> dict[str, Any]:
        """Of every run; the model of the last step is what counts, so dev is looked at afterwards."""
        options = self.options
        training = {"lr": options.lr, "batch_size": options.batch, "epochs": options.epochs}
        return {"training": {**training, "threads": options.threads, "save_every": 10**9}}

    def run(self, out: str, task: str, model: Path, train: Path, **more: Any) -> Trained:  # noqa: ANN401
        """Train and load."""
        clock = Clock()
        settings = {**self.settings(), **more}
        result = finetune(task, model=model, train=train, out=self.folder / out, on_record=clock.look, **settings)
        return Trained(model=load_torch(result.model, device="cpu"), seconds=clock.seconds)

    def single(self, name: str) -> Trained:
        """A model for one task."""
        subject = SUBJECTS[name]
        train = self.folder / name / "train.jsonl"
        return self.run(f"single-{name}", subject.task, minilm(), train, data={"length": subject.length})

    def shared(self) -> Trained:
        """One model for the tasks that are trained together."""
        listed = [
            {
                "name": name,
                "task": SUBJECTS[name].task,
                "train": f"{name}/train.jsonl",
                "settings": {"data": {"length": SUBJECTS[name].length}},
            }
            for name in TOGETHER
        ]
        path = self.folder / "tasks.yaml"
        path.write_text(yaml.safe_dump(listed), encoding="utf-8")
        return self.run("shared", "multitask", minilm(), path, weighting=self.options.weighting)

    def added(self, lora: int) -> Trained:
        """The shared model with one task more."""
        train, length = self.folder / ADDED / "train.jsonl", SUBJECTS[ADDED].length
        more = {"add": True, "name": ADDED, "tuning": {"lora": lora}, "data": {"length": length}}
        training = {**self.settings()["training"], "lr": self.options.added_lr}
        return self.run(f"added-{lora}", SUBJECTS[ADDED].task, self.folder / "shared", train, **more, training=training)

    def score(self, trained: Trained, name: str, task: str | None = None) -> float:
        """The score on dev, in percent."""
        metric = SUBJECTS[name].metric
        found = trained.model.evaluate(str(self.folder / name / "dev.jsonl"), task=task).metrics[metric]
        return found * (100 if metric in CORRELATIONS else 1)

    def answers(self, trained: Trained) -> dict[str, list[Any]]:
        """Predictions of the jointly trained tasks on their dev examples."""
        return {
            name: trained.model.predict(
                [json.loads(line) for line in (self.folder / name / "dev.jsonl").read_text().splitlines()], task=name
            )
            for name in TOGETHER
        }


class Clock:
    """The time from a run's first step to its last."""

    def __init__(self) -> None:
        self._first: float | None = None
        self.seconds = 0.0

    def look(self, record: Record) -> None:
        """Called with every record; the first step itself is counted as the mean of the others."""
        now = time.perf_counter()
        self._first = now if self._first is None else self._first
        if record.step > 1:
            self.seconds = (now - self._first) * record.step / (record.step - 1)


def answer_times(singles: Mapping[str, Trained], shared: Trained) -> dict[str, float]:
    """Milliseconds to answer all tasks on one text."""
    contenders = {
        "single": lambda: [singles[name].model.predict(INPUT) for name in TOGETHER],
        "one_by_one": lambda: [shared.model.predict(INPUT, task=name) for name in TOGETHER],
        "together": lambda: shared.model.predict(INPUT, task=TOGETHER),
    }
    return {name: round(1000 * seconds, 2) for name, seconds in in_turn(contenders, rounds=30, warmup=3).items()}


def compare_adding(bench: Bench, shared: Trained) -> dict[str, Any]:
    """A task added with its head alone and with adapters, against a separate model; whether the others changed."""
    alone, before = bench.single(ADDED), bench.answers(shared)
    found: dict[str, Any] = {"single": summary(alone, bench.score(alone, ADDED), alone.parameters)}
    for name, lora in (("head", 0), ("adapters", 8)):
        trained = bench.added(lora)
        more = trained.parameters - shared.parameters
        found[name] = summary(trained, bench.score(trained, ADDED, ADDED), more)
        found[name]["others_identical"] = bench.answers(trained) == before
    return found


def summary(trained: Trained, score: float, parameters: int) -> dict[str, Any]:
    """One row of a table."""
    return {"score": round(score, 2), "seconds": round(trained.seconds, 1), "parameters": parameters}


def read_options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", type=int, help="training examples of each task")
    parser.add_argument("--dev", type=int, help="dev examples of each task")
    parser.add_argument("--epochs", type=float, default=2.0)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--lr", type=float, default=2e-4)
    parser.add_argument("--added-lr", type=float, default=5e-4, help="of the added task, whose encoder is frozen")
    parser.add_argument("--weighting", choices=("fixed", "uncertainty"), default="fixed")
    parser.add_argument("--threads", type=int, default=1)
    return parser.parse_args()


def main() -> None:
    """Measure and print; the last line is the result for scripts."""
    options = read_options()
    torch.set_num_threads(options.threads)
    about = circumstances()
    print(about)
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), options)
        singles = {}
        scores: dict[str, dict[str, float]] = {}
        for name in TOGETHER:
            singles[name] = bench.single(name)
            scores[name] = {"single": round(bench.score(singles[name], name), 2)}
            print(f"{name} alone: {scores[name]['single']} in {singles[name].seconds:.0f} s", flush=True)
        shared = bench.shared()
        for name in TOGETHER:
            scores[name]["shared"] = round(bench.score(shared, name, name), 2)
        print(f"shared: {scores} in {shared.seconds:.0f} s", flush=True)
        adding = compare_adding(bench, shared)
        result = {
            "scores": scores,
            "mean": {side: round(mean(each[side] for each in scores.values()), 2) for side in ("single", "shared")},
            "train_seconds": {
                "single": round(sum(each.seconds for each in singles.values()), 1),
                "shared": round(shared.seconds, 1),
            },
            "parameters": {"single": sum(each.parameters for each in singles.values()), "shared": shared.parameters},
            "answer_ms": answer_times(singles, shared),
            "adding": adding,
        }
    print_result({**result, **about})


if __name__ == "__main__":
    main()
