"""The training runs of a quickstart: continued pre-training, and fine-tuning from several initial weights.

A run gets a share of the remaining time. Its speed is measured once before it starts, and the number of steps that fit,
or that it needs if these are fewer, is kept in its config, so an interrupted run resumes exactly. The new task is
trained for the same number of steps from random weights and from spanbert-mini-en.
"""

import shutil
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from spanlab.encoder import build_encoder, load_model, save_model
from spanlab.encoder.layers import evaluating
from spanlab.finetuning.config import resolve_run_config
from spanlab.finetuning.defaults import unset_settings
from spanlab.pretraining.build import build_training_spec
from spanlab.pretraining.recipe import Recipe, load_recipe
from spanlab.quickstart import plan
from spanlab.quickstart.folder import QuickstartFolder
from spanlab.text import Tokenizer
from spanlab.training.config import TrainingConfig
from spanlab.training.distributed import current_process
from spanlab.training.run_folder import CONFIG, REPORT, RunFolder
from spanlab.training.spec import TrainingSpec
from spanlab.workflows.dry_run import measure_steps
from spanlab.workflows.finetune import FinetuningJob, resumed_job
from spanlab.workflows.finetune import run_job as run_finetuning
from spanlab.workflows.pretrain import PretrainingJob, open_corpora
from spanlab.workflows.pretrain import run_job as run_pretraining

SYSTEM = "spanbert"
MIN_STEPS = 4
_MEASURED_STEPS = 4


@dataclass(frozen=True, kw_only=True)
class Continuing:
    """SpanBERT's objectives on the corpus, from a model with both heads."""

    folder: QuickstartFolder
    model: Path

    @property
    def description(self) -> str:
        """What the run does, for the user."""
        return f"{plan.SPANBERT_NAME} on this text, by masked spans and their boundaries (MLM and SBO)"

    @property
    def corpus(self) -> str:
        """The corpus, as `--data` takes it."""
        return str(_absolute(self.folder, plan.CORPUS))

    def recipe(self, steps: int) -> Recipe:
        """SpanBERT's recipe with the settings of the quickstart."""
        training = {**plan.CONTINUING["training"], **_steps_config(steps)}
        return load_recipe(SYSTEM, {**plan.CONTINUING, "training": training})

    def prepare(self) -> tuple[TrainingSpec[Any], TrainingConfig, int]:
        """The run, to be measured, and the most steps that it needs."""
        recipe = self.recipe(1)
        spec, _ = build_training_spec(recipe, open_corpora([self.corpus]), str(self.model))
        return spec, recipe.training, int(plan.MOST_EPOCHS * spec.data.steps_per_epoch)

    def train(self, out: Path, steps: int, *, resume: bool) -> None:
        """Train to the end."""
        job = PretrainingJob(
            recipe=self.recipe(steps), data=(self.corpus,), out=str(out), init=str(self.model), resume=resume
        )
        run_pretraining(job, on_start=self.folder.events.run_begins, on_record=self.folder.events.record)


@dataclass(frozen=True, kw_only=True)
class Finetuning:
    """The almanac's entities from a model folder, with the settings that `spanlab finetune` chooses."""

    folder: QuickstartFolder
    initial_weights: str
    model: Path

    @property
    def description(self) -> str:
        """What the run does, for the user."""
        return f"entities, initial weights: {plan.TITLES[self.initial_weights]}"

    def prepare(self) -> tuple[TrainingSpec[Any], TrainingConfig, int]:
        """The run, to be measured, and the most steps that it needs."""
        run = self._job(Path(), 1).prepare()
        return run.spec, run.training, plan.TARGET_STEPS[self.initial_weights]

    def train(self, out: Path, steps: int, *, resume: bool) -> None:
        """Train to the end."""
        job = resumed_job(str(out), {}) if resume else self._job(out, steps)
        run_finetuning(job, on_start=self.folder.events.run_begins, on_record=self.folder.events.record)

    def _job(self, out: Path, steps: int) -> FinetuningJob:
        changes = {"training": {"batch_size": plan.BATCH_SIZE, **_steps_config(steps)}}
        files = _absolute(self.folder, plan.ENTITIES)
        return FinetuningJob(
            task="ner",
            model=str(self.model),
            train=str(files / "train.jsonl"),
            dev=str(files / "dev.jsonl"),
            config=resolve_run_config("ner", changes),
            unset=unset_settings(changes),
            out=str(out),
        )


