"""How the benchmarks measure: contenders in turn, the best of several rounds, and ratios from the same run.

Whatever else a machine does can only add time. So every round runs each contender once, and the best round of each
counts; a single number of seconds means little, the ratio of two from the same run means much. The ratios of the single
rounds say how far to trust it.
"""

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch

GEMM_SHAPE = (4096, 256, 1024)


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """SpanLab beside one peer in the same run, as it goes into a RESULT line and from there on the page."""

    what: str
    """What both do, with its sizes."""
    peer: str
    ratio: float
    """How many times as long the peer takes, or as much memory; the best round of each side."""
    rounds: tuple[float, ...]
    """The same within each round."""
    variant: str = ""
    """What is different between ratios of the same `what` and `peer`: fp32, bf16, …"""
    quantity: Literal["time", "memory"] = "time"
    headline: bool = False
    """Whether the README has it."""

    @classmethod
    def of(cls, ours: Sequence[float], theirs: Sequence[float], **named: Any) -> "Ratio":  # noqa: ANN401 (its fields)
        """From the seconds (or bytes) of each round."""
        by_round = tuple(round(peer / own, 3) for own, peer in zip(ours, theirs, strict=True))
        return cls(ratio=round(min(theirs) / min(ours), 3), rounds=by_round, **named)

    @classmethod
    def of_rates(cls, ours: Sequence[float], theirs: Sequence[float], **named: Any) -> "Ratio":  # noqa: ANN401
        """From what each round got done in a second."""
        return cls.of([1 / rate for rate in ours], [1 / rate for rate in theirs], **named)


def rounds_in_turn(
    contenders: Mapping[str, Callable[[], object]],
    rounds: int,
    warmup: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Seconds per call by `clock` in each of `rounds`, in which every contender ran once."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(warmup + rounds):
        for name, run in contenders.items():
            start = clock()
            run()
            if number >= warmup:
                seconds[name].append(clock() - start)
    return seconds


def in_turn(
    contenders: Mapping[str, Callable[[], object]],
    rounds: int,
    warmup: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """The best of each contender's rounds."""
    return {name: min(times) for name, times in rounds_in_turn(contenders, rounds, warmup, clock).items()}


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


def print_result(result: Mapping[str, Any], ratios: Sequence[Ratio] = (), cannot: Sequence[str] = ()) -> None:
    """The last line of a benchmark, for scripts and for the page; `cannot` says what a peer is not able to do."""
    more: dict[str, Any] = {"ratios": [asdict(ratio) for ratio in ratios]} if ratios else {}
    print("RESULT " + json.dumps({**result, **more, **({"cannot": list(cannot)} if cannot else {})}), flush=True)
