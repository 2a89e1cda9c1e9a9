"""Run the command line as a user does: in a process of its own, or, where that would only cost time, in this one."""

import io
import os
import subprocess
import sys
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
    return subprocess.CompletedProcess(arguments, code, stdout.getvalue(), stderr.getvalue())
