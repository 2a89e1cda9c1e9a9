"""A fine-tuned model: one encoder and its tasks with their heads, loaded from and saved to a folder.

A model of one task whose head transformers has a class for is saved as that class; all other heads are saved in
`heads.safetensors`, and the adapters of a task there under `NAME/own`. Labels, thresholds, window and task settings are
in `spanlab.json`.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import nn
from typing_extensions import override

from spanlab.encoder import Encoder, Model, load_model
from spanlab.encoder.config import EncoderConfig
from spanlab.encoder.pretrained import class_of, locate_model, save_model
from spanlab.encoder.pretrained.checked_weights import build_with_weights, check_fit, check_missing, lay_out
from spanlab.errors import ConfigError
from spanlab.tasks.adapters import TaskAdapters, merged
from spanlab.tasks.base import AnyTask
from spanlab.tasks.config import TaskAdapterConfig
from spanlab.tasks.fitted import (
    FittedTasks,
    TaskDescription,
    consistent,
    describe_task,
    read_descriptions,
    read_part,
    read_task,
    task_folder,
)
from spanlab.tasks.from_transformers import derive_tasks
from spanlab.tasks.head import Head, StandardHead
from spanlab.text import Tokenizer


@dataclass(frozen=True, kw_only=True)
class TaskModel(FittedTasks):
    """One encoder with the heads of one or more tasks."""

    encoder: Encoder
    heads: Mapping[str, Head] = field(default_factory=dict)
    adapters: Mapping[str, TaskAdapters] = field(default_factory=dict)
    """Per-task parameters inside the encoder, for the tasks that have any."""

    @property
    @override
    def shape(self) -> EncoderConfig:
        return self.encoder.config


def save_task_model(folder: Path, model: TaskModel) -> None:
    """Write the folder; adapters are merged into the encoder's matrices."""
    encoder = merged(model.encoder)
    described = {name: describe_task(task, _adapter_config(model, name)) for name, task in model.tasks.items()}
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
        task.save_files(task_folder(folder, name))


def _adapter_config(model: TaskModel, name: str) -> TaskAdapterConfig | None:
    return model.adapters[name].config if name in model.adapters else None


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


def load_task_model(folder_or_id: str | Path, *, revision: str | None = None) -> TaskModel:
    """The model in a folder, a run, the box or a Hugging Face repository; one without tasks can only embed."""
    folder = locate_model(folder_or_id, revision=revision)
    model = load_model(folder)
    path = folder / "spanlab.json"
    described = read_descriptions(model.described, path)
    for name in described:
        if hasattr(nn.ModuleDict(), name):
            raise ConfigError(f"a task cannot be called '{name}'", path=path, fix="restore the file")
    tasks = {name: read_task(entry, path) for name, entry in described.items()}
    if not tasks:
        tasks, model = derive_tasks(model, folder)
    for name, task in tasks.items():
        task.load_files(task_folder(folder, name))
    heads = {name: _load_head(model, name, task, folder) for name, task in tasks.items()}
    configs = {name: read_part(TaskDescription, entry, path).own for name, entry in described.items()}
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
    with consistent(folder / "spanlab.json"):
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
