"""Commands of a page, run in a workspace: those of SpanLab in this process and on the smallest settings.

A run of hours is made one of two steps by settings put after the page's own; everything else about the command is as
the page has it. What is not SpanLab's own (make, pip, docker, …) is checked against what the repository holds.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import typer.main
from typer.core import TyperCommand, TyperGroup

from spanlab.cli.main import app
from spanlab.config import parse_overrides
from spanlab.finetuning.config import resolve_config
from spanlab.pretraining.recipe import load_recipe
from spanlab.tasks.table import TASKS
from tests.cli.run import run_here
from tests.docs.blocks import ROOT, Block

MAIN = typer.main.get_command(app)
SHORT_TRAINING = ("training.steps=2", "training.batch_size=4", "training.threads=1", "training.precision=fp32")
SHORT_PRETRAINING = (
    "encoder.layers=1",
    "encoder.width=32",
    "encoder.heads=2",
    "encoder.inner_width=64",
    "data.phases=[]",
    "data.length=128",
    "data.held_out=0.1",
    "training.accumulate=1",
)
MOST_WORDS = 300
RUN_ELSEWHERE = {
    "quickstart": "tests/quickstart/test_quickstart.py",
    "compare": "tests/compare/test_study.py",
}
"""Commands that take minutes however small, and the tests that run them."""


def commands_of(block: Block) -> Iterator[str]:
    """The commands of a shell block, one by one, without comments."""
    joined = re.sub(r"\s*\\\n\s*", " ", block.text)
    for line in joined.splitlines():
        command = line.strip().removeprefix("$ ")
        if shlex.split(command, comments=True):
            yield command


def run_command(command: str, workspace: Path) -> None:
    """Run or check one command; an AssertionError tells what came of it."""
    words = shlex.split(command, comments=True)
    while "=" in words[0]:  # variables of the environment
        words = words[1:]
    if words[0] == "spanlab" and not {"|", "<", ">"} & set(words):
        _run_spanlab(words[1:], workspace)
    elif words[0] == "torchrun":
        parse_command(command)
        _run_spanlab(words[words.index("-m") + 2 :], workspace)
    elif words[0] in CHECKS:
        CHECKS[words[0]](words)
    else:
        _run_in_shell(command, workspace)


def parse_command(command: str) -> None:
    """Whether SpanLab has the command with these options, and the recipe or task these settings; nothing is run."""
    words = shlex.split(command, comments=True)
    if words[0] == "torchrun":
        from torch.distributed.run import get_args_parser

        place = words.index("-m")
        get_args_parser().parse_args([*words[1:place], "script"])
        words = words[place + 1 :]
    if words[0] != "spanlab":
        if words[0] in CHECKS:
            CHECKS[words[0]](words)
        return
    command, rest = leaf_command(words[1:])
    given = command.make_context(command.name, rest).params
    if command.name == "pretrain" and given["recipe"] and not given["recipe"].endswith(".yaml"):
        load_recipe(given["recipe"], given["overrides"] or [])
    if command.name == "finetune" and given["task"] in TASKS:
        words = [word for word in given["overrides"] or [] if not (given["add"] and word.startswith("name="))]
        resolve_config(given["task"], parse_overrides(words))


def leaf_command(words: list[str]) -> tuple[TyperCommand, list[str]]:
    """The command that the first words name, and the words after them."""
    found = MAIN
    while isinstance(found, TyperGroup):
        assert words, f"{found.name} needs a subcommand"
        assert words[0] in found.commands, f"there is no command '{words[0]}'"
        found, words = found.commands[words[0]], words[1:]
    assert isinstance(found, TyperCommand)
    return found, words


def _run_spanlab(words: list[str], workspace: Path) -> None:
    if words[0] in RUN_ELSEWHERE:
        parse_command(shlex.join(["spanlab", *words]))
        assert (ROOT / RUN_ELSEWHERE[words[0]]).is_file()
        return
    arguments = list(_shortened(list(_expanded(words, workspace))))
    if "--out" in arguments and "--resume" not in arguments:
        clear_way(workspace / arguments[arguments.index("--out") + 1])
    done = run_here(*arguments)
    assert done.returncode == 0, f"spanlab {' '.join(arguments)}\n{done.stderr}"


def _expanded(words: list[str], workspace: Path) -> Iterator[str]:
    """Words with the shell's patterns resolved."""
    for word in words:
        found = sorted(workspace.glob(word)) if "*" in word else []
        yield from (str(path.relative_to(workspace)) for path in found) if found else (word,)


def _shortened(words: list[str]) -> Iterator[str]:
    for number, word in enumerate(words):
        yield str(min(MOST_WORDS, int(word))) if words[number - 1] == "--vocab-size" else word
    if words[0] == "pretrain" and "--print-config" not in words:
        # With --init the body is that of the model.
        body = [each for each in SHORT_PRETRAINING if "--init" not in words or not each.startswith("encoder.")]
        yield from (*body, *SHORT_TRAINING)
    if words[0] == "finetune" and "--print-config" not in words:
        yield from SHORT_TRAINING
    if words[0] == "prepare":
        yield from ("--workers", "1")
    if words[0] == "doctor" and "--offline" not in words:
        yield "--offline"


def clear_way(target: Path) -> None:
    """A stand-in, or what the page made another way before, makes room for what is made under its name now."""
    if target.is_dir():
        shutil.rmtree(target)


def _run_in_shell(command: str, workspace: Path) -> None:
    binaries = workspace / ".bin"
    binaries.mkdir(exist_ok=True)
    script = binaries / "spanlab"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m spanlab.cli.main "$@"\n')
    script.chmod(0o755)
    environment = {**os.environ, "PATH": f"{binaries}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=workspace,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stderr}"


def _check_make(words: list[str]) -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    named = [word for word in words[1:] if "=" not in word]
    assert set(named) <= set(targets), f"{words}: the Makefile has {targets}"


def _check_pip(words: list[str]) -> None:
    import tomllib

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    for word in words:
        for extra in re.findall(r"\[([\w,]+)\]", word):
            assert set(extra.split(",")) <= set(extras), f"{words}: no such extra"
    if "-c" in words:
        assert (ROOT / words[words.index("-c") + 1]).is_file(), words


def _check_python(words: list[str]) -> None:
    if words[1] == "-m":
        assert find_spec(words[2]) is not None, f"there is no module {words[2]}"
    elif words[1] != "-c":
        assert (ROOT / words[1]).is_file(), f"there is no file {words[1]}"


def _check_docker(words: list[str]) -> None:
    assert (ROOT / "Dockerfile").is_file()


def _check_script(words: list[str]) -> None:
    assert (ROOT / ".pre-commit-config.yaml").is_file()


CHECKS: dict[str, Callable[[list[str]], None]] = {
    "make": _check_make,
    "pip": _check_pip,
    "python": _check_python,
    "docker": _check_docker,
    "pre-commit": _check_script,
}
