"""Writes docs/reference from the code: commands, settings and Python names, so that they can be read in the repository.

    python docs/write_reference.py

`tests/docs/test_reference.py` compares the pages with the code, so that they are never out of date.
"""

import ast
import dataclasses
import importlib
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import typer.main
from typer.core import TyperArgument, TyperCommand, TyperGroup

from spanlab.cli.main import app
from spanlab.compare.config import Study, StudyTask, Variant
from spanlab.config import Bound, section_class
from spanlab.encoder import ElmoConfig
from spanlab.finetuning.config import MultitaskConfig
from spanlab.finetuning.task_data import TaskEntry
from spanlab.pretraining.recipe import Recipe
from spanlab.tasks.config import TaskConfig
from spanlab.tasks.descriptions import DESCRIPTIONS
from spanlab.tasks.table import TASKS

FOLDER = Path(__file__).parent / "reference"
PYTHON = {
    "Training and loading": ("spanlab.pretrain", "spanlab.finetune", "spanlab.load", "spanlab.list_models"),
    "Results of a run": ("spanlab.workflows.run.RunResult",),
    "Comparisons": (
        "spanlab.compare.compare",
        "spanlab.compare.config.load_study",
        "spanlab.compare.run.run_study",
        "spanlab.compare.models.compare_models",
        "spanlab.metrics.confidence.compare_systems",
        "spanlab.metrics.confidence.Difference",
        "spanlab.metrics.score_counts.ScoreCounts",
    ),
    "Prediction": (
        "spanlab.inference.predictor.Predictor",
        "spanlab.tasks.result.Result",
        "spanlab.tasks.result.Scores",
        "spanlab.inference.fill.Filler",
        "spanlab.fill",
        "spanlab.score",
        "spanlab.to_frame",
    ),
    "Other libraries": (
        "spanlab.pipeline",
        "spanlab.SpanLabVectorizer",
        "spanlab.SpanLabClassifier",
        "spanlab.integrations.spacy.make_component",
    ),
    "Serving": (
        "spanlab.serving.app.create_app",
        "spanlab.serving.settings.ServeSettings",
        "spanlab.serving.served_model.load_served",
        "spanlab.serving.served_model.ServedModel",
    ),
    "Encoders": (
        "spanlab.Encoder",
        "spanlab.encoder.model.EncoderOutput",
        "spanlab.EncoderConfig",
        "spanlab.encoder.architectures.preset",
        "spanlab.encoder.pretrained.load.load_model",
        "spanlab.encoder.pretrained.save.save_model",
        "spanlab.SpanMasking",
        "spanlab.SpanBoundaryHead",
    ),
    "Text and corpora": (
        "spanlab.prepare",
        "spanlab.text.tokenizer.Tokenizer",
        "spanlab.text.train.TokenizerConfig",
        "spanlab.text.train.train_tokenizer",
        "spanlab.corpus.prepare.plan.plan_preparation",
        "spanlab.corpus.prepare.run.run_preparation",
        "spanlab.corpus.corpus.PreparedCorpus",
        "spanlab.corpus.order.SampleOrder",
    ),
    "Errors": (
        "spanlab.errors.SpanlabError",
        "spanlab.errors.InputError",
        "spanlab.errors.ConfigError",
        "spanlab.errors.WeightsError",
        "spanlab.errors.MissingHeadError",
        "spanlab.errors.MissingExtraError",
        "spanlab.errors.RunError",
    ),
}
"""The public names, by the section of their page."""


def commands_page() -> str:
    """Every command with its help, examples, arguments and options."""
    main = typer.main.get_command(app)
    assert isinstance(main, TyperGroup)
    parts = ["# Commands", "This page is generated from the commands; `spanlab COMMAND --help` shows the same."]
    parts += [
        "Exit codes: 0 success, 2 invalid input (one line says where and how to fix it), 130 Ctrl-C, 1 any other error."
    ]
    for name, command in sorted(leaves(main)):
        parts += list(_command(name, command))
    return "\n\n".join(parts) + "\n"


def leaves(group: TyperGroup, path: tuple[str, ...] = ()) -> Iterator[tuple[str, TyperCommand]]:
    """All commands (not groups), by their full names."""
    for name, inner in group.commands.items():
        if isinstance(inner, TyperGroup):
            yield from leaves(inner, (*path, name))
        elif isinstance(inner, TyperCommand):
            yield " ".join((*path, name)), inner


