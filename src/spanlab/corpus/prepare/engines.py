"""Where tasks run: in this process, in local worker processes, or on a Ray cluster.

Every engine takes tasks lazily, keeps a bounded number of them in flight, and gives the parts back in the order of
the tasks: results, errors and memory do not depend on which worker was quicker.
"""

import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context, parent_process
from typing import Any, Literal, TypeVar

from spanlab.corpus.prepare.segments import Task
from spanlab.corpus.prepare.tokenize import Part, Settings, tokenise
from spanlab.errors import SpanlabError
from spanlab.ray_cluster import ray_cluster

Engine = Literal["local", "ray"]
Parts = Generator[tuple[Task, Part], None, None]
"""Tasks with their parts; to be closed when no more are wanted."""
Handle = TypeVar("Handle")


def run_tasks(tasks: Iterable[Task], settings: Settings, *, engine: Engine, workers: int | None) -> Parts:
    """Each task with its part, in the order of the tasks; `workers` None is as many as there are cores."""
    if engine == "ray":
        return _run_on_ray(tasks, settings, workers)
    workers = workers or os.cpu_count() or 1
    if workers == 1:
        return _run_here(tasks, settings)
    return _run_in_processes(tasks, settings, workers)


def _run_here(tasks: Iterable[Task], settings: Settings) -> Parts:
    for task in tasks:
        yield task, tokenise(task, settings)


def _in_order(
    tasks: Iterable[Task], submit: Callable[[Task], Handle], result: Callable[[Handle], Part], ahead: int
) -> Parts:
    """Submit up to `ahead` tasks before the first result is waited for, then one for every result."""
    waiting: deque[tuple[Task, Handle]] = deque()
    for task in tasks:
        waiting.append((task, submit(task)))
        if len(waiting) > ahead:
            first, handle = waiting.popleft()
            yield first, result(handle)
    while waiting:
        first, handle = waiting.popleft()
        yield first, result(handle)


def _run_in_processes(tasks: Iterable[Task], settings: Settings, workers: int) -> Parts:
    # Spawned, not forked: the tokenizer and the caller may have started threads.
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_start_worker)
    try:
        yield from _in_order(tasks, lambda task: pool.submit(tokenise, task, settings), Future.result, 2 * workers)
    except BrokenProcessPool:
        raise SpanlabError(
            "a worker process died (killed, or out of memory); run the command again with fewer --workers, "
            "it goes on from there"
        ) from None
    finally:
        # Whatever is still running is wanted no more; waiting for it would make Ctrl-C slow.
        for process in list(pool._processes.values()):
            process.terminate()
        pool.shutdown(cancel_futures=True)


def _start_worker() -> None:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the workers are the parallelism
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A worker whose parent was killed would wait for its next task forever."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _run_on_ray(tasks: Iterable[Task], settings: Settings, workers: int | None) -> Parts:
    with ray_cluster(workers) as ray:
        ahead = 2 * (workers or int(ray.cluster_resources()["CPU"]))
        remote = ray.remote(num_cpus=1)(_tokenise_on_ray)
        shared = ray.put(settings)

        def result(handle: Any) -> Part:  # noqa: ANN401 (an object reference)
            try:
                part = ray.get(handle)
            except ray.exceptions.RayTaskError as error:
                if isinstance(error.cause, SpanlabError):
                    raise error.cause from None
                raise
            assert isinstance(part, Part)
            return part

        yield from _in_order(tasks, lambda task: remote.remote(task, shared), result, ahead)


def _tokenise_on_ray(task: Task, settings: Settings) -> Part:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    return tokenise(task, settings)
