"""What the benchmarks ran on: processor and instructions, memory, versions, and how busy the machine was."""

import os
import platform
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from spanlab.machine import available_cores, has_bf16_instructions, memory_gb

PACKAGES = (
    "spanlab",
    "torch",
    "numpy",
    "tokenizers",
    "transformers",
    "accelerate",
    "datasets",
    "litserve",
    "fastcoref",
)
INSTRUCTIONS = {"avx2": "AVX2", "avx512f": "AVX-512", "avx512_vnni": "VNNI", "avx512_bf16": "bf16", "amx_bf16": "AMX"}


def machine_facts() -> dict[str, Any]:
    """Plain values for the page; taken before anything is measured."""
    import torch

    model, flags = _processor()
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "cpu": model,
        "cores": available_cores(),
        "instructions": [name for flag, name in INSTRUCTIONS.items() if flag in flags],
        "bf16_instructions": has_bf16_instructions(),
        "memory_gb": round(memory_gb()[0] or 0),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": dict(_versions()),
        "threads": torch.get_num_threads(),
        "load": [round(load, 2) for load in os.getloadavg()],
    }


def _processor() -> tuple[str, frozenset[str]]:
    """The name of the processor and the flags of its instructions."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:  # not Linux
        return platform.processor() or platform.machine(), frozenset()
    fields = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return fields.get("model name", platform.machine()), frozenset(fields.get("flags", "").split())


def _versions() -> Iterator[tuple[str, str]]:
    for package in PACKAGES:
        try:
            yield package, version(package)
        except PackageNotFoundError:
            if package == "spanlab":
                from spanlab import __version__

                yield package, __version__
            else:
                yield package, "not installed"


def busy_seconds() -> float | None:
    """Processor time that the whole machine has spent since it started; None where it cannot be asked."""
    try:
        fields = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()
    except OSError:
        return None
    user, nice, system, _idle, _waiting, *interrupts = map(int, fields[1:8])
    return (user + nice + system + sum(interrupts)) / os.sysconf("SC_CLK_TCK")
