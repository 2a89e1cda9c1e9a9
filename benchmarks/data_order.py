"""The order of 10 billion samples on 1,024 processes, which change in number in mid-epoch.

    python -m benchmarks.data_order [--samples 10000000000] [--batch 8192] [--processes 1024 640 1000]

An epoch is trained by as many processes as the first number says, then by the others, as after failures and repairs;
each change happens at a step that nothing prepares for. The functions are those that training uses: `SampleOrder` says
which sample is at a position of the epoch, `shard_step` which positions of a step a process takes. Nobody can list
10 billion samples in seconds, so that each is read once is shown in parts:

- positions: a step is a range of positions, and its processes' shares are put side by side: no gap, no overlap, the
  longest at most one longer than the shortest. Shares do not depend on where a step begins, which is checked at the
  first, the last and random steps; the steps tile the epoch by construction.
- samples: the order is a permutation. Its inverse is computed here by another program, the network run backwards; it
  must lead from random positions, and from unbroken ranges of samples, back to where they came from. A function with
  an inverse on both sides is one to one.
- both at once: for random samples of the corpus, the step and process that read them are looked up by the inverse;
  that process's share, computed as training does, must contain the sample, and no other process's share of that step.
"""

import argparse
import resource
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.measure import print_result
from spanlab.arrays import Integers
from spanlab.corpus import SampleOrder
from spanlab.corpus.randomness import Draws, draws, mix, sample_keys
from spanlab.pretraining.batches import shard_step

ROUNDS = 8


@dataclass(frozen=True)
class Phase:
    """Steps from `first` on, trained by `processes`."""

    first: int
    processes: int


