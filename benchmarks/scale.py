"""A plan beyond one machine, computed: SpanBERT-base on 100 GB of text with 8 to 64 GPUs, the figures of docs/scale.md.

    python -m benchmarks.scale --write docs/scale.md    # put the figures into the page
    python -m benchmarks.scale --measure                # measure again what the plan rests on (a few minutes, novels)

What was measured is in `scale_measured.json` beside this file, as CPU time where it is computing, so that other work on
the machine changes it little. What nobody can measure here, such as the speed of a GPU, is an `Assumptions` and is
named as such on the page. The rest is arithmetic over the product's own counts of parameters and operations.
"""

import argparse
import json
import math
import os
import re
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.measure import print_result

if TYPE_CHECKING:
    from spanlab.corpus import PreparedCorpus

MEASURED = Path(__file__).with_name("scale_measured.json")
GPUS = (8, 16, 32, 64)
WORKERS = (1, 8, 16, 32, 64)
BATCHES = (256, 2048)
"""The published number of sequences a step, and one that suits many GPUs."""
LENGTH = 512
VOCABULARY = 28_996
DEFAULT_CHECKPOINTS = 20
"""How many checkpoints a run writes that is not told otherwise."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What was measured with the product on one machine; rates are of one core."""

    tokens_per_byte: float
    corpus_bytes_per_token: float
    sentences_per_token: float
    tokens_per_block: float
    worker_seconds_per_mb: float
    """CPU time of reading, sentences, tokens and word boundaries, in a worker."""
    parent_seconds_per_mb: float
    """CPU time of the one process that cuts the input and writes the shards."""
    examples_tokens_per_second: float
    """Blocks read at random, masks drawn and packed: what a training process does before each step."""
    checkpoint_bytes_per_second: float
    """Written, checked and synced to this machine's disk."""


@dataclass(frozen=True, kw_only=True)
class Assumptions:
    """What was not measured."""

    text_bytes: float = 100e9
    document_bytes: float = 3000.0
    gpu: str = "A100"
    peak_flops: float = 312e12
    utilisation: float = 0.4
    steps: int = 2_400_000
    failure_hours: float = 50_000.0
    """GPU hours between two failures that end a run; Llama 3's report: 419 in 54 days on 16,384 GPUs."""
    restart_seconds: float = 300.0
    network_bytes_per_second: float = 12.5e9
    """A card of 100 Gb/s in each machine of eight GPUs."""


@dataclass(frozen=True, kw_only=True)
class Model:
    """SpanBERT-base with its two heads, counted by the product."""

    parameters: int
    flops_per_token: float
    """Of a training step, forward and backward."""


@cache
def spanbert_base() -> Model:
    """Parameters and operations; nothing is computed, so no memory is taken."""
    import torch
    from torch import nn

    from spanlab.encoder import MaskedLMHead, SpanBoundaryHead, TransformerEncoder, preset
    from spanlab.pretraining.build import training_flops
    from spanlab.pretraining.recipe import load_recipe

    with torch.device("meta"):
        config = preset("spanbert", "base", vocab_size=VOCABULARY)
        encoder = TransformerEncoder(config)
        heads = (MaskedLMHead(config), SpanBoundaryHead(config.width, VOCABULARY))
    model = nn.ModuleList([encoder, *heads])
    flops = training_flops(model, load_recipe("spanbert", ["size=base"]))
    return Model(parameters=sum(parameter.numel() for parameter in model.parameters()), flops_per_token=flops)


def read_measured() -> Measured:
    """What was measured last."""
    return Measured(**json.loads(MEASURED.read_text(encoding="utf-8"))["measured"])


# The figures, a table each.


