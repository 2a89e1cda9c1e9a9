"""The help of every command shows how it is used, and what it shows is right."""

import inspect
import re
from collections.abc import Iterator

import pytest
from typer.core import TyperCommand, TyperGroup
from typer.exceptions import TyperException

from spanlab.finetuning.config import MULTITASK
from spanlab.recipes import describe_recipes, shipped_recipes
from spanlab.tasks.descriptions import DESCRIPTIONS
from spanlab.tasks.table import TASKS
from tests.cli.run import run_here
from tests.docs.shell import MAIN, parse_command


def _leaves(group: TyperGroup, path: tuple[str, ...] = ()) -> Iterator[tuple[str, TyperCommand]]:
    for name, inner in group.commands.items():
        if isinstance(inner, TyperGroup):
            yield from _leaves(inner, (*path, name))
        else:
            assert isinstance(inner, TyperCommand)
            yield " ".join((*path, name)), inner


assert isinstance(MAIN, TyperGroup)
COMMANDS = dict(_leaves(MAIN))


def examples_in(command: TyperCommand) -> list[str]:
    """The commands after "Example:" or under "Examples:"."""
    text = inspect.cleandoc(command.help or "")
    told = re.split(r"^Examples?:", text, flags=re.MULTILINE)[1:]
    return [line.strip() for part in told for line in part.splitlines() if line.strip()]


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_an_example_that_parses(name: str) -> None:
    examples = examples_in(COMMANDS[name])
    assert examples, f"spanlab {name} --help has no example"
    for example in examples:
        assert f"spanlab {name} " in f"{example} "
        parse_command(example)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_is_printed_with_its_example(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    done = run_here(*name.split(), "--help")
    assert done.returncode == 0
    assert examples_in(COMMANDS[name])[0].split("  ")[0][:60] in done.stdout


@pytest.mark.parametrize("wrong", ["spanlab inspect nothing", "spanlab fill", "spanlab doctor --no-such-option"])
def test_an_example_that_is_wrong_does_not_parse(wrong: str) -> None:
    with pytest.raises((AssertionError, TyperException)):
        parse_command(wrong)


def test_help_lists_every_task_and_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert list(DESCRIPTIONS) == [*TASKS, MULTITASK]
    recipes = describe_recipes()
    assert list(recipes) == shipped_recipes()
    assert all(recipes.values())
    lists = {("finetune",): (DESCRIPTIONS,), ("pretrain",): (recipes,), (): (DESCRIPTIONS, recipes)}
    for command, tables in lists.items():
        shown = " ".join(run_here(*command, "--help").stdout.split())
        for name, line in ((name, line) for table in tables for name, line in table.items()):
            assert f"{name} {line}" in shown
