"""Settings of a fine-tuning run: those of one task, or those that the tasks of a list share.

Published defaults with the user's changes merged over them, every key checked.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

from spanlab.config import AtLeast, AtMost, Bounded, Seed, Source, from_mapping, merge, to_mapping
from spanlab.errors import ConfigError, InputError, did_you_mean
from spanlab.tasks.config import PUBLISHED_WIDTH, TaskConfig, TuningConfig
from spanlab.tasks.table import TASKS, find_task
from spanlab.training.config import TrainingConfig

MULTITASK = "multitask"
"""The name under which a list of tasks is trained."""
UNCERTAINTY_RATE = 100.0
"""Learning rate factor of learned loss weights: they start at 1 and would move too little at the rate of a head."""


@dataclass(frozen=True, kw_only=True)
class SharedDataConfig(Bounded):
    """The `data` section of a multitask run; values that are given override the default of every task."""

    length: Annotated[int, AtLeast(8), AtMost(1_000_000)] | None = None
    """Tokens of a sequence, for all tasks; None: the default of each task."""
    bad_rows: Literal["refuse", "drop"] | None = None
    """Examples with a problem, for all tasks."""
    batch_tokens: Annotated[int, AtLeast(1), AtMost(100_000_000)] = 16384
    """The most tokens computed at once."""
    group_by_length: bool = True
    """Draw the samples of a step from those of similar length."""

    def overrides(self) -> dict[str, Any]:
        """The values that are given, for the `data` section of each task."""
        return {name: value for name, value in vars(self).items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class MultitaskConfig(Bounded):
    """Settings that the tasks of a run share; learning rate, batch size and epochs are those of MT-DNN."""

    sampling: Literal["proportional", "temperature", "uniform"] = "proportional"
    """How the steps are shared among tasks: by number of samples, by a root of that number, or equally."""
    temperature: Annotated[float, AtLeast(1)] = 2.0
    """For sampling=temperature: shares are samples ** (1 / temperature); 1 is proportional, large values uniform."""
    weighting: Literal["fixed", "uncertainty"] = "fixed"
    """Weights of the losses: those of the list, or learned from the uncertainty of each task."""
    task_embeddings: bool = False
    """Add a learned task vector to every token embedding; texts are then encoded once per task."""
    choose_by: str = "mean"
    """The dev score that selects the best model: the mean over tasks, or the name of one task."""
    seed: Seed = 0
    """Of new weights, dropout, and the order of tasks and samples."""
    data: SharedDataConfig = field(default_factory=SharedDataConfig)
    tuning: TuningConfig = field(default_factory=TuningConfig)
    training: TrainingConfig = field(
        # Losses of different tasks have different sizes, so the loss jumps from step to step without being a spike.
        default_factory=lambda: TrainingConfig(lr=5e-5, batch_size=32, epochs=5.0, spike_factor=10.0)
    )

    @property
    def published_width(self) -> int:
        """The hidden size of MT-DNN's encoder, which the learning rate is meant for."""
        return PUBLISHED_WIDTH


RunConfig = TaskConfig | MultitaskConfig


def resolve_config(task: str, changes: Mapping[str, Any], source: Source | None = None) -> TaskConfig:
    """The published settings of a task with `changes` merged over them; `source` locates the keys in errors."""
    task_class = find_task(task)
    mapping = merge(to_mapping(task_class.Config.base(changes)), changes)
    columns = mapping["data"].get("columns") if isinstance(mapping["data"], Mapping) else None
    if isinstance(columns, str):  # as typed on the command line: data.columns=word,_,tag
        mapping = merge(mapping, {"data": {"columns": columns.split(",")}})
    config = from_mapping(task_class.Config, mapping, source)
    _check_batch_warmup(config.training)
    return config


def resolve_run_config(task: str, changes: Mapping[str, Any], source: Source | None = None) -> RunConfig:
    """As `resolve_config`, for any task or `multitask`."""
    known = (*TASKS, MULTITASK)
    if task not in known:
        raise InputError(f"unknown task '{task}'{did_you_mean(task, known)}", fix=f"use one of {', '.join(known)}")
    if task != MULTITASK:
        return resolve_config(task, changes, source)
    config = from_mapping(MultitaskConfig, merge(to_mapping(MultitaskConfig()), changes), source)
    _check_batch_warmup(config.training)
    if config.weighting == "uncertainty":
        factors = {"log_variances": UNCERTAINTY_RATE, **config.training.lr_factors}
        config = replace(config, training=replace(config.training, lr_factors=factors))
    return config


def saved_run_config(task: str, saved: Mapping[str, Any], source: Source | None = None) -> RunConfig:
    """The settings of a run from its folder: all are given but those that are newer than the run.

    These have the default of their key, by which a run is as it was before there was the key.
    """
    if task == MULTITASK:
        return from_mapping(MultitaskConfig, saved, source)
    return from_mapping(find_task(task).Config, saved, source)


def published_training(config: RunConfig) -> TrainingConfig:
    """The published training settings of the task, head and preset of a config."""
    if isinstance(config, MultitaskConfig):
        return MultitaskConfig().training
    return type(config).base(to_mapping(config)).training


def _check_batch_warmup(training: TrainingConfig) -> None:
    if training.batch_warmup:
        raise ConfigError("training.batch_warmup is for pre-training", fix="leave it out")
