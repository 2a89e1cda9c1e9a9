"""The YAML list of tasks of a multitask run, and the settings that each of them is trained with.

An unknown task or key, a duplicate name or a missing file is an error with the line of the entry, before any labelled
file is read.
"""

import os
import re
from collections.abc import Container
from dataclasses import replace
from pathlib import Path

from torch import nn

from spanlab.config import Source, from_mapping, merge, read_yaml_list
from spanlab.errors import ConfigError, did_you_mean
from spanlab.finetuning.config import MultitaskConfig, resolve_config
from spanlab.finetuning.task_data import TaskEntry
from spanlab.tasks.config import TaskConfig
from spanlab.tasks.fitted import ALL
from spanlab.tasks.formats.aligned import files_of
from spanlab.tasks.table import TASKS

_NAME = re.compile(r"[A-Za-z0-9_-]+")
_SHARED_SECTIONS = ("seed", "tuning", "training")


def read_task_list(path: str | Path) -> list[tuple[TaskEntry, Source]]:
    """The entries of a list, each with its location for errors about its settings.

    Paths in the list are relative to the folder of the list, or else to the working directory.
    """
    entries: dict[str, tuple[TaskEntry, Source]] = {}
    for mapping, source in read_yaml_list(path):
        name = {"name": str(mapping["name"])} if "name" in mapping else {}
        entry = from_mapping(TaskEntry, {**mapping, **name}, source)
        check_task_name(entry.name, entries, source)
        if entry.task not in TASKS:
            cause = f"unknown task '{entry.task}'{did_you_mean(entry.task, TASKS)}"
            raise source.error(("task",), cause, f"use one of {', '.join(TASKS)}")
        for key in _SHARED_SECTIONS:
            if key in entry.settings:
                fix = "give it on the command line, for all tasks"
                raise source.error(("settings", key), f"'{key}' is a setting of the whole run", fix)
        train = _locate(entry.train, "train", source, Path(path).parent)
        dev = None if entry.dev is None else _locate(entry.dev, "dev", source, Path(path).parent)
        entries[entry.name] = replace(entry, train=train, dev=dev), source
    if not entries:
        raise ConfigError("the list has no task", path=path, fix="write '- {name: …, task: …, train: …, dev: …}'")
    return list(entries.values())


def check_task_name(name: str, taken: Container[str], source: Source | None = None) -> None:
    """Reject the name of another task, and names that the module of a head cannot have."""
    source = source or Source()
    if name in taken:
        raise source.error(("name",), f"the name '{name}' is taken by another task", "give each task a different name")
    if not _NAME.fullmatch(name) or name == ALL or hasattr(nn.ModuleDict(), name):
        fix = "use letters, digits, - and _" if not _NAME.fullmatch(name) else "choose another name"
        raise source.error(("name",), f"a task cannot be called '{name}'", fix)


def _locate(file: str, key: str, source: Source, folder: Path) -> str:
    names = files_of(file)
    for base in (folder, Path()):
        paths = [base / name for name in names]
        if all(map(os.path.exists, paths)):  # false, not an error, for a name that is too long
            return ",".join(map(str, paths))
    raise source.error((key,), f"no such file: {file}", "paths are relative to the folder of the list")


def task_config(entry: TaskEntry, source: Source, shared: MultitaskConfig) -> TaskConfig:
    """The settings of one task of the list: its own, with seed, tuning and training of the run."""
    changes = merge({"data": shared.data.overrides()}, entry.settings)
    config = resolve_config(entry.task, changes, source.within("settings"))
    batch_size = entry.batch_size
    if batch_size is None:
        # Tasks published with unusually small batches (samples are whole documents) are not given larger ones.
        batch_size, published = shared.training.batch_size, config.training.batch_size
        if published < TaskConfig().training.batch_size:
            batch_size = min(published, batch_size)
    training = replace(shared.training, batch_size=batch_size, lr_factors=config.training.lr_factors)
    return replace(config, seed=shared.seed, tuning=shared.tuning, training=training)