def disk_table(measured: Measured, assumed: Assumptions) -> str:
    """Bytes on disk, and what grows with the text in memory."""
    tokens = assumed.text_bytes * measured.tokens_per_byte
    documents = assumed.text_bytes / assumed.document_bytes
    blocks = tokens / measured.tokens_per_block
    shards = tokens * measured.corpus_bytes_per_token
    rows = [
        ("tokens", f"{tokens / 1e9:.1f} billion"),
        ("shards: ids, word, sentence and document boundaries", _size(shards)),
        ("shard files", f"{math.ceil(tokens / (1 << 27)):,}"),
        ("samples of 512 tokens", f"{blocks / 1e6:.1f} million"),
        ("block index on disk, mapped into memory and shared by the processes of a machine", _size(8 * blocks)),
        ("memory of the preparation that finds duplicates", _size(16 * documents)),
        ("tokens of an epoch beside those of the published training", f"1 : {_trained(assumed) / tokens:.1f}"),
    ]
    return _table(("of 100 GB of text", ""), rows)


def preparation_table(measured: Measured, assumed: Assumptions) -> str:
    """Hours by the number of workers; the parent is a process of its own."""
    megabytes = assumed.text_bytes / 1e6
    most = measured.worker_seconds_per_mb / measured.parent_seconds_per_mb
    rows = []
    for workers in WORKERS:
        hours = megabytes * max(measured.worker_seconds_per_mb / workers, measured.parent_seconds_per_mb) / 3600
        rows.append((str(workers), f"{hours:.1f}", "the writing process" if workers > most else "the workers"))
    return _table(("workers", "hours", "limited by"), rows)


def training_table(measured: Measured, assumed: Assumptions) -> str:
    """Speed and cost of the published training."""
    rows = []
    for gpus in GPUS:
        rate = _rate(gpus, assumed)
        seconds = _trained(assumed) / rate
        host = BATCHES[0] * LENGTH / gpus / measured.examples_tokens_per_second
        step = BATCHES[0] * LENGTH / rate
        rows.append(
            (
                str(gpus),
                f"{rate / 1e6:.2f} M",
                f"{1000 * step:.0f} ms",
                f"{seconds / 86400:.1f}",
                f"{gpus * seconds / 3600:,.0f}",
                f"{1000 * host:.1f} ms",
            )
        )
    head = ("GPUs", "tokens a second", "step of 256", "days", "GPU hours", "preparing a process's share of a step")
    return _table(head, rows)


def network_table(measured: Measured, assumed: Assumptions) -> str:
    """What each machine sends in a step, and how fast it must be."""
    rows = []
    for batch in BATCHES:
        for gpus in GPUS:
            step = batch * LENGTH / _rate(gpus, assumed)
            ddp, fsdp = (_sent(gpus, passes) for passes in (2, 3))
            verdict = "hidden behind the step" if ddp / assumed.network_bytes_per_second <= step else "the limit"
            verdict = "within the machine" if gpus <= 8 else verdict
            rows.append((f"{batch:,}", str(gpus), _size(ddp), _size(fsdp), f"{ddp / step / 1e9:.1f} GB/s", verdict))
    head = ("sequences a step", "GPUs", "DDP, a step", "FSDP2, a step", "DDP needs", "at 100 Gb/s a machine")
    return _table(head, rows)


def checkpoint_table(measured: Measured, assumed: Assumptions) -> str:
    """The interval that loses least, by Daly's formula, beside that of a run that is not told."""
    cost = _checkpoint_bytes() / measured.checkpoint_bytes_per_second
    rows = []
    for gpus in GPUS:
        between = 3600 * assumed.failure_hours / gpus
        step = BATCHES[0] * LENGTH / _rate(gpus, assumed)
        best = daly_interval(cost, between)
        usual = assumed.steps * step / DEFAULT_CHECKPOINTS
        rows.append(
            (
                str(gpus),
                f"{between / 86400:.0f} days",
                f"{best / 3600:.1f} h",
                f"{round(best / step, -3):,.0f}",
                f"{100 * lost_share(best, cost, between, assumed):.2f} %",
                f"{usual / 3600:.1f} h",
                f"{100 * lost_share(usual, cost, between, assumed):.2f} %",
            )
        )
    head = ("GPUs", "a failure in", "best interval", "`training.save_every`", "lost", "twenty in the run", "lost")
    return _table(head, rows)


