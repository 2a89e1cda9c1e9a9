"""Workers that run cases: processes with a limit on their memory.

One that dies or hangs is a fault as well: its case is named, and another worker goes on behind it.
"""

import multiprocessing
import resource
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from queue import Empty
from typing import Any

import torch

from tests.fuzz.cases import Outcome, choose, run_case
from tests.fuzz.targets import targets

_SILENCE = 60.0
_ADDRESS_SPACE = 6 << 30


def _work(folder: str, seed: int, numbers: range, current: Any, results: Any) -> None:
    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with tempfile.TemporaryDirectory(dir=folder) as own:
        home = Path(own) / "files"
        shutil.copytree(Path(folder, "files"), home)
        kinds = targets(home)
        for number in numbers:
            current.value = number
            target, file, data = choose(home, kinds, seed, number)
            results.put((number, run_case(home, target, file, data)))
    current.value = -1


def run(folder: Path, seed: int, cases: range, workers: int) -> Iterator[tuple[int, Outcome]]:
    """The outcomes of the cases, in any order."""
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    shares = [range(cases.start + worker, cases.stop, workers) for worker in range(workers)]
    running = []
    for share in shares:
        running.append(_start(context, folder, seed, share, results))
    heard = time.monotonic()
    while running:
        try:
            yield results.get(timeout=1)
            heard = time.monotonic()
            continue
        except Empty:
            pass
        for index, (process, current, share) in enumerate(running):
            if process.is_alive() and time.monotonic() - heard < _SILENCE:
                continue
            died = current.value >= 0 and (process.exitcode != 0 or process.is_alive())
            if process.is_alive():
                process.kill()
            process.join()
            del running[index]
            if died:
                number = current.value
                result = "hang" if process.exitcode == -9 else "crash"
                yield (
                    number,
                    Outcome(target="?", file="?", result=result, seconds=0, megabytes=0, detail=f"case {number}"),
                )
                rest = range(number + share.step, share.stop, share.step)
                running.append(_start(context, folder, seed, rest, results))
                heard = time.monotonic()
            break


def _start(context: Any, folder: Path, seed: int, share: range, results: Any) -> tuple[Any, Any, range]:
    current = context.Value("q", share.start if len(share) else -1)
    process = context.Process(target=_work, args=(str(folder), seed, share, current, results), daemon=True)
    process.start()
    return process, current, share
