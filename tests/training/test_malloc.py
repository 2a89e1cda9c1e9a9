"""Freed memory is kept as long as it is what a step needs, and trimmed when it has grown."""

import subprocess
import sys

import pytest

from spanlab.training import malloc
from spanlab.training.malloc import MallocTrimmer


def test_memory_is_given_back_once_it_has_grown(monkeypatch: pytest.MonkeyPatch) -> None:
    """1 GB is what a step needs, then 2: more than half as much again is given back, and nothing else."""
    held = iter([1.0, 1.4, 1.6, 2.0, 2.9, 3.1, 1.0, 2.9, 3.1])
    given: list[int] = []
    monkeypatch.setattr(malloc, "keep_freed_memory", lambda: True)
    monkeypatch.setattr(malloc, "resident_memory_gb", lambda: next(held))
    monkeypatch.setattr(malloc, "trim_malloc", lambda: given.append(1))
    memory, after = MallocTrimmer(), []
    for _ in range(9):
        memory.after_step()
        after.append(len(given))
    assert after == [0, 0, 1, 1, 1, 2, 2, 2, 3]


def test_a_system_that_does_not_tell_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(malloc, "keep_freed_memory", lambda: False)
    monkeypatch.setattr(malloc, "resident_memory_gb", lambda: None)
    monkeypatch.setattr(malloc, "trim_malloc", lambda: pytest.fail("nothing is known to be held"))
    MallocTrimmer().after_step()


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
