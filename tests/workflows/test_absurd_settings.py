"""No number in a recipe or a fine-tuning config may ask for more than a machine can have."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from spanlab.config import from_mapping, merge, nested, to_mapping
from spanlab.encoder import EncoderConfig, elmo_preset
from spanlab.errors import ConfigError
from spanlab.finetuning.config import resolve_run_config
from spanlab.pretraining.memory import check_memory, parameters
from spanlab.pretraining.recipe import Recipe, load_recipe
from spanlab.recipes import shipped_recipes
from spanlab.tasks.table import TASKS


def numbers(mapping: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, type]]:
    for key, value in mapping.items():
        if isinstance(value, Mapping):
            yield from numbers(value, f"{prefix}{key}.")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield f"{prefix}{key}", type(value)


def recipe_keys() -> list[tuple[str, type]]:
    keys = {key for name in shipped_recipes() for key in numbers(to_mapping(load_recipe(name)))}
    unset = {("training.epochs", float), ("training.patience", int), ("masking.max_predictions", int), ("seed", int)}
    return sorted(
        ((name, kind) for name, kind in keys | unset if not name.startswith("encoder.")), key=lambda key: key[0]
    )


@pytest.mark.parametrize(("key", "kind"), recipe_keys())
def test_every_number_of_a_recipe_has_bounds(key: str, kind: type) -> None:
    for value in (2**63, 10**400, -(10**30), float("nan"), float("inf"), "1e999"):
        with pytest.raises(ConfigError, match=key.rpartition(".")[2]):
            load_recipe("spanbert", {key: value})
    if key != "seed":
        with pytest.raises(ConfigError, match=key.rpartition(".")[2]):
            load_recipe("spanbert", {key: kind(10**12)})


@pytest.mark.parametrize("task", [*TASKS, "multitask"])
def test_every_number_of_a_task_has_bounds(task: str) -> None:
    config = resolve_run_config(task, {})
    keys = list(numbers(to_mapping(config)))
    assert len(keys) > 20
    for key, kind in keys:
        for value in (2**63, float("nan"), *(() if key == "seed" else (kind(10**12),))):
            with pytest.raises(ConfigError, match=key.rpartition(".")[2]):
                from_mapping(type(config), merge(to_mapping(config), nested({key: value})))


@pytest.mark.parametrize(
    ("changes", "fix"),
    [
        ({"width": 65_536}, "encoder.width"),
        ({"layers": 1_000, "width": 4_096}, "encoder.layers"),
        ({}, "training.accumulate"),
    ],
)
def test_memory_is_estimated_before_anything_is_built(changes: dict[str, int], fix: str) -> None:
    recipe = load_recipe("spanbert")
    if not changes:
        recipe = replace(recipe, training=replace(recipe.training, batch_size=1_000_000, accumulate=1))
    with pytest.raises(ConfigError, match=rf"at least [\d.,]+ (G|T)B of memory.*{fix}"):
        check_memory(recipe, from_mapping(EncoderConfig, {"heads": 1, **changes}))


def test_what_fits_is_not_refused() -> None:
    small: Recipe = load_recipe("spanbert", ["size=tiny", "training.batch_size=8", "data.length=64"])
    check_memory(small, EncoderConfig(width=128, layers=2, heads=2, inner_width=512))
    check_memory(small, elmo_preset("tiny", vocab_size=1000))
    assert 80e6 < parameters(EncoderConfig()) < 110e6
