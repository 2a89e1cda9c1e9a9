"""The page of concepts: every row has its three names, a command that exists with settings that do, and a page."""

import re
import shlex
from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from spanlab.config import parse_overrides
from spanlab.finetuning.config import resolve_run_config
from spanlab.tasks.table import TASKS
from tests.cli.run import run_here
from tests.docs.blocks import ROOT
from tests.docs.shell import leaf_command

HEADER = "| concept | 中文 | 한국어 | here | command or setting | page |"
PAGE = ROOT / "docs" / "concepts.md"
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and line != HEADER
]
COMMANDS = sorted({row[4].strip("`") for row in ROWS})


def test_every_row_has_its_names_and_its_page() -> None:
    assert len(ROWS) > 90
    for row in ROWS:
        assert len(row) == 6, row
        assert all(row), row
        assert re.search(r"[A-Za-z]", row[0])
        assert re.fullmatch(r"`spanlab [^`]+`", row[4]), row
        assert re.fullmatch(r"\[[^\]]+\]\([\w/.#-]+\)", row[5]), row  # links are resolved by another test
    names = [row[0] for row in ROWS]
    assert len(names) == len(set(names))


def test_examples_and_recipes_that_are_named_are_there() -> None:
    named = set(re.findall(r"`(examples/[\w.]+)`", PAGE.read_text(encoding="utf-8")))
    assert len(named) >= 4
    assert [name for name in named if not (ROOT / name).is_file()] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_the_command_is_there_and_takes_the_settings(command: str) -> None:
    words = shlex.split(command)[1:]
    leaf, rest = leaf_command(words)
    path = words[: len(words) - len(rest)]
    settings = [word for word in rest if re.match(r"[a-z_.]+=", word)]
    if path == ["pretrain"] and "--resume" not in words:
        shown = run_here(*words, "--print-config")
        assert shown.returncode == 0, shown.stderr
        assert_set(yaml.safe_load(shown.stdout), parse_overrides(settings))
        return
    shown = run_here(*path, "--help")
    assert shown.returncode == 0, shown.stderr
    options = {option for parameter in leaf.params for option in parameter.opts}
    assert {word for word in rest if word.startswith("--")} <= options
    if path == ["finetune"]:
        assert rest[0] in (*TASKS, "multitask")
        resolve_run_config(rest[0], parse_overrides(settings))
    else:
        assert not settings
        leaf.make_context(leaf.name, rest, resilient_parsing=True)


def assert_set(config: Mapping[str, Any], changes: Mapping[str, Any]) -> None:
    """The printed config has every setting of the command."""
    for key, value in changes.items():
        if isinstance(value, Mapping):
            assert_set(config[key], value)
        else:
            assert config[key] == value, key
