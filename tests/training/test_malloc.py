"""Freed memory is kept as long as it is what a step needs, and given back when it has grown."""

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
