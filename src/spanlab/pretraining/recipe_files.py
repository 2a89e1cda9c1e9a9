"""Recipes as files that people copy and change: a list of the shipped ones, what is wrong in one, what it changes.

A YAML file (or a shipped name) and overrides enter; plain facts, problems and differences leave, with the lines of the
file. A recipe has five sizes, whose settings may differ: it is checked and compared at each of them, or at the one that
is asked for. Nothing here imports torch.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spanlab.atomic_io import write_atomically
from spanlab.config import Source, find_problems, merge, parse_overrides, read_yaml, to_mapping
from spanlab.encoder import SIZES, ElmoConfig
from spanlab.errors import ConfigError, InputError, did_you_mean
from spanlab.objectives.combinations import OBJECTIVES
from spanlab.pretraining.compatibility import check_recipe
from spanlab.pretraining.memory import parameters, refuse_too_large
from spanlab.pretraining.new_encoder import new_encoder_config
from spanlab.pretraining.recipe import Recipe, load_recipe, locate_recipe, read_recipe
from spanlab.recipes import describe_recipes, recipe_path, shipped_recipes


@dataclass(frozen=True, kw_only=True)
class RecipeSize:
    """A recipe at one of its sizes."""

    size: str
    backbone: str
    """The system whose encoder is trained."""
    layers: int
    width: int
    parameters: int
    """Of the encoder, with the vocabulary of the published system where the recipe sets none."""
    steps: int | None
    batch_size: int
    length: int
    """Tokens of the longest samples."""


@dataclass(frozen=True, kw_only=True)
class RecipeSummary:
    """A shipped recipe in a line."""

    name: str
    system: str
    objectives: tuple[str, ...]
    sizes: tuple[str, ...]
    adapted: tuple[str, ...]
    """The sizes with settings of their own; the others have those at the top of the file."""
    description: str


@dataclass(frozen=True, kw_only=True)
class RecipeCheck:
    """What is wrong with a recipe, and what it amounts to at the sizes that nothing is wrong with."""

    problems: tuple[ConfigError, ...]
    sizes: tuple[RecipeSize, ...]


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A setting that a recipe has otherwise than the one it is compared with."""

    key: str
    published: Any
    """None: not set."""
    own: Any
    sizes: tuple[str, ...]
    """At which sizes, of those that are compared."""
    line: int | None
    """In the file, where it sets the key."""


def summarise_recipes() -> list[RecipeSummary]:
    """The shipped recipes by name."""
    descriptions = describe_recipes()
    summaries = []
    for name in shipped_recipes():
        written, _ = read_yaml(recipe_path(name))  # shipped files are right: resolving each takes time for nothing
        summaries.append(
            RecipeSummary(
                name=name,
                system=written["system"],
                objectives=tuple(objective for objective, weight in written["objectives"].items() if weight > 0),
                sizes=tuple(SIZES),
                adapted=tuple(size for size in SIZES if size in written["sizes"]),
                description=descriptions[name],
            )
        )
    return summaries


def copy_recipe(name: str, target: Path, *, overwrite: bool = False) -> None:
    """Write a shipped recipe to a file, comments included, to be changed there."""
    if name not in shipped_recipes():
        known = shipped_recipes()
        cause = f"no shipped recipe '{name}'{did_you_mean(name, known)}"
        raise InputError(cause, fix=f"use one of {', '.join(known)}")
    if target.suffix not in {".yaml", ".yml"}:
        raise InputError("a recipe is a YAML file", path=target, fix=f"write {target.name or name}.yaml")
    if target.exists() and (target.is_dir() or not overwrite):
        fix = "choose another name" if target.is_dir() else "choose another name, or use --overwrite"
        raise InputError("file exists" if target.is_file() else "exists and is not a file", path=target, fix=fix)
    write_atomically(target, recipe_path(name).read_bytes())


def check_recipe_file(
    name_or_path: str, overrides: Sequence[str] = (), *, memory_gb: float | None = None
) -> RecipeCheck:
    """Every problem of a recipe: keys, values, what does not go together, and memory at the size that is asked for.

    `memory_gb`: of the machine that trains; None: not known, and not checked.
    """
    problems: dict[str, ConfigError] = {}
    rows = []
    asked = _asked_size(name_or_path, overrides)
    sizes = [asked] if _sets_size(overrides) else [*SIZES]
    for error in _unknown_sizes(name_or_path):
        problems[str(error)] = error
    for size in sizes if asked in SIZES else [asked]:
        row, errors = _check_size(name_or_path, overrides, size, memory_gb if size == asked else None)
        problems |= {str(error): error for error in errors}
        rows += [row] if row is not None and not errors else []
    return RecipeCheck(
        problems=tuple(sorted(problems.values(), key=lambda error: (error.line is None, error.line or 0))),
        sizes=tuple(rows),
    )