PlannedRun = Continuing | Finetuning
"""A run whose number of steps is not decided yet."""


def _steps_config(steps: int) -> dict[str, int]:
    evaluations = {"eval_every": -(-steps // plan.EVALUATIONS), "save_every": -(-steps // plan.CHECKPOINTS)}
    return {"steps": steps, **evaluations, "keep": 1}


def save_random_weights(folder: QuickstartFolder, model: Path) -> None:
    """A model folder with random weights of the shape of `model`, and its tokenizer."""
    if (folder.path / plan.RANDOM).exists():
        return
    with folder.timed(plan.RANDOM), folder.new_folder(plan.RANDOM) as new:
        torch.manual_seed(0)
        save_model(new, build_encoder(load_model(model).encoder.full_config), {}, system=SYSTEM)
        Tokenizer.load(model).save(new)


def continue_spanbert(folder: QuickstartFolder, model: Path, runs: tuple[str, ...]) -> Continuing:
    """Continue to pre-train a model on the corpus; `runs`: all runs of the quickstart, in order."""
    planned = Continuing(folder=folder, model=model)
    _train(plan.CONTINUED, planned, runs)
    return planned


def finetune_from(folder: QuickstartFolder, initial_weights: str, model: Path, runs: tuple[str, ...]) -> None:
    """Fine-tune entities from initial weights, in a model folder."""
    planned = Finetuning(folder=folder, initial_weights=initial_weights, model=model.resolve())
    # The gain from pre-training shows only between runs that are otherwise the same.
    random_run = folder.path / plan.run_name(plan.RANDOM)
    steps = steps_of(random_run) if initial_weights == plan.SPANBERT else None
    _train(plan.run_name(initial_weights), planned, runs, steps)


def _absolute(folder: QuickstartFolder, name: str) -> Path:
    """An absolute path for a run's config, which must not depend on the working directory."""
    return (folder.path / name).resolve()


def _train(name: str, planned: PlannedRun, runs: tuple[str, ...], steps: int | None = None) -> None:
    """Start or resume a run; `runs`: all runs of the quickstart, in order, which share the time."""
    folder = planned.folder
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
            steps = folder.settings.steps or _affordable_steps(name, planned, runs)
        try:
            planned.train(run, steps, resume=resume)
        finally:
            folder.events.run_ends()
    _remove_checkpoints(run)


def _remove_checkpoints(run: Path) -> None:
    """A finished run is not resumed, and MiniLM's checkpoint is three times the size of its weights."""
    shutil.rmtree(RunFolder(run).checkpoints.folder, ignore_errors=True)


def _affordable_steps(name: str, planned: PlannedRun, runs: tuple[str, ...]) -> int:
    """The steps that the run needs, or as many as its share of the time allows."""
    settings, start = planned.folder.settings, time.monotonic()
    remaining = settings.budget * (1 - plan.SCORING_SHARE) - planned.folder.spent
    share = plan.seconds_for(name, runs[runs.index(name) :], remaining)
    spec, training, needed = planned.prepare()
    measured_from = time.monotonic()
    step_seconds = measure_steps(spec, replace(training, steps=needed), count=_MEASURED_STEPS).seconds
    evaluation_start = time.monotonic()
    evaluate(spec, training)
    now = time.monotonic()
    # The run sets itself up once more; measuring is not repeated.
    left = share - (now - start) - (measured_from - start)
    return steps_in(left, step_seconds, now - evaluation_start, needed)


def evaluate(spec: TrainingSpec[Any], training: TrainingConfig) -> dict[str, float]:
    """The held-out scores of a run with the weights that it has now."""
    assert spec.evaluate is not None
    assert isinstance(spec.criterion, nn.Module)
    with torch.no_grad(), evaluating(spec.criterion):
        return spec.evaluate(current_process(training.device, training.precision))


def steps_in(seconds: float, step_seconds: float, evaluation_seconds: float, needed: int) -> int:
    """The steps that fit beside the evaluations; from `MIN_STEPS` to `needed`."""
    fitting = int((seconds - plan.EVALUATIONS * evaluation_seconds) / step_seconds)
    return max(MIN_STEPS, min(needed, fitting))


def is_finished(run: Path) -> bool:
    """Whether a run is complete, including its report."""
    return RunFolder(run).read_status().finished and (run / REPORT).is_file()


def steps_of(run: Path) -> int:
    """The number of steps in the config of a run."""
    return int(RunFolder(run).read_config()["training"]["steps"])
