"""Time to quality: CPU minutes until a held-out MLM loss is reached, beside transformers' Trainer.

    python -m benchmarks.time_to_quality [--corpus DIR] [--target 6.0] [--cap-minutes 25]

SpanLab's side is `spanlab pretrain roberta size=mini` as it comes: masked language modelling of single subwords with
masks redrawn. The peer is `BertForMaskedLM` of the same size (4 layers of 256) with SDPA attention, trained by Trainer
with its MLM collator at 15 %, batches of 32, fused AdamW, and a linear schedule with a tenth of warm-up, at three
learning rates; the best of them counts, in the precision that is faster for it here. Both read the same blocks of the
novels (8,192 cased WordPieces, 128 tokens) in the same order, ready-made for the peer. Both are scored by one function
on the same held-out text with the same masks.

A schedule must know its length. That of the peer ends about where it reaches the default target, at its best rate; that
of SpanLab takes about a minute, and the target is passed on the way (`--peer-steps`, `--steps`).

Time is that of one thread: CPU seconds of a process from its start, with imports, word vectors from co-occurrence,
checkpoints and exports, without scoring; between two scores it is interpolated. A run that does not reach the target,
or not in `--cap-minutes`, counts as more than the time it took.

The novels come from the folder that SPANLAB_DATA names (or ../shared/data), and are prepared in the system's folder
for temporary files, once.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import Ratio, circumstances, print_result
from benchmarks.prepare import data_folder, unpack
from benchmarks.time_to_quality_sides import BATCH, Blocks
from spanlab.arrays import concatenated_ranges, offsets
from spanlab.pretraining.build import WeightedCorpus, build_data
from spanlab.pretraining.recipe import load_recipe

RATES = (5e-4, 1e-3, 2.5e-4)
HELD_OUT_BLOCKS = 256
TRIAL_STEPS = 6
Score = dict[str, float]


def main() -> None:
    """Measure and print; the last line is the result for scripts."""
    arguments = parse()
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        corpus = arguments.corpus or prepared_novels()
        write_blocks(corpus, scratch, arguments.peer_steps)
        side = Side(corpus, scratch, arguments)
        ours = side.run("ours", "--steps", arguments.steps)
        precision = faster_precision(side)
        peers = {
            rate: side.run("peer", "--steps", arguments.peer_steps, "--lr", rate, "--precision", precision)
            for rate in arguments.rates
        }
    result = compare(ours, peers, arguments.target)
    least = ", at least" if result["at_least"] else ""
    what = f"CPU time of one thread to a held-out MLM loss of {arguments.target:g}, size mini{least}"
    ratio = Ratio(
        what=what, peer=f"transformers' Trainer, {precision}, best of its rates", ratio=result["ratio"], rounds=()
    )
    print_result({**result, "peer_precision": precision, **circumstances()}, [ratio])


def parse() -> argparse.Namespace:
    """What the user asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, help="a prepared corpus; default: the novels, prepared on the first run")
    parser.add_argument("--target", type=float, default=6.0, help="the held-out loss to reach")
    parser.add_argument("--steps", type=int, default=300, help="the length of SpanLab's schedule")
    parser.add_argument("--peer-steps", type=int, default=1000, help="the length of the peer's schedule")
    parser.add_argument("--rates", type=float, nargs="+", default=RATES, help="the peer's learning rates")
    parser.add_argument("--cap-minutes", type=float, default=25.0, help="CPU minutes of a run of the peer, at most")
    return parser.parse_args()


def prepared_novels() -> Path:
    """The novels as a prepared corpus with a vocabulary of their own; kept for the next run."""
    cache = Path(tempfile.gettempdir()) / "spanlab-time-to-quality"
    corpus = cache / "corpus"
    if not (corpus / "manifest.json").exists():
        novels = [str(path) for path in sorted(unpack(data_folder(), cache / "novels").rglob("*.txt"))]
        spanlab = [sys.executable, "-m", "spanlab"]
        tokenizer = ["--vocab-size", "8192", "--out", str(cache / "tokenizer")]
        subprocess.run([*spanlab, "tokenizer", "train", *novels, "--type", "wordpiece", *tokenizer], check=True)
        options = ["--tokenizer", str(cache / "tokenizer"), "--out", str(corpus)]
        subprocess.run([*spanlab, "prepare", *novels, *options], check=True)
    return corpus


