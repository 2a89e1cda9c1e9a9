"""A fine-tuned model: one encoder and its tasks with their heads, loaded from and saved to a folder.

A model of one task whose head transformers has a class for is saved as that class; all other heads are saved in
`heads.safetensors`, and the adapters of a task there under `NAME/own`. Labels, thresholds, window and task settings are
in `spanlab.json`.
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from torch import nn

from spanlab.config import Source, from_mapping, merge, to_mapping
from spanlab.encoder import Encoder, Model, load_model
from spanlab.encoder.pretrained import class_of, locate_model, save_model
from spanlab.encoder.pretrained.checked_weights import build_with_weights, check_fit, check_missing, lay_out
from spanlab.errors import ConfigError, InputError, SpanlabError, did_you_mean
from spanlab.tasks.adapters import TaskAdapterConfig, TaskAdapters, merged
from spanlab.tasks.base import AnyTask, FittedState
from spanlab.tasks.config import TaskConfig, TaskDataConfig
from spanlab.tasks.from_transformers import derive_tasks
from spanlab.tasks.head import Head, StandardHead
from spanlab.tasks.table import find_task
from spanlab.tasks.windows import Windower
from spanlab.text import Tokenizer

Part = TypeVar("Part")
ALL = "all"
"""In place of the name of a task: all tasks of the model."""
_SHARED = {field.name for field in fields(TaskConfig)}


@dataclass(frozen=True, kw_only=True)
class TaskModel:
    """One encoder with the heads of one or more tasks."""

    encoder: Encoder
    tokenizer: Tokenizer
    tasks: Mapping[str, AnyTask] = field(default_factory=dict)
    """By the name of the head."""
    heads: Mapping[str, Head] = field(default_factory=dict)
    adapters: Mapping[str, TaskAdapters] = field(default_factory=dict)
    """Per-task parameters inside the encoder, for the tasks that have any."""
    system: str | None = None
    folder: Path | None = None

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
        return windower_for(self.encoder, self.tokenizer, self.tasks[task].config.data)


def windower_for(encoder: Encoder, tokenizer: Tokenizer, data: TaskDataConfig) -> Windower:
    """The windower of a model: windows of `data.length` tokens, or of the encoder's positions if these are fewer."""
    length = min(data.length, encoder.config.max_positions)
    return Windower(
        tokenizer, length=length, stride=data.stride, long_text=data.long_text, segments=encoder.config.segments
    )


def save_task_model(folder: Path, model: TaskModel) -> None:
    """Write the folder; adapters are merged into the encoder's matrices."""
    encoder = merged(model.encoder)
    described = {name: describe_task(task, model.adapters.get(name)) for name, task in model.tasks.items()}
    # One task under its own name and without adapters is saved as a model of this task alone.
    alone = (
        not model.adapters and list(described) == [task.name for task in model.tasks.values()] and len(described) == 1
    )
    standard = model.heads[next(iter(model.tasks))].standard if alone else None
    heads: dict[str, nn.Module] = {}
    tasks = dict[str, nn.Module](model.heads)
    tasks |= {_adapters_key(name): adapters for name, adapters in model.adapters.items()}
    config_keys: dict[str, Any] = {}
    if standard is not None and class_of(encoder, standard.kind) is not None:
        heads, tasks, config_keys = {standard.kind: standard.layer}, {}, _label_keys(standard)
    about = next(iter(described.values())) if alone else {"task": "multitask", "tasks": described}
    save_model(folder, encoder, heads, system=model.system, tasks=tasks, described=about, config_keys=config_keys)
    model.tokenizer.save(folder)
    for name, task in model.tasks.items():
        task.save_files(_task_folder(folder, name))


def _task_folder(folder: Path, name: str) -> Path:
    """Where the files of a task are, if it has any."""
    return folder / "tasks" / name


def _label_keys(head: StandardHead) -> dict[str, Any]:
    """`id2label` and `label2id` of transformers' config; answers and tokens have none."""
    if head.kind in {"answer", "clm"}:
        return {}
    names = head.labels or ("score",)
    return {
        "id2label": {str(index): name for index, name in enumerate(names)},
        "label2id": {name: index for index, name in enumerate(names)},
    }


def _adapters_key(name: str) -> str:
    """The prefix of a task's adapters in `heads.safetensors`; no task can have this name."""
    return f"{name}/own"


def describe_task(task: AnyTask, adapters: TaskAdapters | None = None) -> dict[str, Any]:
    """What `spanlab.json` says about a task."""
    settings = {name: value for name, value in to_mapping(task.config).items() if name not in _SHARED}
    data = task.config.data
    return {
        "task": task.name,
        **to_mapping(task.fitted),
        "window": {"length": data.length, "stride": data.stride, "long_text": data.long_text},
        "settings": settings,
        **({"columns": list(data.columns)} if data.columns else {}),
        **({} if adapters is None else {"own": to_mapping(adapters.config)}),
    }


