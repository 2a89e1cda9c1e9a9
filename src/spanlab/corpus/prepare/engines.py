"""Where segments are tokenized: in this process, in local worker processes, or on a Ray cluster.

Every engine takes groups of segments lazily, keeps a bounded number of them in flight, and yields results in the order
of the input: results, errors and memory use do not depend on which worker finishes first.
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

from spanlab.corpus.prepare.segments import SegmentGroup
from spanlab.corpus.prepare.tokenize import TokenizedDocuments
from spanlab.errors import SpanlabError
from spanlab.machine import available_cores
from spanlab.ray_cluster import ray_cluster

Engine = Literal["local", "ray"]
Tokenize = Callable[[SegmentGroup], TokenizedDocuments]
"""The function a worker runs; it is pickled."""
Results = Generator[tuple[SegmentGroup, TokenizedDocuments], None, None]
"""Segments with their tokens; the caller closes it."""
Handle = TypeVar("Handle")


def run_workers(groups: Iterable[SegmentGroup], tokenize: Tokenize, *, engine: Engine, workers: int | None) -> Results:
    """Each group of segments with its tokens, in order; `workers` None: one per core."""
    if engine == "ray":
        return _run_on_ray(groups, tokenize, workers)
    workers = workers or available_cores()
    if workers == 1:
        return ((group, tokenize(group)) for group in groups)
    return _run_in_processes(groups, tokenize, workers)


def _in_order(
    groups: Iterable[SegmentGroup],
    submit: Callable[[SegmentGroup], Handle],
    result: Callable[[Handle], TokenizedDocuments],
    ahead: int,
) -> Results:
    """Submit up to `ahead` groups before waiting for the first result, then one for every result."""
    waiting: deque[tuple[SegmentGroup, Handle]] = deque()
    for group in groups:
        waiting.append((group, submit(group)))
        if len(waiting) > ahead:
            first, handle = waiting.popleft()
            yield first, result(handle)
    while waiting:
        first, handle = waiting.popleft()
        yield first, result(handle)


def _run_in_processes(groups: Iterable[SegmentGroup], tokenize: Tokenize, workers: int) -> Results:
    # Spawned, not forked: the tokenizer and the caller may have started threads.
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_start_worker)
    try:
        yield from _in_order(groups, lambda group: pool.submit(tokenize, group), Future.result, 2 * workers)
    except BrokenProcessPool:
        raise SpanlabError(
            "a worker process died (killed, or out of memory); run the command again with fewer --workers to resume"
        ) from None
    finally:
        # Results still being computed are not needed; waiting for them would make Ctrl-C slow.
        for process in list(pool._processes.values()):
            process.terminate()
        pool.shutdown(cancel_futures=True)


def _start_worker() -> None:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the workers are the parallelism
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Otherwise a worker whose parent was killed would wait for work forever."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _run_on_ray(groups: Iterable[SegmentGroup], tokenize: Tokenize, workers: int | None) -> Results:
    with ray_cluster(workers or available_cores()) as ray:
        ahead = 2 * (workers or int(ray.cluster_resources()["CPU"]))
        remote = ray.remote(num_cpus=1)(_tokenize_on_ray)
        shared = ray.put(tokenize)

        def result(handle: Any) -> TokenizedDocuments:  # noqa: ANN401 (an object reference)
            try:
                tokenized = ray.get(handle)
            except ray.exceptions.RayTaskError as error:
                if isinstance(error.cause, SpanlabError):
                    raise error.cause from None
                raise
            assert isinstance(tokenized, TokenizedDocuments)
            return tokenized

        yield from _in_order(groups, lambda group: remote.remote(group, shared), result, ahead)


def _tokenize_on_ray(group: SegmentGroup, tokenize: Tokenize) -> TokenizedDocuments:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    return tokenize(group)
