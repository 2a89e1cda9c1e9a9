"""Folders of task models that nobody vouches for: loading ends in success or one typed line, soon, without memory."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from spanlab.errors import SpanlabError
from spanlab.tasks.adapters import TaskAdapters
from spanlab.tasks.base import FittedState
from spanlab.tasks.classification import Classification, ClassificationConfig
from spanlab.tasks.config import TaskAdapterConfig
from spanlab.tasks.model import TaskModel, load_task_model, save_task_model
from spanlab.tasks.ner.config import NerConfig
from spanlab.tasks.ner.task import NamedEntities
from spanlab.tasks.relation.config import RelationConfig
from spanlab.tasks.relation.task import Relations
from tests.encoder.test_hostile_folders import bounded, edit_weights
from tests.tasks.making import TOKENIZER, tiny_encoder

HUGE = 10**9


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three tasks on one encoder, one of them with adapters."""
    folder = tmp_path_factory.mktemp("model")
    encoder = tiny_encoder()
    tasks = {
        "topics": Classification(ClassificationConfig(), FittedState(labels=("sport", "water"))),
        "names": NamedEntities(
            NerConfig(head="span", units="word", nested=False),
            FittedState(labels=("O", "person"), entity_labels=("person",)),
        ),
        "links": Relations(RelationConfig(head="pairs"), FittedState(labels=("knows",), entity_labels=("person",))),
    }
    adapters = {"topics": TaskAdapters(encoder, TaskAdapterConfig(lora=2, pooler=True, embedding=True))}
    heads = {name: task.head(encoder) for name, task in tasks.items()}
    save_task_model(
        folder, TaskModel(encoder=encoder, tokenizer=TOKENIZER, tasks=tasks, heads=heads, adapters=adapters)
    )
    return folder


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    shutil.copytree(saved, tmp_path / "model")
    return tmp_path / "model"


def change(folder: Path, keys: str, value: Any) -> None:
    """Set the value at a path of keys."""
    path = folder / "spanlab.json"
    content = section = json.loads(path.read_text())
    *parents, last = keys.split("/")
    for parent in parents:
        section = section[parent]
    section[last] = value
    path.write_text(json.dumps(content))


REFUSED: dict[str, tuple[str, Any, str]] = {
    "tasks": ("tasks", 5, "'tasks' must be a section for each task"),
    "list of tasks": ("tasks", [1], "'tasks' must be a section"),
    "no task": ("tasks/topics", None, "'tasks' must be a section"),
    "text": ("tasks/topics", "x", "'tasks' must be a section"),
    "name": ("tasks/a.b", {"task": "qa"}, "a task cannot be called 'a.b'"),
    "empty name": ("tasks/", {"task": "qa"}, "a task cannot be called ''"),
    "name of a method": ("tasks/keys", {"task": "qa"}, "a task cannot be called 'keys'"),
    "kind": ("tasks/topics/task", 5, "'task' is 5; it must be text"),
    "unknown kind": ("tasks/topics/task", "x", "unknown task 'x'"),
    "no kind": ("tasks/topics", {}, "'task' is missing"),
    "labels": ("tasks/topics/labels", 5, "'labels' is 5"),
    "label": ("tasks/topics/labels", [1, 2], "'labels' is 1; it must be text"),
    "more labels": ("tasks/topics/labels", ["a", "b", "c"], "'topics.layer.classifier.weight' has shape .2, "),
    "many labels": ("tasks/topics/labels", [str(number) for number in range(100_000)], "has shape"),
    "counts": ("tasks/topics/label_counts", ["a"], "'label_counts' is 'a'"),
    "thresholds": ("tasks/topics/thresholds", {"a": "b"}, "'thresholds.a' is 'b'"),
    "threshold list": ("tasks/topics/thresholds", [1], "'thresholds' is"),
    "window": ("tasks/topics/window", 5, "'window' is 5"),
    "length": ("tasks/topics/window", {"length": "x"}, "'data.length' is 'x'"),
    "stride": ("tasks/topics/window", {"stride": 0}, "'data.stride' is 0"),
    "settings": ("tasks/topics/settings", [], "'settings' is"),
    "setting": ("tasks/topics/settings", {"x": 1}, "unknown key 'x'"),
    "columns": ("tasks/topics/columns", 5, "'columns' is 5"),
    "entity labels": ("tasks/names/entity_labels", [], "'labels', 'entity_labels' and the settings do not go together"),
    "units": ("tasks/names/settings/units", "auto", "do not go together"),
    "label sets": ("tasks/topics/settings/multi_label", True, "'thresholds' has no 'labels'"),
    "head": ("tasks/links/settings/head", "auto", "do not go together"),
    "width": ("tasks/names/settings/max_width", HUGE, "max_width|has shape"),
    "adapters": ("tasks/topics/own", 5, "'own' is 5"),
    "adapter": ("tasks/topics/own", {"x": 1}, "unknown key 'own.x'"),
    "rank": ("tasks/topics/own/lora", HUGE, "'own.lora' is 1000000000; it must be"),
    "high rank": ("tasks/topics/own/lora", 65_536, "'topics.own.adapters.0.down' has shape .2, "),
    "rank of another type": ("tasks/topics/own/lora", "2", "'own.lora' is '2'"),
    "negative rank": ("tasks/topics/own/lora", -1, "'own.lora' is -1"),
    "another adapter": ("tasks/names/own", {"lora": 2}, "missing weights: names.own"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_description(name: str, folder: Path) -> None:
    keys, value, message = REFUSED[name]
    change(folder, keys, value)
    with pytest.raises(SpanlabError, match=message), bounded():
        load_task_model(folder)


def test_every_value_of_another_type(folder: Path) -> None:
    """Success or a typed error, whatever stands in place of any value."""
    path = folder / "spanlab.json"
    original = path.read_text()

    def sections(value: Any, prefix: str = "") -> list[str]:
        if not isinstance(value, dict):
            return []
        return [
            place for key, item in value.items() for place in (f"{prefix}{key}", *sections(item, f"{prefix}{key}/"))
        ]

    for place in sections(json.loads(original)):
        for value in (None, HUGE, -1, 0.5, "x", [], {}, [[]], True):
            path.write_text(original)
            change(folder, place, value)
            with bounded():
                try:
                    load_task_model(folder)
                except SpanlabError:
                    continue


def test_weights(folder: Path) -> None:
    name = "tasks__topics__layer__classifier__bias"
    edit_weights(folder / "heads.safetensors", **{name: lambda t: t + float("nan")})
    with pytest.raises(SpanlabError, match=r"'topics.layer.classifier.bias' is not finite"):
        load_task_model(folder)
    edit_weights(folder / "heads.safetensors", **{name: torch.zeros(2)})
    adapter = "tasks__topics/own__adapters__0__down"
    edit_weights(folder / "heads.safetensors", **{adapter: lambda t: t / 0})
    with pytest.raises(SpanlabError, match=r"'topics.own.adapters.0.down' is not finite"):
        load_task_model(folder)
    edit_weights(folder / "heads.safetensors", **{adapter: None})
    with pytest.raises(SpanlabError, match=r"missing weights: topics.own.adapters.0.down"):
        load_task_model(folder)


def test_a_pooler_that_is_missing_is_not_made_up(folder: Path) -> None:
    tensors = folder / "model.safetensors"
    edit_weights(tensors, pooler__dense__weight=None, pooler__dense__bias=None)
    with pytest.raises(SpanlabError, match="missing weights"):
        load_task_model(folder)