@dataclass(frozen=True, kw_only=True)
class _Description:
    """What `spanlab.json` says about a task beside its `FittedState`."""

    task: str
    columns: tuple[str, ...] = ()
    window: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    own: TaskAdapterConfig | None = None


def _read_part(part: type[Part], described: Mapping[str, Any], path: Path) -> Part:
    """The keys of a description that are fields of `part`, checked."""
    names = {each.name for each in fields(part)}  # type: ignore[arg-type]
    about = {name: value for name, value in described.items() if name in names}
    return from_mapping(part, about, Source(path=str(path)))


def read_task(described: Mapping[str, Any], path: Path) -> AnyTask:
    """The task of a description that `describe_task` made."""
    about, fitted = _read_part(_Description, described, path), _read_part(FittedState, described, path)
    task_class = find_task(about.task)
    mapping = merge(about.settings, {"data": {**about.window, "columns": about.columns}})
    config = from_mapping(task_class.Config, merge(to_mapping(task_class.Config()), mapping), Source(path=str(path)))
    with _consistent(path):
        task = task_class(config, fitted)
        task.check_fitted()
    return task


@contextmanager
def _consistent(path: Path) -> Iterator[None]:
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


def _read_tasks(described: Mapping[str, Any], path: Path) -> dict[str, Mapping[str, Any]]:
    """The description of each task by its name; empty if the model has none, or none of SpanLab's."""
    if "tasks" not in described:
        return {_read_part(_Description, described, path).task: described} if "task" in described else {}
    tasks = described["tasks"]
    if not isinstance(tasks, dict) or not all(isinstance(entry, dict) for entry in tasks.values()):
        raise ConfigError("'tasks' must be a section for each task", path=path, fix="restore the file")
    for name in tasks:
        if not name or "." in name or hasattr(nn.ModuleDict(), name):
            raise ConfigError(f"a task cannot be called '{name}'", path=path, fix="restore the file")
    return tasks


def load_task_model(folder_or_id: str | Path, *, revision: str | None = None) -> TaskModel:
    """The model in a folder, a run, the box or a Hugging Face repository; one without tasks can only embed."""
    folder = locate_model(folder_or_id, revision=revision)
    model = load_model(folder)
    path = folder / "spanlab.json"
    described = _read_tasks(model.described, path)
    tasks = {name: read_task(entry, path) for name, entry in described.items()}
    if not tasks:
        tasks, model = derive_tasks(model, folder)
    for name, task in tasks.items():
        task.load_files(_task_folder(folder, name))
    heads = {name: _load_head(model, name, task, folder) for name, task in tasks.items()}
    configs = {name: _read_part(_Description, entry, path).own for name, entry in described.items()}
    adapters = {
        name: _load_adapters(model, name, config, folder) for name, config in configs.items() if config is not None
    }
    return TaskModel(
        encoder=model.encoder,
        tokenizer=Tokenizer.load(folder),
        tasks=tasks,
        heads=heads,
        adapters=adapters,
        system=model.described.get("system"),
        folder=folder,
    )


def _load_head(model: Model, name: str, task: AnyTask, folder: Path) -> Head:
    """A head with its weights, saved under transformers' names or SpanLab's."""
    part = f"{name}."
    with _consistent(folder / "spanlab.json"):
        layout = lay_out(lambda: task.head(_stand_in(model.encoder)), folder)
    standard = layout.standard
    if standard is not None and standard.kind in model.heads and name not in model.tasks:
        weights = model.heads[standard.kind].state_dict()
        check_fit(standard.layer, weights, folder, part=part)
    else:
        weights, standard = model.tasks.get(name, {}), None
        check_fit(layout, weights, folder, part=part)
    had_pooler = model.encoder.pooler is not None
    head = task.head(model.encoder)
    if model.encoder.pooler is not None and not had_pooler:
        check_missing([f"pooler.{key}" for key in model.encoder.pooler.state_dict()], folder)
    module: nn.Module = head
    if standard is not None and head.standard is not None:
        module = head.standard.layer
    module.load_state_dict({key: weights[key] for key in module.state_dict()})
    return head


def _stand_in(encoder: Encoder) -> Encoder:
    """The encoder for a head that is only laid out: a pooler that the head gives it stays with the copy."""
    stand_in = copy.copy(encoder)
    stand_in._modules = dict(encoder._modules)
    return stand_in


def _load_adapters(model: Model, name: str, config: TaskAdapterConfig, folder: Path) -> TaskAdapters:
    """The adapters of a task, with their weights."""
    weights = model.tasks.get(_adapters_key(name), {})
    return build_with_weights(lambda: TaskAdapters(model.encoder, config), weights, folder, part=f"{name}.own.")
