"""Every benchmark one after the other, and the page and the README's table from what they measured: `make bench`.

    python -m benchmarks.run_all [--quick] [--only encoder,masking] [--minutes M] [--out runs/bench] [--page FILE]
    python -m benchmarks.run_all --render --out runs/bench          the page again, from what an earlier run measured

Each is a process of its own with a time limit. One that fails, or has no time left, is told on the page, and the others
go on. `--out` keeps the output of each and `results.jsonl`: the machine in the first line, then a line for each
benchmark as it ends. `--quick` takes small sizes and few rounds and ends within `--minutes`. The page is
`docs/benchmarks.md`; the READMEs' table is rewritten by a run of all benchmarks (`--only` leaves it alone). Quiet
machines measure best: the page says how much of the processor other programs used.
"""

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.machine_facts import busy_seconds, machine_facts
from benchmarks.page import render_page, render_ratios, replace_written

ROOT = Path(__file__).resolve().parents[1]
READMES = ("README.md", "README.zh.md", "README.ko.md")
QUICK_MINUTES = 14.0
RESULT = "RESULT "
Entry = dict[str, Any]
"""One line of `results.jsonl`."""


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """A module of `benchmarks/`, with its options and time limits in minutes for a full and a quick run."""

    name: str
    title: str
    full: str = ""
    quick: str | None = ""
    """None: it takes too long for a quick run."""
    minutes: float = 30.0
    quick_minutes: float = 3.0


BENCHMARKS = (
    Benchmark(name="encoder", title="The encoder", quick="--rounds 2"),
    Benchmark(name="masking", title="Span masking", quick="--batches 12"),
    Benchmark(name="objectives", title="MLM and the span boundary objective", quick="--rounds 3"),
    Benchmark(name="xlnet", title="XLNet", quick="--rounds 2"),
    Benchmark(name="recurrence", title="ELMo's recurrence", quick="--rounds 3 --threads 2"),
    Benchmark(name="attention", title="Attention kernels", quick="--rounds 3"),
    Benchmark(name="modernbert", title="ModernBERT and long sequences", quick="--longest 2048"),
    Benchmark(name="prepare", title="Preparing a corpus", quick="--novels 20", minutes=40),
    Benchmark(name="pretrain", title="Pre-training", quick="--rounds 2 --steps 2 --no-scale", minutes=60),
    Benchmark(
        name="finetune",
        title="Fine-tuning",
        full="--seeds 3",
        quick="--only sst2,ner --parts scores --train 640 --dev 320 --epochs 1 --seeds 2",
        minutes=180,
    ),
    Benchmark(name="inference", title="Prediction", quick="--rounds 2 --questions 16", minutes=30),
    Benchmark(name="data_order", title="The order of 10 billion samples"),
    Benchmark(
        name="serve", title="Serving", full="--clients 32", quick="--clients 8 --seconds 5 --rounds 2", minutes=20
    ),
    Benchmark(
        name="coref_peer", title="Coreference", quick="--words 1000 10000 --minutes 1.5", minutes=120, quick_minutes=4
    ),
    Benchmark(name="growth", title="How cost grows", quick="--quick", minutes=240, quick_minutes=6),
    Benchmark(name="time_to_quality", title="Time to quality", quick=None, minutes=180),
)
"""In the order of a run; what a quick run has no time left for is at the end."""

BY_HAND = {
    "coref": "trains a model on LitBank, half an hour",
    "adapters": "fine-tunes MiniLM in ten ways, an hour",
    "multitask": "fine-tunes MiniLM on six tasks, some hours",
    "no_answer": "fine-tunes MiniLM on SQuAD 2.0, an hour",
    "relation": "fine-tunes MiniLM on three data sets, an hour",
    "languages": "trains encoders on six Chinese and Korean data sets, some hours",
    "summarisation": "fine-tunes MiniLM on SciTLDR, half an hour",
    "generation": "trains a small GPT on SciTLDR, half an hour",
    "examples": "every script of examples/ at its defaults, some minutes",
    "long_documents": "entities and an answer in a novel, some minutes",
    "baselines": "scores of trivial rules; no speed",
    "almanac_baselines": "scores of trivial rules on the almanac; no speed",
    "scale": "the arithmetic of training beyond one machine; no speed",
    "soak": "kills, full disks and damaged files for as long as --minutes says",
    "serve_soak": "ten minutes of steady load on the server",
    "serve_strain": "overload, a very long document and the end of a loaded server, some minutes",
    "spacy_pipe": "spaCy's nlp.pipe beside predict; needs the spacy extra",
    "code_shape": "files, functions and types of the source; no speed",
}
"""Benchmarks with a result that `make bench` does not run, and why."""