def _command(name: str, command: TyperCommand) -> Iterator[str]:
    yield f"## spanlab {name}"
    description, *examples = re.split(r"^Examples?:", inspect.cleandoc(command.help or ""), flags=re.MULTILINE)
    yield description.strip()
    lines = [line.strip() for part in examples for line in part.splitlines() if line.strip()]
    yield "```text\n" + "\n".join(lines) + "\n```"
    rows = ["| argument or option | description |", "|---|---|"]
    rows += [_parameter_row(parameter) for parameter in command.params if parameter.name != "help"]
    yield "\n".join(rows)


def _parameter_row(parameter: Any) -> str:  # noqa: ANN401 (typer's parameters)
    is_argument = isinstance(parameter, TyperArgument)
    name = (parameter.metavar or str(parameter.name)) if is_argument else ", ".join(parameter.opts)
    default = getattr(parameter, "default", None)
    plain = isinstance(default, str | int | float) and not isinstance(default, bool) and default != ""
    ending = " Required." if parameter.required else f" Default: `{default}`." if plain else ""
    return f"| `{name}` | {_cell(getattr(parameter, 'help', None) or '')}{ending} |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("[", "\\[").replace("<", "&lt;")


def settings_page() -> str:
    """Every key of a recipe and of each task, with type, default, bounds and meaning."""
    parts = [
        "# Settings",
        "Every key that can be set by `key=value` on the command line, in a YAML file, or by keyword arguments in "
        "Python. This page is generated from the config classes. An unknown key is an error that names the nearest "
        "known one; `--print-config` prints the resolved values.",
        "## Pre-training",
        "Defaults are those of the config classes; each recipe sets its own, which "
        "`spanlab pretrain RECIPE --print-config` prints.",
        _table(Recipe),
        "ELMo's encoder (`backbone=elmo`, the recipe `elmo`) has other keys in the section `encoder`:",
        _table(ElmoConfig, prefix="encoder."),
        "A recipe file may also have a section `sizes` with changes for each size, and inside a size a section "
        "`backbones` with changes for each backbone; [the shipped recipes](../pretraining.md) have both.",
        "## Fine-tuning, all tasks",
        "Defaults are the published ones. Where they are not given, `training.lr` and `training.lr_factors` follow "
        "from them by the width of the encoder, `training.epochs` by the number of examples ([how](../finetuning.md)).",
        _table(TaskConfig),
    ]
    common = {key for key, *_ in _rows(TaskConfig)}
    for name, task in TASKS.items():
        changed = _changed_defaults(task.Config)
        notes = [f"Other defaults: {changed}."] if changed else []
        parts += [f"## {name}", f"{DESCRIPTIONS[name][:1].upper()}{DESCRIPTIONS[name][1:]}.", *notes]
        parts.append(_table(task.Config, without=common))
    parts += ["## multitask", "Keys that the tasks of a list share; each task of the list has its own `settings`."]
    parts += [_table(MultitaskConfig), "Keys of an entry of the list:", _table(TaskEntry)]
    parts += ["## Studies", "Keys of a study file ([guide](../compare.md))."]
    parts += [
        _table(Study),
        "Of each of its `variants`:",
        _table(Variant),
        "Of each of its `tasks`:",
        _table(StudyTask),
    ]
    return "\n\n".join(parts) + "\n"


def _table(config: type, without: set[str] = frozenset(), prefix: str = "") -> str:  # type: ignore[assignment]
    rows = [row for row in _rows(config, prefix) if row[0] not in without]
    if not rows:
        return "No keys of its own."
    lines = ["| key | type | default | meaning |", "|---|---|---|---|"]
    lines += [f"| `{key}` | {kind} | {default} | {meaning} |" for key, kind, default, meaning in rows]
    return "\n".join(lines)


def _rows(config: type, prefix: str = "", base: object = None) -> Iterator[tuple[str, str, str, str]]:
    """(key, type with bounds, default, meaning) of every key, sections followed by their own."""
    hints, docs = get_type_hints(config, include_extras=True), field_docs(config)
    for field in dataclasses.fields(config):
        key, hint = f"{prefix}{field.name}", hints[field.name]
        value = getattr(base, field.name, dataclasses.MISSING)
        if value is dataclasses.MISSING:
            value = _default_of(field)
        inner = section_class(hint)
        if inner is not None:
            yield from _rows(inner, f"{key}.", value)
            continue
        yield key, _cell(_type(hint)), _default(value), _cell(docs.get(field.name, ""))
        keys_of = field.metadata.get("keys_of")
        if keys_of is not None:
            for name, kind, _, meaning in _rows(keys_of, f"{key}."):
                yield name, kind, "the backbone's", meaning


def _default_of(field: "dataclasses.Field[Any]") -> object:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _default(value: object) -> str:
    if value is dataclasses.MISSING:
        return "required"
    plain = {None: "null", True: "true", False: "false"}
    text = (
        plain[value]
        if value is None or isinstance(value, bool)
        else str(list(value) if isinstance(value, tuple) else value)
    )
    return f"`{text}`" if text else "–"


def _type(hint: Any) -> str:  # noqa: ANN401 (an annotation)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        bounds = " and ".join(str(bound) for bound in arguments[1:] if isinstance(bound, Bound))
        return f"{_type(arguments[0])}, {bounds}" if bounds else _type(arguments[0])
    if origin is Literal:
        return " / ".join(f"{choice}" for choice in arguments)
    if origin is Union or (origin is not None and origin.__name__ == "UnionType"):
        return " or ".join(_type(argument) for argument in arguments)
    if origin is tuple:
        inner = arguments[:1] if arguments[1:] == (Ellipsis,) else arguments
        return f"list of {', '.join(_type(argument) for argument in inner)}"
    if origin is dict:
        return f"mapping of names to {_type(arguments[1])}"
    names = {int: "whole number", float: "number", str: "text", bool: "true / false", type(None): "null", Any: "any"}
    return names.get(hint, getattr(hint, "__name__", str(hint)))


def _changed_defaults(config: type) -> str:
    """The keys of all tasks whose default a task changes."""
    common = {key: default for key, _, default, _ in _rows(TaskConfig)}
    changed = [(key, default) for key, _, default, _ in _rows(config) if common.get(key, default) != default]
    return ", ".join(f"`{key}` {default}" for key, default in changed)


def field_docs(config: type) -> dict[str, str]:
    """The docstring below each field of a dataclass, those of its bases included."""
    docs: dict[str, str] = {}
    for cls in reversed(config.__mro__):
        if not dataclasses.is_dataclass(cls):
            continue
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
        assert isinstance(tree, ast.ClassDef)
        for statement, following in zip(tree.body, [*tree.body[1:], None], strict=True):
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                is_doc = isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
                docs[statement.target.id] = str(following.value.value) if is_doc else ""  # type: ignore[union-attr]
    return docs


def python_page() -> str:
    """The public names with their signatures and docstrings."""
    parts = [
        "# Python",
        "Generated from the docstrings of the library. Anything that is not on this page may change between versions.",
    ]
    for section, names in PYTHON.items():
        parts.append(f"## {section}")
        for name in names:
            parts += list(_python_name(name))
    return "\n\n".join(parts) + "\n"


def _python_name(name: str) -> Iterator[str]:
    module, _, attribute = name.rpartition(".")
    thing = getattr(importlib.import_module(module), attribute)
    yield f"### {name}"
    yield _described(thing, name)
    if inspect.isclass(thing):
        for method, function in vars(thing).items():
            inner = function.__func__ if isinstance(function, classmethod | staticmethod) else function
            if not method.startswith("_") and inspect.isfunction(inner) and inspect.getdoc(inner):
                yield f"#### {attribute}.{method}"
                yield _described(inner, method)


def _described(thing: Any, name: str) -> str:  # noqa: ANN401 (a class or a function)
    return f"```text\n{_signature(thing, name)}\n\n{inspect.getdoc(thing) or ''}".rstrip() + "\n```"


def _signature(thing: Any, name: str) -> str:  # noqa: ANN401
    if dataclasses.is_dataclass(thing):
        docs = field_docs(thing) if isinstance(thing, type) else {}
        fields = [
            f"    {f.name}" + (f": {' '.join(docs[f.name].split())}" if docs.get(f.name) else "")
            for f in dataclasses.fields(thing)
        ]
        return "\n".join([f"class {name}", *fields])
    if inspect.isclass(thing) and issubclass(thing, BaseException):
        return f"class {name}({thing.__mro__[1].__name__})"
    parameters = [re.sub(r": .*?(?= = |$)", "", str(p)) for p in inspect.signature(thing).parameters.values()]
    return re.sub(r"<[^>]*> at \w+>|<[^>]*>", "…", f"{name}({', '.join(parameters)})")


PAGES: dict[str, Callable[[], str]] = {
    "commands.md": commands_page,
    "settings.md": settings_page,
    "python.md": python_page,
}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page(), encoding="utf-8")
