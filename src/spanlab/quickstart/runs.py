"""The kinds of runs of a quickstart: pre-training and fine-tuning whose number of steps is still to be decided.

What enters is a corpus or labelled files and a model; what leaves is what a step of the run costs, and then the run.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from spanlab.finetuning.config import resolve_config
from spanlab.pretraining.build import build_work
from spanlab.pretraining.recipe import Recipe, load_recipe
from spanlab.quickstart import plan
from spanlab.quickstart.events import QuickstartEvents
from spanlab.quickstart.throughput import Throughput, measure_throughput
from spanlab.workflows import finetune, pretrain

SYSTEM = "spanbert"


class PlannedRun(Protocol):
    """A run whose length is still to be decided."""

    @property
    def what(self) -> str:
        """What it does, for the person who waits."""

    def pace(self) -> Throughput:
        """What its steps and evaluations cost here."""

    def train(self, folder: Path, steps: int, *, resume: bool, watcher: QuickstartEvents) -> None:
        """Train it to the end."""


@dataclass(frozen=True, kw_only=True)
class Pretraining:
    """SpanBERT's objectives on a corpus, from new weights or from a model's."""

    corpus: Path
    settings: Mapping[str, Any]
    training: Mapping[str, Any]
    init: Path | None = None

    @property
    def what(self) -> str:
        """What it does, for the person who waits."""
        return f"span masking and span boundaries, from {'new weights' if self.init is None else 'MiniLM'}"

    def recipe(self, steps: int) -> Recipe:
        """SpanBERT's recipe with the quickstart's settings."""
        return load_recipe(SYSTEM, {**self.settings, "training": {**self.training, **_length(steps)}})

    def pace(self) -> Throughput:
        """Tried on the corpus itself."""
        recipe = self.recipe(1)
        corpora = pretrain.open_corpora([str(self.corpus)])
        work, _ = build_work(recipe, corpora, None if self.init is None else str(self.init))
        return measure_throughput(work, recipe.training)

    def train(self, folder: Path, steps: int, *, resume: bool, watcher: QuickstartEvents) -> None:
        """As `spanlab pretrain` does."""
        job = pretrain.PretrainingJob(
            recipe=self.recipe(steps),
            data=(str(self.corpus),),
            out=str(folder),
            init=None if self.init is None else str(self.init),
            resume=resume,
        )
        pretrain.run_job(job, on_start=watcher.run_begins, on_record=watcher.record)


@dataclass(frozen=True, kw_only=True)
class Finetuning:
    """A task from a model folder or a run folder."""

    task: plan.QuickstartTask
    beginning: str
    model: Path
    files: Path
    lr: float

    @property
    def what(self) -> str:
        """What it does, for the person who waits."""
        return f"{self.task.title}, begun with: {plan.TITLES[self.beginning]}"

    def job(self, folder: Path, steps: int, *, resume: bool) -> finetune.FinetuningJob:
        """As `spanlab finetune` would be asked."""
        training = {"batch_size": self.task.batch_size, "lr": self.lr, **_length(steps)}
        return finetune.FinetuningJob(
            task=self.task.task,
            model=str(self.model),
            train=str(self.files / "train.jsonl"),
            dev=str(self.files / "dev.jsonl"),
            config=resolve_config(self.task.task, {"training": training}),
            out=str(folder),
            resume=resume,
        )

    def pace(self) -> Throughput:
        """Tried on the training file itself."""
        job = self.job(Path(), 1, resume=False)
        return measure_throughput(job.prepare().spec, job.config.training)

    def train(self, folder: Path, steps: int, *, resume: bool, watcher: QuickstartEvents) -> None:
        """As `spanlab finetune` does."""
        job = self.job(folder, steps, resume=resume)
        finetune.run_job(job, on_start=watcher.run_begins, on_record=watcher.record)


def _length(steps: int) -> dict[str, int]:
    return {"steps": steps, "eval_every": -(-steps // plan.EVALUATIONS), "keep": 1}
