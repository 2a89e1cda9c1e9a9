"""A loaded model under its name: what it can be asked, and which parts answer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from spanlab.encoder import ElmoEncoder, load_model
from spanlab.errors import ConfigError, InputError, did_you_mean
from spanlab.inference.fill import Filler
from spanlab.inference.load import load
from spanlab.inference.predictor import Predictor
from spanlab.inference.torch_predictor import TorchPredictor
from spanlab.serving.refusals import RefusalError
from spanlab.tasks.base import AnyTask
from spanlab.training.config import Device, InferencePrecision

RESERVED = ("all", "fill", "embeddings", "models", "attention", "attribution", "runs")
"""Names under `/v1/` that no task can have."""


@dataclass(frozen=True, kw_only=True)
class ServedModel:
    """One loaded model."""

    name: str
    predictor: Predictor
    filler: Filler | None = None
    """None without an MLM head."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """The model's own name of a task that is served under another."""
    source: str = ""
    """What it was loaded from, for whoever looks at the server."""

    @property
    def tasks(self) -> Mapping[str, AnyTask]:
        """The tasks by the name they are served under."""
        served = {own: name for name, own in self.aliases.items()}
        return {served.get(own, own): task for own, task in self.predictor.model.tasks.items()}

    def own_name(self, task: str) -> str:
        """The model's name of a task."""
        return self.aliases.get(task, task)

    def describe(self) -> dict[str, Any]:
        """What the model can be asked, for clients that show a choice."""
        tasks = [
            {
                "name": name,
                "task": task.name,
                "fields": list(task.shape.required),
                "optional": list(optional_fields(task)),
                "labels": list((task.name == "ner" and task.fitted.entity_labels) or task.fitted.labels),
            }
            for name, task in self.tasks.items()
        ]
        layers = self.predictor
        attends = isinstance(layers, TorchPredictor) and not isinstance(layers.model.encoder, ElmoEncoder)
        return {"tasks": tasks, "fill": self.filler is not None, "embed": True, "attention": attends}


def optional_fields(task: AnyTask) -> tuple[str, ...]:
    """The fields that an input may have beside the required ones, or in their place."""
    instead = [name for names in task.shape.instead.values() for name in names]
    return tuple(dict.fromkeys((*instead, *task.shape.optional, "id")))


def load_served(
    models: Sequence[str],
    *,
    tasks: Mapping[str, str] | None = None,
    device: Device = "auto",
    precision: InferencePrecision | None = None,
) -> tuple[ServedModel, ...]:
    """Load models under the names of their folders; `tasks` says which of them answers a task, by its name.

    A model with one task answers it under any name; one with several must have a task of that name.
    """
    chosen = dict(tasks or {})
    served: list[ServedModel] = []
    for source in dict.fromkeys((*models, *chosen.values())):
        predictor = load(source, device=device, precision=precision)
        name = _free_name(source, {model.name for model in served})
        aliases = {}
        for task, asked in chosen.items():
            if asked == source and task not in predictor.model.tasks:
                aliases[task] = predictor.model.name_of(None)
        filler = _filler(predictor, device)
        served.append(ServedModel(name=name, predictor=predictor, filler=filler, aliases=aliases, source=source))
    for model in served:
        for task in model.tasks:
            if task in RESERVED or "/" in task:
                fix = f"serve it under another name: --task NAME={model.source}"
                raise InputError(f"a task cannot be served as '{task}'", path=model.source, fix=fix)
    first = {source: index for index, source in enumerate(chosen.values())}
    return tuple(sorted(served, key=lambda model: first.get(model.source, len(first))))


def _free_name(source: str, taken: set[str]) -> str:
    """The name of a model: its folder, or the name or id it was asked for by."""
    path = Path(source).expanduser()
    name = source
    if path.is_dir():
        path = path.resolve()
        name = path.parent.name if path.name == "model" else path.name
    number, free = 2, name
    while free in taken:
        free, number = f"{name}-{number}", number + 1
    return free


def _filler(predictor: Predictor, device: Device) -> Filler | None:
    """What fills masks with a model's own MLM head, over the encoder that is in memory; None without one."""
    folder = predictor.model.folder
    if not isinstance(predictor, TorchPredictor) or folder is None or predictor.model.tokenizer.mask_id is None:
        return None
    model = load_model(folder)
    if "mlm" in model.heads:
        for head in model.heads.values():
            head.eval()
        return Filler.from_model(replace(model, encoder=predictor.model.encoder), predictor.model.tokenizer)
    return Filler(folder, device=device) if (folder / "generator").is_dir() else None


def find_model(models: Sequence[ServedModel], name: str | None, *, task: str | None = None) -> ServedModel:
    """The model of a name, or the first that has the task; refused where there is none."""
    if name is not None:
        names = [model.name for model in models]
        if name not in names:
            message = f"no model '{name}'{did_you_mean(name, names)}; there are {', '.join(names)}"
            raise RefusalError(404, "unknown_model", message, where="model")
        models = [model for model in models if model.name == name]
    if task is None:
        return models[0]
    for model in models:
        if task in model.tasks:
            return model
    known = list(dict.fromkeys(task for model in models for task in model.tasks))
    message = f"no task '{task}'{did_you_mean(task, known)}; there are {', '.join(known) or 'none'}"
    raise RefusalError(404, "unknown_task", message, where="path")


def check_models(models: Sequence[ServedModel]) -> None:
    """Raise where there is no model to serve."""
    if not models:
        raise ConfigError("no model to serve", fix="name one, such as spanlab serve reader")
