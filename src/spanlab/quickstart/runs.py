"""The training runs of a quickstart: pre-training, continued pre-training of MiniLM, and fine-tuning from all weights.

A run gets a share of the remaining time. Its speed is measured once before it starts, and the number of steps that fit
is kept in its config, so an interrupted run resumes exactly. A task is trained for the same number of steps with and
without pre-training.
"""

import shutil
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from typing_extensions import override

from spanlab.finetuning.config import resolve_config
from spanlab.pretraining.build import build_training_spec, save_criterion
from spanlab.pretraining.initial_model import build_model
from spanlab.pretraining.recipe import Recipe, load_recipe
from spanlab.quickstart import plan
from spanlab.quickstart.events import QuickstartEvents
from spanlab.quickstart.folder import QuickstartFolder
from spanlab.quickstart.plan import QuickstartTask
from spanlab.text import Tokenizer
from spanlab.training.config import TrainingConfig
from spanlab.training.distributed import current_process
from spanlab.training.run_folder import CONFIG, REPORT, RunFolder
from spanlab.training.spec import TrainingSpec
from spanlab.training.train_step import TrainStep
from spanlab.workflows import finetune, pretrain

SYSTEM = "spanbert"
MIN_STEPS = 4
_MEASURED_SECONDS, _MEASURED_STEPS = 2.0, 6
"""A measurement ends at whichever comes first."""


@dataclass(frozen=True, kw_only=True)
class Throughput:
    """Measured seconds of a step and of an evaluation on this machine."""

    step_seconds: float
    evaluation_seconds: float

    def steps_in(self, seconds: float) -> int:
        """The steps that fit, after the evaluations are subtracted; at least `MIN_STEPS`."""
        return max(MIN_STEPS, int((seconds - plan.EVALUATIONS * self.evaluation_seconds) / self.step_seconds))


def measure_throughput(spec: TrainingSpec[Any], config: TrainingConfig) -> Throughput:
    """Time a few steps (not the first, which allocates memory) and one evaluation; nothing is kept."""
    process = current_process(config.device, config.precision)
    with tempfile.TemporaryDirectory() as scratch:
        train_step = TrainStep(spec, config, process, _MEASURED_STEPS + 1, Path(scratch))
        train_step.step(0, stop=False)
        start, steps = time.perf_counter(), 0
        while steps < _MEASURED_STEPS and time.perf_counter() - start < _MEASURED_SECONDS:
            steps += 1
            train_step.step(steps, stop=False)
        step_seconds = (time.perf_counter() - start) / steps
    start = time.perf_counter()
    if spec.evaluate is not None:
        train_step.model.eval()
        with torch.no_grad():
            spec.evaluate(process)
    return Throughput(step_seconds=step_seconds, evaluation_seconds=time.perf_counter() - start)


class PlannedRun(ABC):
    """A run whose number of steps is not decided yet."""

    @property
    @abstractmethod
    def description(self) -> str:
        """What the run does, for the user."""

    @abstractmethod
    def measure(self) -> Throughput:
        """Measure the cost of its steps and evaluations, on its own data."""

    @abstractmethod
    def train(self, folder: Path, steps: int, *, resume: bool, events: QuickstartEvents) -> None:
        """Train to the end."""


@dataclass(frozen=True, kw_only=True)
class Pretraining(PlannedRun):
    """SpanBERT's objectives on a corpus, from random weights or from those of a model."""

    corpus: Path
    settings: Mapping[str, Any]
    training: Mapping[str, Any]
    init: Path | None = None

    @property
    @override
    def description(self) -> str:
        weights = "random" if self.init is None else "MiniLM"
        return f"span masking and span boundary objective, initial weights: {weights}"

    def recipe(self, steps: int) -> Recipe:
        """SpanBERT's recipe with the settings of the quickstart."""
        return load_recipe(SYSTEM, {**self.settings, "training": {**self.training, **_steps_config(steps)}})

    @override
    def measure(self) -> Throughput:
        recipe = self.recipe(1)
        corpora = pretrain.open_corpora([str(self.corpus)])
        spec, _ = build_training_spec(recipe, corpora, None if self.init is None else str(self.init))
        return measure_throughput(spec, recipe.training)

    @override
    def train(self, folder: Path, steps: int, *, resume: bool, events: QuickstartEvents) -> None:
        job = pretrain.PretrainingJob(
            recipe=self.recipe(steps),
            data=(str(self.corpus),),
            out=str(folder),
            init=None if self.init is None else str(self.init),
            resume=resume,
        )
        pretrain.run_job(job, on_start=events.run_begins, on_record=events.record)


