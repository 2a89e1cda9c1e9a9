"""Run the command line as a user does: in a process of its own."""

import os
import subprocess
import sys


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
