"""From what a user asks for to a run that is ready: one task alone, one beside those of a model, or several."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol

from spanlab.config import Source, from_mapping, merge, to_mapping
from spanlab.errors import ConfigError, InputError, did_you_mean
from spanlab.finetuning.adding import AddedTask
from spanlab.finetuning.multitask import MultitaskTuning
from spanlab.finetuning.run import FineTuning, Sources, resolve_config
from spanlab.finetuning.task_data import Lesson
from spanlab.finetuning.task_list import MULTITASK, MultitaskConfig, TaskEntry, read_task_list
from spanlab.tasks.config import TaskConfig
from spanlab.tasks.sample import SampleBatch
from spanlab.tasks.table import TASKS
from spanlab.training.config import TrainingConfig
from spanlab.training.spec import TrainingSpec

RunConfig = TaskConfig | MultitaskConfig
UNCERTAINTY_RATE = 100.0
"""Learnt loss weights begin at 1 and have few steps to get where they belong: a head's rate is too slow for them."""


class Tuning(Protocol):
    """A run that is ready to be trained."""

    @property
    def lessons(self) -> tuple[Lesson, ...]:
        """Its tasks."""

    @property
    def work(self) -> TrainingSpec[SampleBatch]:
        """What the loop takes."""

    @property
    def training(self) -> TrainingConfig:
        """How it is trained."""

    def notes(self) -> list[str]:
        """What a person should know before the run."""


def resolve(task: str, changes: Mapping[str, Any], source: Source | None = None) -> RunConfig:
    """The settings of a run: published ones with `changes` laid over them, every key checked."""
    known = (*TASKS, MULTITASK)
    if task not in known:
        raise InputError(f"unknown task '{task}'{did_you_mean(task, known)}", fix=f"use one of {', '.join(known)}")
    if task != MULTITASK:
        return resolve_config(task, changes, source)
    config = from_mapping(MultitaskConfig, merge(to_mapping(MultitaskConfig()), changes), source)
    training = config.training
    if training.batch_warmup:
        raise ConfigError("training.batch_warmup is for pre-training", fix="leave it out")
    if config.weighting == "uncertainty":
        factors = {"log_variances": UNCERTAINTY_RATE, **training.lr_factors}
        config = replace(config, training=replace(training, lr_factors=factors))
    return config


def prepare(sources: Sources, config: RunConfig) -> Tuning:
    """Read everything, load the model, and make the run's work."""
    if isinstance(config, MultitaskConfig):
        if sources.add_as is not None:
            raise ConfigError("one task is added at a time", fix="give --add to spanlab finetune TASK")
        return MultitaskTuning(sources, config)
    return FineTuning(sources, config) if sources.add_as is None else AddedTask(sources, config)


def listed_tasks(sources: Sources) -> tuple[TaskEntry, ...]:
    """The tasks of a run over several; none for another run."""
    return tuple(each.entry for each in read_task_list(sources.train)) if sources.task == MULTITASK else ()


def has_dev(sources: Sources) -> bool:
    """Whether a best model can be chosen."""
    return sources.dev is not None or any(entry.dev is not None for entry in listed_tasks(sources))