def main() -> None:
    """Check and print; the last line is for scripts."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.data_order")
    parser.add_argument("--samples", type=int, default=10_000_000_000)
    parser.add_argument("--batch", type=int, default=8192, help="samples a step, over all processes")
    parser.add_argument("--processes", type=int, nargs="+", default=[1024, 640, 1000])
    parser.add_argument("--checked", type=int, default=300_000, help="positions and samples that are looked at")
    arguments = parser.parse_args()
    start, memory = time.perf_counter(), _peak()
    order = SampleOrder(arguments.samples, seed=1)
    steps = -(-arguments.samples // arguments.batch)
    draw = np.random.default_rng(0)
    phases = resharding(steps, arguments.processes, draw)
    shares = [check_shares(phase, steps, arguments.batch, draw) for phase in phases]
    check_permutation(order, arguments.checked, draw)
    looked_up = check_readers(order, phases, arguments.batch, 200, draw)
    seconds = time.perf_counter() - start
    for phase, (shortest, longest) in zip(phases, shares, strict=True):
        print(f"from step {phase.first:,}: {phase.processes:,} processes with {shortest} or {longest} samples a step")
    print(f"{arguments.checked:,} positions and as many samples: the inverse leads back from all")
    print(f"{looked_up} samples: each is read by the one process that the inverse names")
    result = {
        "samples": arguments.samples,
        "steps": steps,
        "processes": arguments.processes,
        "seconds": round(seconds, 1),
        "cpu_seconds": round(time.process_time(), 1),
    }
    result |= {"longest_minus_shortest": max(longest - shortest for shortest, longest in shares)}
    print_result(result | {"more_memory_mb": round((_peak() - memory) / 2**20), "checked": arguments.checked})


def _peak() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def resharding(steps: int, processes: Sequence[int], draw: np.random.Generator) -> list[Phase]:
    """The numbers of processes one after the other, with changes at random steps."""
    changes = np.sort(draw.choice(np.arange(1, steps), len(processes) - 1, replace=False))
    return [Phase(int(first), count) for first, count in zip([0, *changes.tolist()], processes, strict=True)]


def check_shares(phase: Phase, steps: int, batch: int, draw: np.random.Generator) -> tuple[int, int]:
    """(shortest, longest) share of a step; raises unless the shares of all processes tile it, wherever it begins."""
    lengths: set[int] = set()
    for step in (phase.first, *draw.integers(phase.first, steps, 3).tolist(), steps - 1):
        positions = np.arange(step * batch, (step + 1) * batch)
        shares = [shard_step(positions, 1, rank=rank, world_size=phase.processes)[0] for rank in range(phase.processes)]
        if not np.array_equal(np.concatenate(shares), positions):
            raise AssertionError(f"step {step} is not tiled by {phase.processes} processes")
        lengths |= {len(share) for share in shares}
    if max(lengths) - min(lengths) > 1:
        raise AssertionError(f"shares of {min(lengths)} to {max(lengths)} samples")
    return min(lengths), max(lengths)


def check_permutation(order: SampleOrder, checked: int, draw: np.random.Generator, epoch: int = 0) -> None:
    """Raise unless the order and its inverse undo each other, at random and on unbroken ranges."""
    count = order.count
    for some in (draw.integers(0, count, checked), *_ranges(count, checked // 4, draw)):
        _, samples = order.at(some + epoch * count)
        if samples.min() < 0 or samples.max() >= count or not np.array_equal(positions_of(order, samples, epoch), some):
            raise AssertionError("two positions have one sample")
        positions = positions_of(order, some, epoch)
        if (
            positions.min() < 0
            or positions.max() >= count
            or not np.array_equal(order.at(positions + epoch * count)[1], some)
        ):
            raise AssertionError("a sample has no position")


def _ranges(count: int, length: int, draw: np.random.Generator) -> list[Integers]:
    """Unbroken ranges: the first, the last and two between."""
    length = min(length, count)
    starts = [0, count - length, *draw.integers(0, count - length + 1, 2).tolist()]
    return [np.arange(start, start + length) for start in starts]


def check_readers(
    order: SampleOrder, phases: Sequence[Phase], batch: int, samples: int, draw: np.random.Generator
) -> int:
    """Look up who reads some samples, and raise unless exactly that process does; returns how many were looked up."""
    chosen = draw.integers(0, order.count, samples)
    for sample, position in zip(chosen.tolist(), positions_of(order, chosen, 0).tolist(), strict=True):
        step = position // batch
        processes = [phase.processes for phase in phases if phase.first <= step][-1]
        positions = np.arange(step * batch, (step + 1) * batch)
        shares = [shard_step(positions, 1, rank=rank, world_size=processes)[0] for rank in range(processes)]
        _, of_step = order.at(np.concatenate(shares))
        of_process = np.repeat(np.arange(processes), list(map(len, shares)))
        readers = of_process[of_step == sample].tolist()
        if readers and position not in shares[readers[0]]:
            raise AssertionError(f"sample {sample} is read by process {readers[0]}, out of its turn")
        if len(readers) != 1:
            raise AssertionError(f"sample {sample} is read by {len(readers)} processes")
    return samples


# The inverse of the order, written after the description of the network and not after its code.


def positions_of(order: SampleOrder, samples: Integers, epoch: int) -> Integers:
    """The positions in an epoch at which these samples come."""
    bits = max(6, (order.count - 1).bit_length())
    key = sample_keys(seed=order.seed, purpose="order", epoch=epoch, index=0)
    keys = draws(key, ROUNDS)[0]
    values = _backwards(samples.astype(np.uint64), bits, keys)
    while (outside := np.flatnonzero(values >= np.uint64(order.count))).size:
        values[outside] = _backwards(values[outside], bits, keys)
    return values.astype(np.int64)


def _backwards(values: Draws, bits: int, keys: Draws) -> Draws:
    """The rounds of the network in reverse; each swaps the halves and scrambles one of them by the other."""
    for number in reversed(range(ROUNDS)):
        right_bits = bits // 2 if number % 2 == 0 else bits - bits // 2
        left_bits = bits - right_bits
        right = values >> np.uint64(left_bits)
        scrambled = values & np.uint64((1 << left_bits) - 1)
        left = scrambled ^ (mix(right + keys[number]) >> np.uint64(64 - left_bits))
        values = (left << np.uint64(right_bits)) | right
    return values


if __name__ == "__main__":
    main()
