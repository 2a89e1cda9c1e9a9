"""Whole runs in processes of their own, as a user starts them, and what they left compared."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from torch import Tensor

from tests.pretraining.making import SMALLEST

TIMES = {"tokens_per_second", "memory_gb", "peak_share"}
"""What differs from one run to the next however alike they are."""


def command(recipe: str, corpus: Path, out: Path, *more: str) -> list[str]:
    """`spanlab pretrain` of the smallest model."""
    return ["-m", "spanlab", "pretrain", recipe, "--data", str(corpus), "--out", str(out), *SMALLEST, *more]


def start(arguments: list[str]) -> subprocess.Popen[str]:
    """A Python process that computes on one thread."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    return subprocess.Popen(
        [sys.executable, *arguments], env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def finish(arguments: list[str], code: int = 0) -> str:
    """Run to the end; what it wrote to stderr."""
    process = start(arguments)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == code, errors
    return errors


def on_two(arguments: list[str]) -> list[str]:
    """The same as two processes of torchrun's."""
    return ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", *arguments]


def records(run: Path) -> list[dict[str, Any]]:
    """What a run has told, but for what depends on the clock."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key not in TIMES} for line in lines]


def newest_state(run: Path) -> dict[str, Tensor]:
    """Weights, optimiser and what is carried from step to step in a run's newest checkpoint, by file and name."""
    newest = max((run / "checkpoints").glob("step-*"))
    return {
        f"{part}.{name}": tensor
        for part in ("weights", "optimiser", "average", "processes")
        if (newest / f"{part}.safetensors").is_file()
        for name, tensor in load_file(newest / f"{part}.safetensors").items()
        if part != "processes" or ".carried." in name  # the rest is random state, which each process has its own of
    }


def assert_same_run(one: Path, other: Path) -> None:
    """The same records, weights and optimiser, to the bit."""
    assert records(one) == records(other)
    ours, theirs = newest_state(one), newest_state(other)
    assert ours.keys() == theirs.keys()
    assert [name for name in ours if not ours[name].equal(theirs[name])] == []
    for file in ("model/model.safetensors", "model/heads.safetensors"):
        assert (one / file).is_file() == (other / file).is_file()
        if (one / file).is_file():
            assert (one / file).read_bytes() == (other / file).read_bytes()
