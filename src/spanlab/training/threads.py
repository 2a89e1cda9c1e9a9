"""With how many threads a run computes: a resumed one with those it was begun with, unless that cannot be.

Sums are shared out among threads, so another number of them rounds otherwise: the run would be as good, but no longer
the undisturbed one to the last bit.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from spanlab.training.distributed import ProcessContext
from spanlab.training.run_folder import RunFolder


def choose_threads(asked: int, run: RunFolder, process: ProcessContext, *, resume: bool) -> tuple[int, tuple[str, ...]]:
    """How many threads, 0 for torch's own choice, and what is to be known about it.

    Args:
        asked: `training.threads`.
        run: the run's folder.
        process: where the run computes; on another device, or on another number of processes than the run was begun
            with, threads are not what decides about the last bits.
        resume: whether the run goes on.
    """
    begun = run.initial_parallelism() if resume else None
    if begun is None or begun.processes != process.world_size or process.device.type != "cpu":
        return asked, ()
    here = asked or torch.get_num_threads()
    if begun.threads == here or (not asked and begun.threads <= _cores()):
        return begun.threads, ()
    differ = (
        f"the run was begun with training.threads={begun.threads} and goes on with {here}: the last bits may differ"
    )
    return here, (differ if asked else f"{differ}; training.threads={begun.threads} keeps them, on {_cores()} cores",)


@contextmanager
def threads_put_back() -> Iterator[None]:
    """Afterwards, this process computes with as many threads as before."""
    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _cores() -> int:
    """Those that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # a system that binds no process to cores
        return os.cpu_count() or 1