def state_table(measured: Measured, assumed: Assumptions) -> str:
    """The model and its checkpoints."""
    model, size = spanbert_base(), _checkpoint_bytes()
    rows = [
        ("parameters, both heads included", f"{model.parameters / 1e6:.1f} million"),
        ("operations to train on a token of a sequence of 512", f"{model.flops_per_token / 1e9:.2f} billion"),
        ("a checkpoint: weights and Adam's two moments in fp32", _size(size)),
        ("on disk: two are kept, and a third is written", _size(3 * size)),
        ("writing one, checksums and sync included", f"{size / measured.checkpoint_bytes_per_second:.0f} s"),
    ]
    return _table(("SpanBERT-base", ""), rows)


def assumption_table(measured: Measured, assumed: Assumptions) -> str:
    """What was not measured."""
    rows = [
        ("GPU", f"{assumed.gpu}, peak {assumed.peak_flops / 1e12:.0f} TFLOPS in bf16"),
        ("share of the peak that training reaches", f"{100 * assumed.utilisation:.0f} %"),
        ("steps, of 256 sequences of 512 tokens", f"{assumed.steps:,}, as published"),
        ("GPU hours between two failures", f"{assumed.failure_hours:,.0f}"),
        ("from a failure to the next step", f"{assumed.restart_seconds:.0f} s"),
        ("network of a machine with eight GPUs", f"{8 * assumed.network_bytes_per_second / 1e9:.0f} Gb/s"),
        ("mean length of a document", f"{assumed.document_bytes:,.0f} bytes"),
    ]
    return _table(("assumed", ""), rows)


def measured_table(measured: Measured, assumed: Assumptions) -> str:
    """What was measured, and where."""
    about = json.loads(MEASURED.read_text(encoding="utf-8"))["about"]
    rows = [
        ("tokens a byte of English novels, cased vocabulary of 28,996", f"{measured.tokens_per_byte:.3f}"),
        ("bytes of a shard a token", f"{measured.corpus_bytes_per_token:.2f}"),
        ("a worker, CPU seconds a MB of text", f"{measured.worker_seconds_per_mb:.2f}"),
        ("the writing process, CPU seconds a MB of text", f"{measured.parent_seconds_per_mb:.3f}"),
        ("training examples, tokens a CPU second", f"{measured.examples_tokens_per_second / 1e6:.1f} million"),
        ("checkpoints, written, hashed and synced", f"{measured.checkpoint_bytes_per_second / 1e6:.0f} MB/s"),
        ("on", f"{about['cpu']}, {about['date']}, load {about['load']}"),
    ]
    return _table(("measured", ""), rows)


TABLES: dict[str, Callable[[Measured, Assumptions], str]] = {
    "measured": measured_table,
    "assumed": assumption_table,
    "disk": disk_table,
    "preparation": preparation_table,
    "training": training_table,
    "network": network_table,
    "state": state_table,
    "checkpoints": checkpoint_table,
}


def daly_interval(cost: float, between: float) -> float:
    """Seconds of training between two checkpoints that lose the least time (Daly, 2006); Young's is its first term."""
    ratio = cost / (2 * between)
    return math.sqrt(2 * cost * between) * (1 + math.sqrt(ratio) / 3 + ratio / 9) - cost


def lost_share(interval: float, cost: float, between: float, assumed: Assumptions) -> float:
    """The share of time that goes to writing checkpoints, and to work done again after failures."""
    return cost / interval + (interval / 2 + assumed.restart_seconds) / between


def _rate(gpus: int, assumed: Assumptions) -> float:
    return gpus * assumed.peak_flops * assumed.utilisation / spanbert_base().flops_per_token


def _trained(assumed: Assumptions) -> float:
    return float(assumed.steps * BATCHES[0] * LENGTH)


def _sent(gpus: int, passes: int) -> float:
    """Bytes: an all-reduce of fp32 gradients is two passes around the ring; FSDP2 gathers weights twice and reduces."""
    return passes * (gpus - 1) / gpus * 4 * spanbert_base().parameters


def _checkpoint_bytes() -> float:
    return 12.0 * spanbert_base().parameters


