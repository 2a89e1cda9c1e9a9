"""What a study compares: a YAML file, or a command line, into a frozen `Study`, and its recipes one by one.

    recipe: bert                      # the recipe of all variants, unless a variant names its own
    settings: {size: tiny}            # of all variants
    variants:                         # each with the settings in which it differs; the first is the baseline
      subword: {settings: {masking.law: subword}}
      spans: {settings: {masking.law: span}}
    grid: {masking.geometric_p: [0.1, 0.2]}       # every combination of these values, in place of variants or of each
    data: [corpora/novels]            # prepared corpora; a variant may have its own
    tasks:                            # dev is optional where there is a test file
      ner: {task: ner, train: train.conll, dev: dev.conll, test: test.conll, settings: {training.epochs: 3}}
    finetuning: {training.batch_size: 32}         # settings of all tasks
    budget: 10m                       # of each pre-training; also 20M tokens, or 3e15 FLOPs
    seeds: 3                          # or a list of seeds

A ready study (`compare/studies`) has recipes only; data and tasks come from the command line.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from spanlab.compare.budget import Budget
from spanlab.compare.studies import shipped_studies, study_path
from spanlab.config import AtLeast, AtMost, Bounded, Seed, from_mapping, merge, nested, parse_overrides, read_yaml
from spanlab.errors import ConfigError, InputError, clip_repr, did_you_mean
from spanlab.pretraining.recipe import Recipe, load_recipe
from spanlab.strict_parsing import parse_yaml
from spanlab.tasks.table import TASKS

_WHY_SEEDS = "the difference between two runs may be one of their seeds, and one run of each cannot tell"
_MOST_RECIPES = 1000
_SEEDS_FIX = "use --seeds 3 or more"


@dataclass(frozen=True, kw_only=True)
class Variant(Bounded):
    """One of the systems that are compared, as the study describes it."""

    recipe: str | None = None
    """A shipped recipe or a YAML file; None: the study's."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Settings of the recipe."""
    data: tuple[str, ...] = ()
    """Prepared corpora, such as one with another tokenizer; empty: the study's."""
    needs: str | None = None
    """What the user must give, or it is left out: a setting, such as data.spans, or `data`, corpora of its own."""


@dataclass(frozen=True, kw_only=True)
class StudyTask(Bounded):
    """A task that every pre-trained model is fine-tuned and tested on."""

    task: str
    """One of the tasks of fine-tuning."""
    train: str
    """The labelled file to train on."""
    dev: str | None = None
    """The file that the best checkpoint is chosen by; None: the last one is taken."""
    test: str
    """The file that the statistics are about."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Settings of the fine-tuning."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.task not in TASKS:
            hint = did_you_mean(self.task, TASKS)
            raise ConfigError(f"unknown task '{self.task}'{hint}", fix=f"use one of {', '.join(TASKS)}")


@dataclass(frozen=True, kw_only=True)
class Study(Bounded):
    """A study as it is described, before its recipes are read."""

    recipe: str | None = None
    """The recipe of all variants that do not name their own."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Settings of all variants."""
    variants: dict[str, Variant] = field(default_factory=dict)
    """By name; the first is the baseline that the others are compared with."""
    grid: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    """Values by setting; every combination is a variant."""
    data: tuple[str, ...] = ()
    """Prepared corpora, each `DIR` or `DIR:WEIGHT`."""
    tasks: dict[str, StudyTask] = field(default_factory=dict)
    """By name: what every pre-trained model is fine-tuned and tested on."""
    finetuning: dict[str, Any] = field(default_factory=dict)
    """Settings of the fine-tuning on every task."""
    budget: str | None = None
    """Of each pre-training: time (10m), tokens (20M tokens) or FLOPs (3e15 FLOPs); None: the steps of its recipe."""
    seeds: Annotated[int, AtLeast(1), AtMost(1000)] | tuple[Seed, ...] = 3
    """How many, or which ones."""
    threads: Annotated[int, AtLeast(0), AtMost(4096)] = 0
    """CPU threads of each run, kept for the whole study; 0: as many as there are cores when it starts."""

    @property
    def seed_list(self) -> tuple[int, ...]:
        """The seeds; at least two, and none twice."""
        seeds = tuple(range(self.seeds)) if isinstance(self.seeds, int) else self.seeds
        if len(set(seeds)) < 2:
            raise InputError(f"one seed is not enough: {_WHY_SEEDS}", fix=_SEEDS_FIX)
        if len(set(seeds)) < len(seeds):
            raise InputError(f"seeds are {', '.join(map(str, seeds))}: one is given twice", fix="give each once")
        return seeds


