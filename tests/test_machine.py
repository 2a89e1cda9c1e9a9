"""What the machine can do: freed memory is kept when asked for, and given back; bf16 where oneDNN may use it."""

import os
import subprocess
import sys

import pytest

MEASURE = """
import resource, sys
import numpy as np
from spanlab.training.malloc import keep_freed_memory
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


GIVE_BACK = """
import numpy as np
from spanlab.training.malloc import trim_malloc, resident_memory_gb, keep_freed_memory
keep_freed_memory()
np.ones(50_000_000)
kept, given = resident_memory_gb(), trim_malloc()
print(int(given), kept - resident_memory_gb())
"""


def test_kept_memory_can_be_given_back() -> None:
    done = subprocess.run([sys.executable, "-c", GIVE_BACK], capture_output=True, text=True, check=True)
    given, gigabytes = done.stdout.split()
    if given == "0":
        pytest.skip("this system's allocator cannot be asked")
    assert 0.3 < float(gigabytes) < 0.5


def test_bf16_is_not_there_where_it_may_not_be_used() -> None:
    code = "from spanlab.machine import has_bf16_instructions; print(has_bf16_instructions())"
    held = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=held)
    assert done.stdout == "False\n"