def _check_size(
    name: str, overrides: Sequence[str], size: str, memory_gb: float | None
) -> tuple[RecipeSize | None, list[ConfigError]]:
    """A recipe at one size, and its problems there."""
    try:
        written, changes, source = read_recipe(name, [*overrides, f"size={size}"])
    except ConfigError as error:
        return None, [error]
    problems = find_problems(Recipe, merge(written, changes), source)
    if problems:
        return None, problems
    recipe = load_recipe(name, [*overrides, f"size={size}"])
    try:
        check_recipe(recipe)
        config = new_encoder_config(recipe, source=source.within("encoder"))
        row = RecipeSize(
            size=size,
            backbone=recipe.backbone or recipe.system,
            layers=config.layers,
            width=config.projection if isinstance(config, ElmoConfig) else config.width,
            parameters=parameters(config),
            steps=recipe.training.steps,
            batch_size=recipe.training.batch_size,
            length=recipe.data.longest,
        )
        refuse_too_large(recipe, config, memory_gb)
    except ConfigError as error:
        return None, [_with_line(error, source)]
    return row, []


_KEY = re.compile(r"\b[a-z][a-z_]*(?:\.[a-z][a-z_]*)*\b")


def _with_line(error: ConfigError, source: Source) -> ConfigError:
    """An error about several settings, at the line of the first of them that it names and the file sets."""
    if error.line is not None or source.path is None:
        return error
    words = _KEY.findall(f"{error.cause} {error.fix or ''}")
    paths = [("objectives", word) if word in OBJECTIVES else tuple(word.split(".")) for word in words]
    line = next((source.lines[path] for path in paths if path in source.lines), None)
    return ConfigError(error.cause, path=source.path, line=line, fix=error.fix)


def _unknown_sizes(name: str) -> Iterator[ConfigError]:
    """Sections of `sizes` for a size that there is not, which would never be used."""
    _, source = read_yaml(locate_recipe(name))
    for size in _written_sizes(name):
        if size not in SIZES:
            cause = f"unknown size '{size}'{did_you_mean(str(size), SIZES)}; known are {', '.join(SIZES)}"
            yield source.error(("sizes", str(size)), cause)


def _written_sizes(name: str) -> list[Any]:
    """The sizes that a file has a section for."""
    sizes = read_yaml(locate_recipe(name))[0].get("sizes")
    return list(sizes) if isinstance(sizes, Mapping) else []


def _sets_size(overrides: Iterable[str]) -> bool:
    return "size" in parse_overrides(list(overrides))


def _asked_size(name: str, overrides: Sequence[str]) -> str:
    """The size that a run of the recipe would have."""
    written = read_yaml(locate_recipe(name))[0]
    return str(parse_overrides(list(overrides)).get("size", written.get("size", Recipe.size)))


def find_differences(
    name_or_path: str, overrides: Sequence[str] = (), *, against: str | None = None
) -> tuple[str, list[Difference]]:
    """The recipe that one is compared with, and what differs, setting by setting as resolved.

    Args:
        name_or_path: the recipe.
        overrides: changes to it; `size=` compares that size alone.
        against: the other recipe; None: the published one of its system.
    """
    base = against or _published_base(name_or_path, overrides)
    others = [override for override in overrides if not override.startswith("size=")]
    asked = _asked_size(name_or_path, overrides)
    sizes = [asked] if _sets_size(overrides) else [*SIZES]
    found: dict[tuple[str, str], tuple[Any, Any, list[str], int | None]] = {}
    for size in sizes:
        own = load_recipe(name_or_path, [*others, f"size={size}"])
        _, changes, source = read_recipe(name_or_path, [*others, f"size={size}"])
        given = {key for key, _, _ in _changes({}, changes)}
        published = load_recipe(base, [f"size={size}"])
        for key, before, after in _changes(to_mapping(published), to_mapping(own)):
            line = None if key in given else source.lines.get(tuple(key.split(".")))
            found.setdefault((key, f"{before!r} {after!r}"), (before, after, [], line))[2].append(size)
    return base, [
        Difference(key=key, published=before, own=after, sizes=tuple(at), line=line)
        for (key, _), (before, after, at, line) in found.items()
    ]


def _published_base(name_or_path: str, overrides: Sequence[str]) -> str:
    system = load_recipe(name_or_path, overrides).system
    if system not in shipped_recipes():
        cause = f"there is no published recipe of the system '{system}'"
        raise InputError(cause, path=name_or_path, fix=f"use --against {'|'.join(shipped_recipes())} or a file")
    return system


def _changes(before: Mapping[str, Any], after: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any, Any]]:
    """(key, before, after) of every setting that differs; sections are followed to their keys."""
    for key in [*before, *(key for key in after if key not in before)]:
        old, new = before.get(key), after.get(key)
        if isinstance(new, Mapping) and isinstance(old, Mapping | None):
            yield from _changes(old or {}, new, f"{prefix}{key}.")
        elif old != new:
            yield f"{prefix}{key}", old, new
