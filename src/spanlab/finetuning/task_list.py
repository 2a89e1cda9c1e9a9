"""What a run over several tasks is told: the YAML list of its tasks, and the settings that they share.

Every wrong entry is refused with its line before anything is read or trained: an unknown task or key, a name that is
there twice, a file that is not there.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from torch import nn

from spanlab.config import Source, from_mapping, read_yaml_list
from spanlab.errors import ConfigError, did_you_mean
from spanlab.tasks.config import TuningConfig
from spanlab.tasks.model import ALL
from spanlab.tasks.table import TASKS
from spanlab.training.config import TrainingConfig

MULTITASK = "multitask"
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_OF_THE_RUN = ("seed", "tuning", "training")


@dataclass(frozen=True, kw_only=True)
class SharedDataConfig:
    """The `data` section of a run over several tasks; what is given goes over every task's own default."""

    length: int | None = None
    """Tokens of a sequence, for all tasks; None: what each task has."""
    bad_rows: Literal["refuse", "drop"] | None = None
    """Examples with a problem, for all tasks."""
    batch_tokens: int = 16384
    """The most tokens computed at once."""
    group_by_length: bool = True
    """Draw the samples of a step from those of similar length."""

    def of_all_tasks(self) -> dict[str, Any]:
        """What every task is told."""
        return {name: value for name, value in vars(self).items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class MultitaskConfig:
    """The settings that the tasks of a run share; learning rate, batch and epochs are those of MT-DNN."""

    sampling: Literal["proportional", "temperature", "uniform"] = "proportional"
    """How often each task's turn comes: by its samples, by a root of their number, or equally often."""
    temperature: float = 2.0
    """Of sampling=temperature: shares are samples ** (1 / temperature); 1 is proportional, large ones uniform."""
    weighting: Literal["fixed", "uncertainty"] = "fixed"
    """The losses' weights: those of the list, or learnt beside them from how uncertain each task is."""
    task_embeddings: bool = False
    """Add a learnt vector of the task to every embedded token; texts are then encoded for each task."""
    choose_by: str = "mean"
    """What the best model is chosen by: the mean of the tasks' scores on dev, or the score of the task named."""
    seed: int = 0
    data: SharedDataConfig = field(default_factory=SharedDataConfig)
    tuning: TuningConfig = field(default_factory=TuningConfig)
    training: TrainingConfig = field(
        # Losses of different tasks are of different sizes: what is a spike in one is usual from one to the next.
        default_factory=lambda: TrainingConfig(lr=5e-5, batch_size=32, epochs=5.0, spike_factor=10.0)
    )

    def __post_init__(self) -> None:
        if self.temperature < 1:
            raise ConfigError(f"'temperature' is {self.temperature}; it must be at least 1")


@dataclass(frozen=True, kw_only=True)
class TaskEntry:
    """One task of the list."""

    name: str
    """What its head is called, and `--task` asks for."""
    task: str
    train: str
    dev: str | None = None
    weight: float = 1.0
    """A factor on its loss."""
    batch_size: int | None = None
    """Samples of its steps; None: as all, or as published for a task whose samples are whole documents."""
    settings: dict[str, Any] = field(default_factory=dict)
    """The task's own keys and its `data` section, as `spanlab finetune` takes them."""

    def __post_init__(self) -> None:
        if self.weight <= 0:
            raise ConfigError(f"'weight' is {self.weight}; it must be above 0", fix="leave the task out instead")
        if self.batch_size is not None and self.batch_size < 1:
            raise ConfigError(f"'batch_size' is {self.batch_size}; it must be at least 1")


@dataclass(frozen=True, kw_only=True)
class ListedTask:
    """An entry, its files found, with its place in the list for errors about its settings."""

    entry: TaskEntry
    source: Source


def read_task_list(path: str | Path) -> tuple[ListedTask, ...]:
    """The tasks of a list; paths in it count from the list's folder, or from where the command runs."""
    listed: dict[str, ListedTask] = {}
    for mapping, source in read_yaml_list(path):
        entry = from_mapping(
            TaskEntry, {**mapping, "name": str(mapping["name"])} if "name" in mapping else mapping, source
        )
        check_name(entry.name, listed, source)
        if entry.task not in TASKS:
            cause = f"unknown task '{entry.task}'{did_you_mean(entry.task, TASKS)}"
            raise source.error(("task",), cause, f"use one of {', '.join(TASKS)}")
        for key in _OF_THE_RUN:
            if key in entry.settings:
                fix = "give it to the command, for all tasks"
                raise source.error(("settings", key), f"'{key}' is a setting of the whole run", fix)
        found = {key: _find(getattr(entry, key), key, source, Path(path).parent) for key in ("train", "dev")}
        values = {**vars(entry), **{key: value for key, value in found.items() if value is not None}}
        listed[entry.name] = ListedTask(entry=TaskEntry(**values), source=source)
    if not listed:
        raise ConfigError("the list has no task", path=path, fix="write '- {name: …, task: …, train: …, dev: …}'")
    return tuple(listed.values())


def check_name(name: str, taken: Mapping[str, object], source: Source | None = None) -> None:
    """Refuse a name that is taken, or that no head can have."""
    source = source or Source()
    if name in taken:
        raise source.error(("name",), f"there is a task '{name}' already", "give each task a name of its own")
    if not _NAME.fullmatch(name) or name == ALL or hasattr(nn.ModuleDict(), name):
        fix = "use letters, digits, - and _" if not _NAME.fullmatch(name) else "choose another word"
        raise source.error(("name",), f"a task cannot be called '{name}'", fix)


def _find(path: str | None, key: str, source: Source, folder: Path) -> str | None:
    """Where a file of the list is; None where none is named."""
    if path is None:
        return None
    for place in (folder / path, Path(path)):
        if place.exists():
            return str(place)
    raise source.error((key,), f"no such file: {path}", "paths count from the folder of the list")
