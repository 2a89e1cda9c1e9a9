"""What the machine can do: freed memory is kept when asked for."""

import subprocess
import sys

import pytest

MEASURE = """
import resource, sys
import numpy as np
from spanlab.machine import keep_freed_memory
kept = keep_freed_memory() if sys.argv[1] == "keep" else False
def faults():
    for _ in range(3):
        np.ones(6_000_000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        np.ones(6_000_000)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
print(int(kept), faults())
"""


def measure(mode: str) -> tuple[bool, int]:
    done = subprocess.run([sys.executable, "-c", MEASURE, mode], capture_output=True, text=True, check=True)
    kept, faults = done.stdout.split()
    return kept == "1", int(faults)


def test_kept_memory_costs_no_fresh_pages() -> None:
    kept, faults = measure("keep")
    if not kept:
        pytest.skip("this system's allocator cannot be asked")
    assert faults < 100
    assert measure("leave")[1] > 2 * max(50, faults)
