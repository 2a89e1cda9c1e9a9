"""Memory that a step frees is kept for the next one, within bounds.

Steps of one shape find the same places again. Batches of many shapes do not: what they free falls to pieces, and a
process that keeps everything grows to several times what any of its steps needs.
"""

from spanlab.machine import give_freed_memory_back, held_memory_gb, keep_freed_memory

GROWTH = 1.5
"""How many times the memory of one step may be held."""


class FreedMemory:
    """Keeps freed memory from now on, and gives it back when it has grown out of proportion."""

    def __init__(self) -> None:
        keep_freed_memory()
        self._of_one_step = 0.0
        self._afresh = True

    def after_step(self) -> None:
        """Look at what is held; to be called when a step has let go of everything it made.

        One step needs what the process holds after its first step, or after the first since memory was given back.
        """
        held = held_memory_gb()
        if held is None:
            return
        if self._afresh:
            self._of_one_step, self._afresh = max(self._of_one_step, held), False
        elif held > GROWTH * self._of_one_step:
            give_freed_memory_back()
            self._afresh = True