@dataclass(frozen=True, kw_only=True)
class StudyRecipe:
    """One variant, resolved: what is pre-trained once for each seed."""

    name: str
    recipe: Recipe
    data: tuple[str, ...]


def load_study(
    name: str | None,
    *,
    recipes: Sequence[str] = (),
    settings: Sequence[str] = (),
    grid: Sequence[str] = (),
    data: Sequence[str] = (),
    tasks: Sequence[str] = (),
    finetuning: Sequence[str] = (),
    budget: str | None = None,
    seeds: str | None = None,
    threads: int | None = None,
) -> Study:
    """The study of a shipped name or a YAML file (None: an empty one), with what the command line adds to it."""
    study = Study() if name is None else read_study(name)
    if recipes and study.variants:
        raise InputError(f"the study '{name}' has its own recipes, and {recipes[0]} is given, too", fix="give one")
    names = [Path(recipe).stem for recipe in recipes]
    if len(set(names)) < len(names):
        raise InputError("two recipes have the same name", fix="rename a file, or write a study with variants")
    variants = {recipe_name: Variant(recipe=recipe) for recipe_name, recipe in zip(names, recipes, strict=True)}
    common = [setting for setting in settings if setting.partition(".")[0] not in study.variants]
    study = replace(
        study,
        variants=variants or {name: _changed(name, variant, settings) for name, variant in study.variants.items()},
        settings=merge(nested(study.settings), parse_overrides(common)),
        grid={**study.grid, **dict(map(_parse_grid, grid))},
        tasks={**study.tasks, **dict(map(_parse_task, tasks))},
        finetuning=merge(nested(study.finetuning), parse_overrides(finetuning)),
        budget=budget or study.budget,
        seeds=study.seeds if seeds is None else _parse_seeds(seeds),
        threads=study.threads if threads is None else threads,
    )
    return _with_data(study, data)


def _changed(name: str, variant: Variant, settings: Sequence[str]) -> Variant:
    """The variant with the settings that begin with its name, such as `entities.data.spans=entities.jsonl`."""
    own = [setting.removeprefix(f"{name}.") for setting in settings if setting.startswith(f"{name}.")]
    return replace(variant, settings=merge(nested(variant.settings), parse_overrides(own)))


def read_study(name_or_path: str) -> Study:
    """A shipped study or a YAML file."""
    path = Path(name_or_path)
    if name_or_path in shipped_studies():
        path = study_path(name_or_path)
    elif path.suffix not in {".yaml", ".yml"} and not path.exists():
        known = shipped_studies()
        cause = f"unknown study '{name_or_path}'{did_you_mean(name_or_path, known)}; shipped are {', '.join(known)}"
        raise ConfigError(cause, fix="or give a YAML file")
    mapping, source = read_yaml(path)
    return from_mapping(Study, mapping, source)


def resolve_recipes(study: Study) -> list[StudyRecipe]:
    """The recipes of the study, the baseline first; every key is checked."""
    left_out = left_out_variants(study)
    variants = {name: variant for name, variant in study.variants.items() if name not in left_out} or {"": Variant()}
    count = math.prod(map(len, study.grid.values()))
    if count * len(variants) > _MOST_RECIPES:
        cause = f"the grid has {count:,} combinations, too many for one study"
        raise InputError(cause, fix=f"give values for at most {_MOST_RECIPES} recipes")
    points = [
        dict(zip(study.grid, values, strict=True)) for values in itertools.product(*study.grid.values())
    ]  # one empty point without a grid
    resolved = [_resolve(study, name, variant, point) for (name, variant) in variants.items() for point in points]
    if len(resolved) < 2:
        raise InputError("there is nothing to compare", fix="name two recipes, --study NAME, or --grid KEY=V1,V2")
    names = [recipe.name for recipe in resolved]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"two recipes of the study are called '{twice}'", fix="give each value of the grid once")
    return resolved


