"""`python -m tests.fuzz --cases 100000 --seed 1 --workers 2`: run cases, print what escaped, end with 1 if any did."""

import argparse
import os
import sys
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path

import typer

from tests.fuzz.cases import Outcome, choose, where
from tests.fuzz.runner import run
from tests.fuzz.targets import make_files, targets


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--cases", type=int, default=5000)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--keep", type=Path, help="folder for the files of escapes")
    options = parser.parse_args()
    os.environ.update(OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
    typer.echo(f"seed {options.seed}")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        make_files(folder / "files")
        kinds = targets(folder / "files")
        cases = range(options.first, options.first + options.cases)
        counts: Counter[tuple[str, str]] = Counter()
        escapes: dict[tuple[str, str, str], list[tuple[int, Outcome]]] = defaultdict(list)
        slowest = largest = (0.0, "")
        for number, outcome in run(folder, options.seed, cases, options.workers):
            counts[outcome.target, outcome.result if not outcome.escaped else "escaped"] += 1
            slowest, largest = (
                max(slowest, (outcome.seconds, outcome.file)),
                max(largest, (outcome.megabytes, outcome.file)),
            )
            if outcome.escaped:
                key = (outcome.target, outcome.result, where(outcome.detail))
                if key not in escapes:
                    typer.echo(f"\ncase {number}: {outcome.file}: {outcome.result} at {key[2]}\n{outcome.detail}")
                    if options.keep and outcome.target != "?":
                        target, file, data = choose(folder / "files", kinds, options.seed, number)
                        options.keep.mkdir(parents=True, exist_ok=True)
                        (options.keep / f"{target.name}__{file.replace('/', '+')}__{number}").write_bytes(data)
                escapes[key].append((number, outcome))
    for kind in sorted({kind for kind, _ in counts}):
        row = {result: counts[kind, result] for result in ("read", "refused", "escaped")}
        typer.echo(f"{kind:32} " + "  ".join(f"{name} {count:6}" for name, count in row.items()))
    typer.echo(f"{sum(counts.values())} cases, longest {slowest[0]:.2f} s ({slowest[1]})")
    typer.echo(f"largest {largest[0]:.0f} MB ({largest[1]})")
    for (target, result, place), found in escapes.items():
        typer.echo(f"ESCAPE {target} {result} at {place}: {len(found)} times, first case {found[0][0]}")
    sys.exit(1 if escapes else 0)


if __name__ == "__main__":
    main()
