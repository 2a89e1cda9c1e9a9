"""The number of CPU threads of a run: a resumed run keeps the number it started with, where possible.

Sums are split among threads, so another number of threads rounds differently: the results would be as good, but no
longer bit for bit those of an uninterrupted run.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from spanlab.machine import available_cores
from spanlab.training.distributed import ProcessContext
from spanlab.training.run_folder import RunFolder


def choose_threads(
    requested: int, run: RunFolder, process: ProcessContext, *, resume: bool
) -> tuple[int, tuple[str, ...]]:
    """The number of threads, 0 for torch's choice, and notes for the user.

    Args:
        requested: `training.threads`.
        run: the run's folder.
        process: device and world size; on another device, or with another world size than the run started with, results
            differ in the last bits whatever the threads.
        resume: whether the run is resumed.
    """
    threads = requested or min(torch.get_num_threads(), available_cores())
    initial = run.initial_parallelism() if resume else None
    if initial is None or initial.processes != process.world_size or process.device.type != "cpu":
        return (requested or (threads if threads < torch.get_num_threads() else 0)), ()
    if initial.threads == threads or (not requested and initial.threads <= available_cores()):
        return initial.threads, ()
    note = f"the run was started with training.threads={initial.threads}, now {threads}: the last bits may differ"
    if not requested:
        note = f"{note}; use training.threads={initial.threads} to avoid this, slower on {available_cores()} cores"
    return threads, (note,)


@contextmanager
def restore_threads() -> Iterator[None]:
    """Restore this process's number of threads at the end."""
    threads = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(threads)