def run(benchmark: Benchmark, out: Path, *, quick: bool, seconds: float) -> Entry:
    """Run one in a process of its own; what became of it, as a line of results."""
    options = benchmark.quick if quick else benchmark.full
    if options is None:
        return {"name": benchmark.name, "status": "left out", "reason": "it takes too long for a quick run"}
    command = ["-m", f"benchmarks.{benchmark.name}", *options.split()]
    entry: Entry = {"name": benchmark.name, "command": " ".join(["python", *command])}
    if seconds <= 0:
        return entry | {"status": "left out", "reason": "no time was left"}
    log = out / f"{benchmark.name}.log"
    before, began, load = busy_seconds(), time.monotonic(), [os.getloadavg()[0]]
    own = _own_seconds()
    with log.open("w", encoding="utf-8") as output:
        # A group of its own, so that servers and workers end with it.
        process = subprocess.Popen(
            [sys.executable, *command], stdout=output, stderr=subprocess.STDOUT, cwd=ROOT, start_new_session=True
        )
        try:
            code: int | None = process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            _end_group(process)
    taken = time.monotonic() - began
    load.append(os.getloadavg()[0])
    entry |= {"seconds": round(taken, 1), "load": [round(value, 2) for value in load]}
    if before is not None and (after := busy_seconds()) is not None:
        others = after - before - (_own_seconds() - own)
        entry["others"] = round(max(0.0, others / taken / (os.cpu_count() or 1)), 3)
    return entry | _outcome(log.read_text(encoding="utf-8", errors="replace"), code, seconds)


def _end_group(process: "subprocess.Popen[bytes]") -> None:
    """End what is left of the group, and the process itself."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _own_seconds() -> float:
    """Processor time of this process and of those it waited for."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _outcome(output: str, code: int | None, seconds: float) -> Entry:
    """The result of its last line, or why there is none."""
    lines = output.splitlines()
    if code == 0:
        last = next((line for line in reversed(lines) if line.startswith(RESULT)), None)
        if last is not None:
            return {"status": "done", "result": json.loads(last.removeprefix(RESULT))}
    last_words = next((line.strip() for line in reversed(lines) if line.strip()), "no output")[:300]
    if code is None:
        return {"status": "failed", "reason": f"stopped after {seconds / 60:.0f} minutes"}
    return {"status": "failed", "reason": f"exit code {code}: {last_words}" if code else "no RESULT line"}


def run_all(chosen: Sequence[Benchmark], out: Path, *, quick: bool, minutes: float) -> Iterator[Entry]:
    """All of them, each within its own limit and what is left of the whole."""
    end = time.monotonic() + 60 * minutes
    for benchmark in chosen:
        limit = 60 * (benchmark.quick_minutes if quick else benchmark.minutes)
        print(f"{benchmark.name} …", flush=True)
        entry = run(benchmark, out, quick=quick, seconds=min(limit, end - time.monotonic()))
        print(f"{benchmark.name}: {entry['status']} {entry.get('reason', '')} {entry.get('seconds', 0)} s", flush=True)
        yield entry


def write_pages(entries: Sequence[Entry], machine: Entry, page: Path, readmes: Sequence[Path]) -> None:
    """The page, and the table between the marks of the READMEs."""
    by_hand = {f"python -m benchmarks.{name}": why for name, why in BY_HAND.items()}
    titles = {benchmark.name: benchmark.title for benchmark in BENCHMARKS}
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(render_page(entries, machine, titles=titles, by_hand=by_hand), encoding="utf-8")
    for readme in readmes:
        text = readme.read_text(encoding="utf-8")
        readme.write_text(replace_written(text, "ratios", render_ratios(entries, machine)), encoding="utf-8")


def measure(options: argparse.Namespace) -> tuple[list[Entry], Entry]:
    """Run what is asked for; lines are kept as they come."""
    names = options.only.split(",") if options.only else [benchmark.name for benchmark in BENCHMARKS]
    known = {benchmark.name: benchmark for benchmark in BENCHMARKS}
    if unknown := [name for name in names if name not in known]:
        raise SystemExit(f"no such benchmark in make bench: {', '.join(unknown)}; there are {', '.join(known)}")
    minutes = options.minutes or (QUICK_MINUTES if options.quick else 24 * 60)
    options.out.mkdir(parents=True, exist_ok=True)
    machine = machine_facts() | {"quick": options.quick}
    entries = []
    with (options.out / "results.jsonl").open("w", encoding="utf-8") as lines:
        print(json.dumps({"machine": machine}), file=lines, flush=True)
        for entry in run_all([known[name] for name in names], options.out, quick=options.quick, minutes=minutes):
            print(json.dumps(entry), file=lines, flush=True)
            entries.append(entry)
    return entries, machine


def read_results(path: Path) -> tuple[list[Entry], Entry]:
    """What an earlier run kept."""
    first, *lines = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
    return lines, first["machine"]


def main() -> None:
    """Measure, or read what was measured, and write the pages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes and few rounds")
    parser.add_argument("--only", help="these, separated by commas")
    parser.add_argument("--minutes", type=float, help=f"for all together (quick: {QUICK_MINUTES:g})")
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / "bench", help="logs and results.jsonl")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "benchmarks.md")
    parser.add_argument("--render", action="store_true", help="measure nothing, write the pages from results.jsonl")
    options = parser.parse_args()
    entries, machine = read_results(options.out / "results.jsonl") if options.render else measure(options)
    write_pages(entries, machine, options.page, [] if options.only else [ROOT / name for name in READMES])
    failed = [entry["name"] for entry in entries if entry["status"] == "failed"]
    print(f"{options.page}: {len(entries) - len(failed)} of {len(entries)} benchmarks{', failed: ' if failed else ''}"
          f"{', '.join(failed)}")  # fmt: skip
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
