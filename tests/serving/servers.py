"""Servers for tests: in this process, and in one of their own that is reached over loopback."""

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest

from spanlab.serving.served_model import ServedModel, load_served

DATA = Path(__file__).resolve().parents[1] / "compat" / "data"
MULTITASK = DATA / "tasks" / "multitask"
"""A model of the tasks topics, names, alike and who."""
SPANBERT = DATA / "models" / "spanbert"
"""A model that fills masks."""
TEXT = "Anna sold the flour in Delft. She was glad."
QUESTION = {"question": "Who sold the flour?", "context": TEXT}


def cases(folder: str = "multitask") -> list[dict[str, Any]]:
    """What a model of an earlier version was asked and said: `task`, `input`, `said`."""
    loaded: list[dict[str, Any]] = json.loads((DATA / "tasks" / f"{folder}.json").read_text())
    return loaded


def same(value: Any, other: Any, tolerance: float = 0.02) -> bool:
    """Whether two JSON values are the same, numbers about."""
    if isinstance(value, float | int) and isinstance(other, float | int) and not isinstance(value, bool):
        return value == pytest.approx(other, abs=tolerance)
    if isinstance(value, dict) and isinstance(other, dict):
        return value.keys() == other.keys() and all(same(value[key], other[key], tolerance) for key in value)
    if isinstance(value, list) and isinstance(other, list):
        return len(value) == len(other) and all(same(*pair, tolerance) for pair in zip(value, other, strict=True))
    return bool(value == other)


def load_models(*folders: Path) -> tuple[ServedModel, ...]:
    return load_served([str(folder) for folder in folders], precision="fp32", device="cpu")


@dataclass(kw_only=True)
class RunningServer:
    """A server in a process of its own."""

    process: subprocess.Popen[str]
    url: str
    log: list[str] = field(default_factory=list)

    def client(self, **options: Any) -> httpx2.Client:
        return httpx2.Client(base_url=self.url, timeout=60, **options)

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(timeout=60)


@contextmanager
def running_server(*arguments: object, environment: dict[str, str] | None = None) -> Iterator[RunningServer]:
    """`spanlab serve …` on a free port, once it listens."""
    process = subprocess.Popen(
        [sys.executable, "-m", "spanlab.cli.main", "serve", *map(str, arguments), "--port", "0", "--precision", "fp32"],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "HF_HUB_OFFLINE": "1", **(environment or {})},
    )
    assert process.stderr is not None
    server = RunningServer(process=process, url="")
    reader = None
    try:
        for line in process.stderr:
            server.log.append(line)
            if match := re.search(r"listening on (http://\S+)", line):
                server.url = match[1]
                break
        assert server.url, f"the server did not start: {''.join(server.log)}"
        reader = threading.Thread(target=lambda: server.log.extend(process.stderr or ()), daemon=True)
        reader.start()
        yield server
    finally:
        process.kill()
        process.wait(timeout=60)
        if reader is not None:
            reader.join(timeout=60)
