"""glibc's allocator during training: freed memory is kept for the next step, within bounds.

Steps that allocate and free the same large arrays would otherwise pay for fresh pages each time, which can cost as much
as the arithmetic. Batches of many shapes fragment what is kept: a process that never trims grows to several times what
any of its steps needs.
"""

import ctypes
import os
from pathlib import Path

GROWTH = 1.5
"""Resident memory is trimmed when it exceeds that of one step by this factor."""
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Parameters of mallopt: M_TRIM_THRESHOLD and M_MMAP_THRESHOLD."""


class MallocTrimmer:
    """Keeps freed memory from now on, and trims it when it has grown out of proportion."""

    def __init__(self) -> None:
        keep_freed_memory()
        self._step_gb = 0.0
        self._trimmed = True

    def after_step(self) -> None:
        """Trim if needed; call when a step has freed everything it allocated.

        The memory of one step is what is resident after the first step, or after the first since the last trim.
        """
        resident = resident_memory_gb()
        if resident is None:
            return
        if self._trimmed:
            self._step_gb, self._trimmed = max(self._step_gb, resident), False
        elif resident > GROWTH * self._step_gb:
            trim_malloc()
            self._trimmed = True


def keep_freed_memory() -> bool:
    """Make glibc keep freed memory instead of returning it to the system; False without glibc.

    The process then holds its peak memory, and more where arrays differ in size and fragment it.
    """
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_MMAP_THRESHOLD, 1 << 30) and mallopt(_TRIM_THRESHOLD, (1 << 31) - 1))


def trim_malloc() -> bool:
    """Return free memory to the system, once; False without glibc."""
    try:
        return bool(ctypes.CDLL("libc.so.6").malloc_trim(0))
    except (OSError, AttributeError):
        return False


def resident_memory_gb() -> float | None:
    """The resident memory of this process; None where /proc does not exist."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (OSError, IndexError, ValueError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e9
