"""Run the command line as a user does: in a process of its own, or, where that would only cost time, in this one."""

import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from unittest import mock


def run_spanlab(*arguments: str, timeout: float = 120, **environment: str) -> subprocess.CompletedProcess[str]:
    """`spanlab …`; the outcome with its output as text."""
    return subprocess.run(
        [sys.executable, "-m", "spanlab.cli.main", *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        env={**os.environ, "HF_HUB_OFFLINE": "1", **environment},
    )


def run_here(*arguments: str) -> subprocess.CompletedProcess[str]:
    """`spanlab …` in this process, as quick as what it does; outcomes and exit codes are those of `main`."""
    from spanlab.cli.main import main

    stdout, stderr = io.StringIO(), io.StringIO()
    with redirect_stdout(stdout), redirect_stderr(stderr), mock.patch.object(sys, "argv", ["spanlab", *arguments]):
        try:
            main()
            code = 0
        except SystemExit as ending:
            code = int(ending.code or 0)
    if code == 2:
        strange = list(options_that_do_not_exist(arguments, stderr.getvalue()))
        assert not strange, f"{stderr.getvalue()} names {strange}"
    return subprocess.CompletedProcess(arguments, code, stdout.getvalue(), stderr.getvalue())


def options_that_do_not_exist(arguments: Sequence[str], message: str) -> Iterator[str]:
    """The options in an error message that neither the command that ran nor the one the message names has."""
    from typer.core import TyperGroup
    from typer.main import get_command

    from spanlab.cli.main import app
    from spanlab.cli.messages import find_command

    main = get_command(app)
    assert isinstance(main, TyperGroup)
    typed = {word.partition("=")[0] for word in arguments}
    line = next((line for line in message.splitlines() if line.startswith("spanlab: ")), "")
    for clause in line.removeprefix("spanlab: ").split("; "):
        if re.search(r"\b(pip|hf|torchrun) ", clause):
            continue
        _, named, rest = clause.partition("spanlab ")
        command = find_command(main, rest.split() if named else list(arguments))
        known = {option for parameter in command.params for option in parameter.opts} if command else set()
        yield from set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", clause)) - known - typed - {"--help"}
        if not command or not any(parameter.name == "overrides" for parameter in command.params):
            yield from re.findall(r"\b(?:data|training|tuning|encoder|masking)\.[a-z_.]+=\S+", clause)