@dataclass(frozen=True, kw_only=True)
class Finetuning(PlannedRun):
    """A task from a model folder or a run folder."""

    task: QuickstartTask
    initial_weights: str
    model: Path
    files: Path
    """The folder of the labelled files."""
    lr: float

    @property
    @override
    def description(self) -> str:
        return f"{self.task.title}, initial weights: {plan.TITLES[self.initial_weights]}"

    @override
    def measure(self) -> Throughput:
        job = self._job(Path(), 1, resume=False)
        return measure_throughput(job.prepare().spec, job.config.training)

    @override
    def train(self, folder: Path, steps: int, *, resume: bool, events: QuickstartEvents) -> None:
        job = self._job(folder, steps, resume=resume)
        finetune.run_job(job, on_start=events.run_begins, on_record=events.record)

    def _job(self, folder: Path, steps: int, *, resume: bool) -> finetune.FinetuningJob:
        training = {"batch_size": self.task.batch_size, "lr": self.lr, **_steps_config(steps)}
        return finetune.FinetuningJob(
            task=self.task.task,
            model=str(self.model),
            train=str(self.files / "train.jsonl"),
            dev=str(self.files / "dev.jsonl"),
            config=resolve_config(self.task.task, {"training": training}),
            out=str(folder),
            resume=resume,
        )


def _steps_config(steps: int) -> dict[str, int]:
    return {"steps": steps, "eval_every": -(-steps // plan.EVALUATIONS), "keep": 1}


def save_random_weights(folder: QuickstartFolder) -> None:
    """A model folder with the initial weights of pre-training."""
    if (folder.path / plan.UNTRAINED).exists():
        return
    with folder.timed(plan.UNTRAINED), folder.new_folder(plan.UNTRAINED) as new:
        tokenizer = Tokenizer.load(folder.path / plan.TOKENIZER)
        criterion = build_model(_pretraining(folder).recipe(1), tokenizer).criterion
        assert isinstance(criterion, nn.Module)
        save_criterion(new, criterion, SYSTEM)
        tokenizer.save(new)


def pretrain_spanbert(folder: QuickstartFolder, runs: tuple[str, ...]) -> None:
    """Pre-train SpanBERT on the corpus."""
    _train(folder, plan.PRETRAINED, _pretraining(folder), runs)


def continue_minilm(folder: QuickstartFolder, minilm: Path, runs: tuple[str, ...]) -> None:
    """Continue to pre-train MiniLM on the same text, with SpanBERT's objectives."""
    planned = Pretraining(
        corpus=_absolute(folder, plan.MINILM_CORPUS),
        settings=plan.CONTINUED,
        training=plan.CONTINUED_OPTIMISER,
        init=minilm,
    )
    _train(folder, plan.MINILM, planned, runs)


def finetune_from(folder: QuickstartFolder, initial_weights: str, task: QuickstartTask, runs: tuple[str, ...]) -> None:
    """Fine-tune a task from initial weights."""
    planned = Finetuning(
        task=task,
        initial_weights=initial_weights,
        model=_absolute(folder, initial_weights),
        files=_absolute(folder, task.name),
        lr=task.minilm_lr if initial_weights == plan.MINILM else task.lr,
    )
    # The gain from pre-training shows only between runs that are otherwise the same.
    random_run = folder.path / plan.run_name(plan.UNTRAINED, task)
    steps = steps_of(random_run) if initial_weights == plan.PRETRAINED else None
    _train(folder, plan.run_name(initial_weights, task), planned, runs, steps)


def _pretraining(folder: QuickstartFolder) -> Pretraining:
    settings = {"size": folder.settings.size, **plan.PRETRAINING}
    return Pretraining(corpus=_absolute(folder, plan.CORPUS), settings=settings, training=plan.PRETRAINING_OPTIMISER)


def _absolute(folder: QuickstartFolder, name: str) -> Path:
    """An absolute path for a run's config, which must not depend on the working directory."""
    return (folder.path / name).resolve()


def _train(
    folder: QuickstartFolder, name: str, planned: PlannedRun, runs: tuple[str, ...], steps: int | None = None
) -> None:
    """Start or resume a run; `runs`: all runs of the quickstart, in order, which share the time."""
    run = folder.path / name
    if is_finished(run):
        folder.events.say(f"{name}: already done")
        _remove_checkpoints(run)  # in case the process was killed before it removed them
        return
    resume = (run / CONFIG).is_file()
    folder.events.say(f"{name}: {'resuming ' if resume else ''}{planned.description}")
    with folder.timed(name):
        if resume:
            steps = steps_of(run)
        elif steps is None:
            steps = folder.settings.steps or _affordable_steps(folder, name, planned, runs)
        try:
            planned.train(run, steps, resume=resume, events=folder.events)
        finally:
            folder.events.run_ends()
    _remove_checkpoints(run)


def _remove_checkpoints(run: Path) -> None:
    """A finished run is not resumed, and MiniLM's checkpoint is three times the size of its weights."""
    shutil.rmtree(RunFolder(run).checkpoints.folder, ignore_errors=True)


def _affordable_steps(folder: QuickstartFolder, name: str, planned: PlannedRun, runs: tuple[str, ...]) -> int:
    remaining = folder.settings.budget * (1 - plan.SCORING_SHARE) - folder.spent
    share, start = plan.seconds_for(name, runs[runs.index(name) :], remaining), time.monotonic()
    throughput = planned.measure()
    return throughput.steps_in(share - (time.monotonic() - start))


def is_finished(run: Path) -> bool:
    """Whether a run is complete, including its report."""
    return RunFolder(run).read_status().finished and (run / REPORT).is_file()


def steps_of(run: Path) -> int:
    """The number of steps in the config of a run."""
    return int(RunFolder(run).read_config()["training"]["steps"])
