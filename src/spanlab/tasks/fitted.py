"""The tasks of a model without its layers: their names, labels and settings, and the tokenizer.

They are in `spanlab.json`. Whatever computes the layers, torch or ONNX Runtime, this is what a prediction begins and
ends with, and it needs neither.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Protocol, TypeVar

from spanlab.config import Source, from_mapping, merge, to_mapping
from spanlab.errors import ConfigError, InputError, SpanlabError, did_you_mean
from spanlab.tasks.base import AnyTask, FittedState
from spanlab.tasks.config import TaskAdapterConfig, TaskConfig, TaskDataConfig
from spanlab.tasks.table import find_task
from spanlab.tasks.windows import Windower
from spanlab.text import Tokenizer

Part = TypeVar("Part")
ALL = "all"
"""In place of the name of a task: all tasks of the model."""
_SHARED = {field.name for field in fields(TaskConfig)}


class InputShape(Protocol):
    """What an encoder takes and gives: an `EncoderConfig`, or what an exported folder says of one."""

    @property
    def width(self) -> int:
        """The width of the hidden states."""

    @property
    def max_positions(self) -> int:
        """How many tokens a sequence may have."""

    @property
    def segments(self) -> int:
        """The number of token types; 0 for none."""


@dataclass(frozen=True, kw_only=True)
class FittedTasks(ABC):
    """The tasks of a model with its tokenizer."""

    tokenizer: Tokenizer
    tasks: Mapping[str, AnyTask] = field(default_factory=dict)
    """By the name of the head."""
    system: str | None = None
    folder: Path | None = None

    @property
    @abstractmethod
    def shape(self) -> InputShape:
        """What the encoder takes and gives."""

    def name_of(self, task: str | None) -> str:
        """Checks the name of a task; None selects the only task of a model."""
        if task is None and len(self.tasks) == 1:
            return next(iter(self.tasks))
        if not self.tasks:
            fix = f"fine-tune it first: spanlab finetune TASK --model {self.folder or 'MODEL'} …"
            raise InputError("the model has no task: it is an encoder only", path=self.folder, fix=fix)
        known = ", ".join(self.tasks)
        if task is None:
            raise InputError(f"the model's tasks are {known}", path=self.folder, fix="choose one with --task or task=")
        if task not in self.tasks:
            raise InputError(f"no task '{task}'{did_you_mean(task, self.tasks)}; there are {known}", path=self.folder)
        return task

    def names_of(self, tasks: str | Sequence[str] | None) -> tuple[str, ...]:
        """Checks the names of one or more tasks; `ALL` selects every task, None the only one."""
        if tasks == ALL:
            return tuple(self.tasks) or (self.name_of(None),)
        names = (tasks,) if tasks is None or isinstance(tasks, str) else tasks
        return tuple(dict.fromkeys(map(self.name_of, names)))

    def names_for(self, values: Mapping[str, Any]) -> tuple[str, ...]:
        """The tasks whose required fields a mapping has: what `ALL` selects for an input."""
        names = self.names_of(ALL)
        fitting = tuple(name for name in names if self.tasks[name].shape.fits(values))
        if not fitting:
            needed = "; ".join(f"{name}: {', '.join(self.tasks[name].shape.required)}" for name in names)
            given = ", ".join(map(str, values)) or "nothing"
            raise InputError(f"no task of the model takes what is given ({given})", fix=f"the tasks need {needed}")
        return fitting

    def windower(self, task: str) -> Windower:
        """How this model cuts the texts of a task into input windows."""
        return windower_for(self.shape, self.tokenizer, self.tasks[task].config.data)


def windower_for(shape: InputShape, tokenizer: Tokenizer, data: TaskDataConfig) -> Windower:
    """The windower of a model: windows of `data.length` tokens, or of the encoder's positions if these are fewer."""
    length = min(data.length, shape.max_positions)
    return Windower(tokenizer, length=length, stride=data.stride, long_text=data.long_text, segments=shape.segments)


def task_folder(folder: Path, name: str) -> Path:
    """Where the files of a task are, if it has any."""
    return folder / "tasks" / name


def describe_task(task: AnyTask, adapters: TaskAdapterConfig | None = None) -> dict[str, Any]:
    """What `spanlab.json` says about a task."""
    settings = {name: value for name, value in to_mapping(task.config).items() if name not in _SHARED}
    data = task.config.data
    return {
        "task": task.name,
        **to_mapping(task.fitted),
        "window": {"length": data.length, "stride": data.stride, "long_text": data.long_text},
        "settings": settings,
        **({"columns": list(data.columns)} if data.columns else {}),
        **({} if adapters is None else {"own": to_mapping(adapters)}),
    }


@dataclass(frozen=True, kw_only=True)
class TaskDescription:
    """What `spanlab.json` says about a task beside its `FittedState`."""

    task: str
    columns: tuple[str, ...] = ()
    window: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    own: TaskAdapterConfig | None = None


def read_part(part: type[Part], described: Mapping[str, Any], path: Path) -> Part:
    """The keys of a description that are fields of `part`, checked."""
    names = {each.name for each in fields(part)}  # type: ignore[arg-type]
    about = {name: value for name, value in described.items() if name in names}
    return from_mapping(part, about, Source(path=str(path)))


def read_task(described: Mapping[str, Any], path: Path) -> AnyTask:
    """The task of a description that `describe_task` made."""
    about, fitted = read_part(TaskDescription, described, path), read_part(FittedState, described, path)
    task_class = find_task(about.task)
    mapping = merge(about.settings, {"data": {**about.window, "columns": about.columns}})
    config = from_mapping(task_class.Config, merge(to_mapping(task_class.Config()), mapping), Source(path=str(path)))
    with consistent(path):
        task = task_class(config, fitted)
        task.check_fitted()
    return task


@contextmanager
def consistent(path: Path) -> Iterator[None]:
    """Turn what a task makes of settings and labels that no training leaves together into an error of their file."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(error.cause, path=error.path or path, fix=error.fix) from None
    except SpanlabError:
        raise
    except (LookupError, ArithmeticError, AssertionError, AttributeError, TypeError, ValueError):
        cause = "the settings and labels of a task do not go together"
        raise ConfigError(cause, path=path, fix="restore the file") from None


def read_descriptions(described: Mapping[str, Any], path: Path) -> dict[str, Mapping[str, Any]]:
    """The description of each task by its name; empty if the model has none, or none of SpanLab's."""
    if "tasks" not in described:
        return {read_part(TaskDescription, described, path).task: described} if "task" in described else {}
    tasks = described["tasks"]
    if not isinstance(tasks, dict) or not all(isinstance(entry, dict) for entry in tasks.values()):
        raise ConfigError("'tasks' must be a section for each task", path=path, fix="restore the file")
    for name in tasks:
        if not name or "." in name:
            raise ConfigError(f"a task cannot be called '{name}'", path=path, fix="restore the file")
    return tasks