def _size(count: float) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def with_figures(page: str) -> str:
    """The page with its tables computed: each stands between `<!-- figures: NAME -->` and `<!-- end -->`."""
    measured, assumed = read_measured(), Assumptions()

    def fill(match: re.Match[str]) -> str:
        return f"<!-- figures: {match[1]} -->\n\n{TABLES[match[1]](measured, assumed)}\n\n<!-- end -->"

    return re.sub(r"<!-- figures: (\w+) -->.*?<!-- end -->", fill, page, flags=re.DOTALL)


# Measuring.


def measure(novels: int) -> Measured:
    """Prepare some novels in this process and with workers, make examples of them, write a checkpoint."""
    from benchmarks.prepare import data_folder, unpack
    from spanlab.corpus import PrepareConfig, PreparedCorpus, plan_preparation, run_preparation
    from spanlab.text import Tokenizer

    data = data_folder()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        files = sorted(unpack(data, folder / "novels").rglob("*.txt"))[:novels]
        tokenizer = Tokenizer.load(data / "tokenizers" / "bert-base-cased")
        plan = plan_preparation([str(path) for path in files], PrepareConfig())
        seconds = []
        for workers in (1, 2):
            start = time.process_time()  # of this process alone
            run_preparation(plan, tokenizer=tokenizer, out=folder / f"corpus{workers}", workers=workers)
            seconds.append(time.process_time() - start)
        corpus = PreparedCorpus.open(folder / "corpus1")
        megabytes = sum(path.stat().st_size for path in files) / 1e6
        counts = corpus.counts
        fill, examples = _measure_examples(corpus)
        return Measured(
            tokens_per_byte=counts.tokens / (1e6 * megabytes),
            corpus_bytes_per_token=sum(record.bytes for record in corpus.manifest.shards) / counts.tokens,
            sentences_per_token=counts.sentences / counts.tokens,
            tokens_per_block=fill,
            worker_seconds_per_mb=(seconds[0] - seconds[1]) / megabytes,
            parent_seconds_per_mb=seconds[1] / megabytes,
            examples_tokens_per_second=examples,
            checkpoint_bytes_per_second=_measure_checkpoint(folder),
        )


def _measure_examples(corpus: "PreparedCorpus") -> tuple[float, float]:
    """(tokens of a block, tokens of examples a CPU second) of SpanBERT's samples of 512."""
    from spanlab.pretraining.batches import PretrainingData
    from spanlab.pretraining.recipe import load_recipe

    data = PretrainingData([corpus], [1.0], load_recipe("spanbert", ["size=base"]))
    (batch,) = data.step(0, rank=0, world_size=1)
    fill = len(batch.input_ids) / BATCHES[0]
    start, tokens = time.process_time(), 0
    for step in range(1, 9):
        tokens += sum(len(batch.input_ids) for batch in data.step(step, rank=0, world_size=1))
    return fill, tokens / (time.process_time() - start)


def _measure_checkpoint(folder: Path) -> float:
    """Bytes a second, the best of three."""
    import torch

    from spanlab.training.checkpoint import Checkpoints, Progress, Snapshot

    size, seconds = 64 << 20, []
    tensors = {f"{number}.weight": torch.randn(size // 16) for number in range(4)}
    for step in range(3):
        start = time.perf_counter()
        Checkpoints(folder / "checkpoints").write(
            Snapshot(progress=Progress(step=step), weights=tensors, optimiser=tensors), keep=1
        )
        seconds.append(time.perf_counter() - start)
    return 2 * size / min(seconds)


def _cpu() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), "unknown CPU")


def main() -> None:
    """Write the page, or measure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="compute the tables of this page")
    parser.add_argument("--measure", action="store_true", help="measure again")
    parser.add_argument("--novels", type=int, default=16, help="how many novels to prepare for that")
    arguments = parser.parse_args()
    if arguments.measure:
        about = {"cpu": _cpu(), "date": time.strftime("%Y-%m-%d"), "load": round(os.getloadavg()[0], 1)}
        found = {"about": about, "measured": asdict(measure(arguments.novels))}
        MEASURED.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if arguments.write:
        arguments.write.write_text(with_figures(arguments.write.read_text(encoding="utf-8")), encoding="utf-8")
    print_result({**json.loads(MEASURED.read_text(encoding="utf-8"))["measured"], **asdict(spanbert_base())})


if __name__ == "__main__":
    main()