def left_out_variants(study: Study) -> dict[str, str]:
    """The variants that lack something of the user's own, and what to write."""
    return {
        name: f"--data {name}=DIR" if variant.needs == "data" else f"{name}.{variant.needs}=FILE"
        for name, variant in study.variants.items()
        if variant.needs is not None and not _has(variant, variant.needs)
    }


def _has(variant: Variant, needed: str) -> bool:
    """Whether a variant has its own corpora (`data`), or a setting."""
    if needed == "data":
        return bool(variant.data)
    section: Any = nested(variant.settings)
    for key in needed.split("."):
        section = section.get(key) if isinstance(section, Mapping) else None
    return section is not None


def _resolve(study: Study, name: str, variant: Variant, point: Mapping[str, Any]) -> StudyRecipe:
    recipe = variant.recipe or study.recipe
    if recipe is None:
        raise InputError("no recipe given", fix="name one, such as spanlab compare spanbert bert …, or use --study")
    changes = merge(merge(nested(study.settings), nested(variant.settings)), nested(point))
    training = changes.get("training")
    if study.budget is not None and isinstance(training, Mapping):
        set_twice = [key for key in ("steps", "epochs") if training.get(key) is not None]
        if set_twice:
            raise InputError(
                f"the budget sets the number of steps, and so does training.{set_twice[0]}", fix="give one"
            )
    if isinstance(training, Mapping) and training.get("time_limit") is not None:
        raise InputError("training.time_limit would cut runs short, not alike", fix="leave it out; give --budget")
    values = [f"{key.rpartition('.')[2]}={_plain(value)}" for key, value in point.items()]
    full_name = " ".join([*([name] if name else []), *values]) or recipe
    data = variant.data or study.data
    if not data:
        raise InputError("no corpus given", fix="use --data DIR with a corpus made by spanlab prepare")
    return StudyRecipe(name=full_name, recipe=load_recipe(recipe, changes), data=data)


def _plain(value: Any) -> str:  # noqa: ANN401 (YAML)
    return str(value) if not isinstance(value, float) else f"{value:g}"


def _parse_grid(text: str) -> tuple[str, tuple[Any, ...]]:
    """`KEY=V1,V2`."""
    key, equals, values = text.partition("=")
    if not (key and equals and values):
        raise InputError(f"{clip_repr(text)} is not a grid", fix="write KEY=V1,V2, such as masking.geometric_p=0.1,0.2")
    parsed, _ = parse_yaml(f"[{values}]")
    return key, tuple(parsed)


def _parse_task(text: str) -> tuple[str, StudyTask]:
    """`NAME=TRAIN:DEV[:TEST]`; NAME is a task, or a task and a word of one's own, such as qa-squad."""
    name, equals, files = text.partition("=")
    parts = files.split(":")
    if not equals or len(parts) not in {2, 3} or not all(parts):
        raise InputError(f"{clip_repr(text)} is not a task", fix="write NAME=TRAIN:DEV or NAME=TRAIN:DEV:TEST")
    task = name.partition("-")[0]
    dev = parts[1] if len(parts) == 3 else None
    return name, StudyTask(task=task, train=parts[0], dev=dev, test=parts[-1])


def _parse_seeds(text: str) -> int | tuple[int, ...]:
    """`3`, or `5,7,11`."""
    try:
        seeds = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InputError(
            f"{clip_repr(text)} is not a number of seeds", fix="write 3, or a list such as 5,7,11"
        ) from None
    return seeds[0] if len(seeds) == 1 else seeds


def _with_data(study: Study, data: Sequence[str]) -> Study:
    """The study on these corpora; `NAME=DIR` is the corpus of the variant of that name alone."""
    common = []
    variants = dict(study.variants)
    for item in data:
        name, equals, folder = item.partition("=")
        if equals and name in variants:
            variants[name] = replace(variants[name], data=(*_given(variants[name], study.variants[name]), folder))
        else:
            common.append(item)
    return replace(study, variants=variants, data=tuple(common) or study.data)


def _given(variant: Variant, before: Variant) -> tuple[str, ...]:
    """The corpora that the command line has named so far; those of the file are replaced."""
    return () if variant is before else variant.data


def parse_budget(study: Study) -> Budget | None:
    """The budget of each pre-training."""
    return None if study.budget is None else Budget.parse(study.budget)
