"""Prediction by every engine: torch in fp32, bf16 and int8, ONNX Runtime in fp32 and int8, a plain transformers loop.

    python -m benchmarks.inference [--model reader] [--task qa] [--rounds 5] [--questions 32] [--threads 1]

Three kinds of work: one question at a time; many in bulk, ragged as they come; and in bulk with every passage cut or
repeated to the same length. Questions are those of SQuAD's dev file (SPANLAB_DATA). The peers are those of `spanlab
benchmark`: transformers runs the encoder alone, without the task's adapters and head. The best round of each engine
counts; with one thread in seconds of the processor, which other work hardly adds to. `--memory N` instead answers N
texts of all lengths in each precision of torch, and prints what the first and the second half added to memory.
"""

import argparse
import gc
import json
import lzma
import os
import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.finetune import data_folder
from benchmarks.measure import Ratio, circumstances, print_result
from spanlab.machine import int8_instructions, name_cpu
from spanlab.tasks.formats.row import Row
from spanlab.workflows.benchmark import open_engines, time_engines, torch_predictors

FULL_WORDS = 220
"""Words of a passage in a full bulk: about 300 tokens, within one window."""
PASSAGE = "the committee met in Geneva on Tuesday to discuss a treaty that had been delayed for a year"


def read_questions(count: int) -> list[Row]:
    """Questions of SQuAD's dev file, taken evenly from all articles."""
    articles = json.loads(lzma.decompress((data_folder() / "qa/squad1_dev.json.xz").read_bytes()))["data"]
    rows = [
        Row(values={"question": question["question"], "context": paragraph["context"]})
        for article in articles
        for paragraph in article["paragraphs"]
        for question in paragraph["qas"]
    ]
    return rows[:: len(rows) // count][:count]


def fill_up(rows: Sequence[Row]) -> list[Row]:
    """The same questions with contexts of the same number of words."""
    filled = []
    for row in rows:
        words = row.values["context"].split()
        context = " ".join((words * (FULL_WORDS // max(1, len(words)) + 1))[:FULL_WORDS])
        filled.append(Row(values={**row.values, "context": context}))
    return filled


def measure_speed(
    model: str, task: str, rounds: int, questions: int, threads: int
) -> tuple[dict[str, Any], list[Ratio]]:
    """Texts a second by engine and kind of work, what each is over fp32, and the engines beside transformers."""
    clock = time.process_time if threads == 1 else time.perf_counter
    with open_engines(model, task, lambda line: print(line, flush=True)) as engines:
        rows = read_questions(questions)
        full = fill_up(rows)
        ragged = time_engines(engines.runs, rows[: max(4, questions // 4)], rows, rounds, clock=clock)
        filled = time_engines(engines.runs, full[:1], full, rounds, clock=clock)
        left_out = dict(engines.left_out)
    speeds = {
        name: {
            "single": max(4, questions // 4) / min(alone),
            "ragged": len(rows) / min(together),
            "full": len(full) / min(filled[name][1]),
        }
        for name, (alone, together) in ragged.items()
    }
    result: dict[str, Any] = {"left_out": left_out}
    for name, speed in speeds.items():
        over = {kind: rate / speeds["fp32"][kind] for kind, rate in speed.items()}
        shown = "  ".join(f"{kind} {rate:8.2f}/s {over[kind]:5.2f}x" for kind, rate in speed.items())
        print(f"{name:14s} {shown}", flush=True)
        result[name] = {kind: round(rate, 2) for kind, rate in speed.items()}
        result[f"{name} over fp32"] = {kind: round(ratio, 2) for kind, ratio in over.items()}
    seconds = {name: (alone, together, filled[name][1]) for name, (alone, together) in ragged.items()}
    return result, compare(seconds, task)


def compare(seconds: Mapping[str, Sequence[Sequence[float]]], task: str) -> list[Ratio]:
    """Each engine beside transformers, by the seconds of its rounds in the three kinds of work."""
    kinds = ("one at a time", "in bulk, ragged", "in bulk, of one length")
    peer = "a plain transformers loop, encoder alone"
    return [
        Ratio.of(
            ours, theirs, what=f"prediction by the reader ({task}), {kind}", peer=peer, variant=name, headline=True
        )
        for name, of_kinds in seconds.items()
        if name != "transformers" and "transformers" in seconds
        for kind, ours, theirs in zip(kinds, of_kinds, seconds["transformers"], strict=True)
    ]


def resident_mb() -> float:
    """The memory of this process that is in use."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def measure_memory(model: str, task: str, count: int) -> dict[str, Any]:
    """Megabytes that the first and the second half of texts of all lengths add, in each precision."""
    words = PASSAGE.split()
    random = np.random.default_rng(0)
    lengths = random.integers(1, 400, count)
    result = {}
    for name, predictor in torch_predictors(model).items():
        predictor.predict({"question": "Where?", "context": "In Geneva."}, task=task)
        sizes = [resident_mb()]
        for half in np.array_split(lengths, 2):
            for start in range(0, len(half), 50):
                texts = [" ".join(random.choice(words, length)) for length in half[start : start + 50]]
                inputs = [{"question": "Where did they meet?", "context": text} for text in texts]
                predictor.predict(inputs[:40], task=task)
                for given in inputs[40:]:  # some alone, as a server gets them
                    predictor.predict(given, task=task)
            sizes.append(resident_mb())
        added = [round(after - before, 1) for before, after in pairwise(sizes)]
        print(f"{name:6s} first half +{added[0]} MB, second half +{added[1]} MB", flush=True)
        result[name] = {"first_half_mb": added[0], "second_half_mb": added[1]}
    return result


def main() -> None:
    """Measure and print; the last line is the result for scripts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="reader")
    parser.add_argument("--task", default="qa")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--questions", type=int, default=32)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--memory", type=int, default=0, metavar="N", help="memory over N texts in place of speed")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    os.environ["OMP_NUM_THREADS"] = str(options.threads)  # what ONNX Runtime is told
    about = {"cpu": name_cpu(), "int8_instructions": int8_instructions(), **circumstances()}
    print(about)
    if options.memory:
        print_result({**measure_memory(options.model, options.task, options.memory), **about})
        return
    result, ratios = measure_speed(options.model, options.task, options.rounds, options.questions, options.threads)
    print_result({**result, **about}, ratios)


if __name__ == "__main__":
    main()