def write_blocks(corpus: Path, scratch: Path, peer_steps: int) -> None:
    """The blocks that the peer trains on, in SpanLab's order, and those that both are scored on."""
    recipe = load_recipe("roberta", ["size=mini", f"training.batch_size={BATCH}", f"training.steps={peer_steps}"])
    data = build_data(recipe, [WeightedCorpus.parse(str(corpus))])
    assert data.held_out is not None
    parts = {
        "train": [batch for step in range(peer_steps) for batch in data.step(step, rank=0, world_size=1)],
        "held_out": [batch for batch, _ in data.held_out.held_out_batches(rank=0, world_size=1)],
    }
    for name, batches in parts.items():
        lengths = np.concatenate([batch.lengths for batch in batches])
        ids = np.concatenate([batch.original_ids for batch in batches])
        every = max(1, len(lengths) // HELD_OUT_BLOCKS) if name == "held_out" else 1  # from all of the held-out ranges
        kept = np.arange(0, len(lengths), every)[: HELD_OUT_BLOCKS if name == "held_out" else None]
        ids = ids[concatenated_ranges(offsets(lengths)[kept], lengths[kept])]
        Blocks(ids, lengths[kept]).save(scratch / f"{name}.npz")


class Side:
    """Starts one side's process and reads its scores."""

    def __init__(self, corpus: Path, scratch: Path, arguments: argparse.Namespace) -> None:
        self._scratch, self._target = scratch, arguments.target
        self._options = ["--corpus", corpus, "--held-out", scratch / "held_out.npz", "--blocks", scratch / "train.npz"]
        self._options += ["--cap-minutes", arguments.cap_minutes, "--target", arguments.target]

    def run(self, side: str, *options: object) -> list[Score]:
        """Its scores, each printed when it comes."""
        command = [sys.executable, "-m", "benchmarks.time_to_quality_sides", side, "--out", self._scratch / side]
        command += [*self._options, *options, "--started", time.time()]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        process = subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, text=True, env=environment)
        assert process.stdout is not None
        scores: list[Score] = []
        for line in process.stdout:
            if line.startswith('{"step"'):
                scores.append(json.loads(line))
                print(side, *options, " ".join(f"{key} {value:.5g}" for key, value in scores[-1].items()), flush=True)
        if process.wait():
            sys.exit(f"{side} failed")
        return scores


def faster_precision(side: Side) -> str:
    """The precision in which a few steps of the peer take less CPU time."""
    seconds = {}
    for precision in ("fp32", "bf16"):
        (trial,) = side.run("peer", "--steps", TRIAL_STEPS, "--lr", RATES[0], "--precision", precision, "--trial")
        seconds[precision] = trial["cpu"]
    return min(seconds, key=lambda precision: seconds[precision])


def seconds_to(target: float, scores: Sequence[Score], clock: str) -> float | None:
    """When the loss first fell to the target, between two scores by interpolation; None if it never did."""
    before: Score | None = None
    for score in scores:
        if score["loss"] <= target:
            if before is None:
                return score[clock]
            share = (before["loss"] - target) / (before["loss"] - score["loss"])
            return before[clock] + share * (score[clock] - before[clock])
        before = score
    return None


def compare(ours: Sequence[Score], peers: dict[float, list[Score]], target: float) -> dict[str, Any]:
    """Minutes of each side and their ratio; a side that did not reach the target counts with the time it ran."""
    if (mine := seconds_to(target, ours, "cpu")) is None:
        sys.exit(f"SpanLab reached {ours[-1]['loss']:.3f}, not {target}: give it more --steps")
    result: dict[str, Any] = {"target": target, "cpu_minutes": round(mine / 60, 2)}
    result["wall_minutes"] = round((seconds_to(target, ours, "wall") or 0) / 60, 2)
    reached = {rate: seconds_to(target, scores, "cpu") for rate, scores in peers.items()}
    for rate, seconds in reached.items():
        minutes = f"{seconds / 60:.2f}" if seconds else f"more than {peers[rate][-1]['cpu'] / 60:.2f}"
        lowest = min(score["loss"] for score in peers[rate])
        print(f"Trainer, learning rate {rate:g}: {minutes} CPU minutes, lowest loss {lowest:.3f}")
        result[f"peer_{rate:g}"] = minutes
    best = min((seconds, rate) for rate, seconds in reached.items() if seconds) if any(reached.values()) else None
    least = min(scores[-1]["cpu"] for scores in peers.values()) if best is None else best[0]
    if best is not None:
        result["peer_wall_minutes"] = round((seconds_to(target, peers[best[1]], "wall") or 0) / 60, 2)
    ratio = round(least / mine, 2)
    print(f"spanlab: {mine / 60:.2f} CPU minutes; {'' if best else 'at least '}{ratio} times faster than Trainer")
    return result | {"ratio": ratio, "at_least": best is None}


if __name__ == "__main__":
    main()
