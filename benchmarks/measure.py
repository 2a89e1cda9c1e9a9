"""How the benchmarks measure: contenders in turn, the best of several rounds, and ratios from the same run.

Whatever else a machine does can only add time. So every round runs each contender once, and the best round of each
counts; a single number of seconds means little, the ratio of two from the same run means much.
"""

import json
import os
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch

GEMM_SHAPE = (4096, 256, 1024)


def in_turn(
    contenders: Mapping[str, Callable[[], object]],
    rounds: int,
    warmup: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Seconds per call by `clock`, the best of `rounds` in which every contender ran once."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(warmup + rounds):
        for name, run in contenders.items():
            start = clock()
            run()
            if number >= warmup:
                seconds[name].append(clock() - start)
    return {name: min(times) for name, times in seconds.items()}


def gemm_rate(dtype: torch.dtype, shape: tuple[int, int, int] = GEMM_SHAPE, rounds: int = 20) -> float:
    """The machine's rate of matrix products in operations per second: the best of several, at a layer's shape."""
    rows, inner, columns = shape
    a, b = torch.randn(rows, inner, dtype=dtype), torch.randn(inner, columns, dtype=dtype)
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        a @ b
        best = min(best, time.perf_counter() - start)
    return 2 * rows * inner * columns / best


def circumstances() -> dict[str, Any]:
    """What the numbers were measured on."""
    from spanlab.machine import has_bf16_instructions

    return {
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "bf16_instructions": has_bf16_instructions(),
        "load": round(os.getloadavg()[0], 2),
    }


def print_result(result: Mapping[str, Any]) -> None:
    """The last line of a benchmark, for scripts."""
    print("RESULT " + json.dumps(result))
