"""A budget of time becomes a number of steps, so that warm-up and decay fit into it.

A job and seconds enter; the same job with `training.steps` leaves. The speed is measured on a few steps of the job
itself, before the run begins. The run keeps the number of steps in its config, so resuming it is as exact as ever.
"""

import math
import os
import time
from dataclasses import replace
from typing import Any

from spanlab.errors import ConfigError
from spanlab.pretraining.build import build_training_spec
from spanlab.training.config import TrainingConfig
from spanlab.training.spec import TrainingSpec, evaluation_interval
from spanlab.workflows.dry_run import measure_steps
from spanlab.workflows.finetune import FinetuningJob
from spanlab.workflows.pretrain import PretrainingJob, open_corpora

_MEASURED_SECONDS, _MEASURED_STEPS = 4.0, (3, 24)
"""How long to measure, and the fewest and the most steps."""
_MIN_STEPS = 10
_WARMUP_SHARE = 0.05
"""The most of a run that a warm-up of a fixed number of steps, meant for a longer run, may take."""


def pretraining_within(job: PretrainingJob, seconds: float) -> PretrainingJob:
    """The job with as many steps as fit into the time."""
    start = time.perf_counter()
    spec, _ = build_training_spec(job.recipe, open_corpora(job.data), job.init)
    training = job.recipe.training
    steps = _affordable_steps(spec, training, seconds, start)
    return replace(job, recipe=replace(job.recipe, training=shorten(training, steps)))


def finetuning_within(job: FinetuningJob, seconds: float) -> FinetuningJob:
    """The job with as many of its steps as fit into the time; more than it has would only overfit."""
    start = time.perf_counter()
    run = job.prepare()
    planned = run.training.total_steps(run.spec.data.steps_per_epoch)
    affordable = _affordable_steps(run.spec, run.training, seconds, start)
    if affordable >= planned:
        return job
    # The number of steps is settled; the learning rate stays open, and the run tells how it was chosen.
    shorter = replace(job.config, training=shorten(job.config.training, affordable))
    return replace(job, config=shorter, unset=replace(job.unset, epochs=False))


def shorten(training: TrainingConfig, steps: int) -> TrainingConfig:
    """The training section with this number of steps, and a warm-up that suits it."""
    too_long = training.warmup >= 1 and training.warmup > _WARMUP_SHARE * steps
    return replace(training, steps=steps, epochs=None, warmup=_WARMUP_SHARE if too_long else training.warmup)


def _affordable_steps(spec: TrainingSpec[Any], training: TrainingConfig, seconds: float, start: float) -> int:
    """The steps that fit into what is left of `seconds` since `start`, evaluations included."""
    if os.environ.get("WORLD_SIZE", "1") != "1":
        fix = "measure with --dry-run and set training.steps"
        raise ConfigError("a budget is measured by one process, and there are several", fix=fix)
    fewest, most = _MEASURED_STEPS
    once = measure_steps(spec, training, count=1).seconds
    measured = measure_steps(spec, training, count=min(most, max(fewest, round(_MEASURED_SECONDS / once))))
    # The run sets itself up once more.
    left = seconds - 2 * (time.perf_counter() - start)
    steps = math.floor(left / measured.seconds)
    while steps >= _MIN_STEPS and _cost(spec, training, steps) * measured.seconds > left:
        steps = math.floor(steps * min(0.99, left / (_cost(spec, training, steps) * measured.seconds)))
    if steps < _MIN_STEPS:
        cause = f"the budget of {seconds:g} s is too short: a step takes {measured.seconds:.2g} s"
        raise ConfigError(cause, fix=f"allow at least {math.ceil(seconds - left + 20 * measured.seconds)}s")
    return steps


def _cost(spec: TrainingSpec[Any], training: TrainingConfig, steps: int) -> float:
    """The cost of a run and its evaluations, in steps."""
    if spec.evaluate is None:
        return float(steps)
    interval = training.eval_every or evaluation_interval(steps, spec.evaluation_cost)
    return steps + math.ceil(steps / interval) * spec.evaluation_cost
