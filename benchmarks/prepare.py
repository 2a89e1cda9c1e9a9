"""Text to a prepared corpus, against `datasets.map` tokenisation with the `group_texts` step of transformers' run_mlm.

    python -m benchmarks.prepare [--rounds 2] [--workers 2] [--novels 100]

Both sides tokenise 100 novels (62 MB), or fewer, with BERT's uncased vocabulary on the same number of processes, each
run in a process of its own. SpanLab's time is everything: starting workers, sentences, words, duplicates, shards,
checksums. The peer's time is its two `map` calls alone, and its tokens count the two special tokens it puts around
every line; both are in its favour. Peak memory is the sum over a run's processes, shared pages counted once. Then:
memory on four times the text, and random blocks read from the corpus on one core.

The novels come from the folder that SPANLAB_DATA names (or ../shared/data): novels/novels.tar.xz, tokenizers/.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.measure import Ratio, print_result

BLOCK, BATCH = 512, 64
PEER = "datasets.map + group_texts"


def main() -> None:
    """Measure and print; the last line is for scripts."""
    arguments = parse()
    if arguments.role:
        print(json.dumps(ROLES[arguments.role](arguments)))
        return
    data = data_folder()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        tokenizer = data / "tokenizers" / "bert-base-uncased" / "tokenizer.json"
        novels = unpack(data, folder / "novels", arguments.novels)
        result, ratios = compare(novels, tokenizer, folder, arguments)
        result |= measure_memory(novels, tokenizer, folder, arguments)
        result |= measure_reading(folder)
    result |= {"workers": arguments.workers, "load": round(os.getloadavg()[0], 2), "cores": os.cpu_count()}
    print_result(result, ratios)


def parse() -> argparse.Namespace:
    """What the user asks for; the hidden arguments are for the processes that are measured."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.prepare")
    parser.add_argument("--rounds", type=int, default=2, help="runs of each side, in turn; the best of each counts")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--novels", type=int, help="only so many of them")
    for name in ("role", "text", "tokenizer", "out"):
        parser.add_argument(f"--{name}", help=argparse.SUPPRESS)
    return parser.parse_args()


def data_folder() -> Path:
    """Where the real data is."""
    folder = Path(os.environ.get("SPANLAB_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
    if not (folder / "novels" / "novels.tar.xz").exists():
        sys.exit("the novels are not there: set SPANLAB_DATA to the folder that holds novels/novels.tar.xz")
    return folder


def unpack(data: Path, folder: Path, most: int | None = None) -> Path:
    """The novels as files, one per book; only the first ones if `most` says so."""
    with tarfile.open(data / "novels" / "novels.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    for path in sorted(folder.rglob("*.txt"))[most:] if most is not None else ():
        path.unlink()
    return folder


def multiply(novels: Path, folder: Path, times: int) -> Path:
    """Copies of the novels that differ in their first line, so that none is dropped as a duplicate."""
    folder.mkdir()
    for path in sorted(novels.rglob("*.txt")):
        for copy in range(times):
            (folder / f"{path.stem}-{copy}.txt").write_text(f"Copy {copy}.\n\n" + path.read_text("utf-8"), "utf-8")
    return folder


def compare(
    novels: Path, tokenizer: Path, folder: Path, arguments: argparse.Namespace
) -> tuple[dict[str, Any], list[Ratio]]:
    """Tokens a second of both sides, each the best of its rounds."""
    sides = {"spanlab": "ours", PEER: "peer"}
    missing = [name for name in ("datasets", "transformers") if find_spec(name) is None]
    if missing:
        print(f"the peer is not installed, only SpanLab is measured: pip install {' '.join(missing)}")
        del sides[PEER]
    best: dict[str, dict[str, Any]] = {}
    rates: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(arguments.rounds):
        for name, role in sides.items():
            out = folder / f"{role}{number}"
            run = measured(role, novels, tokenizer, out, arguments.workers)
            rate = run["tokens"] / run["seconds"]
            print(
                f"{name:27s} {run['tokens'] / 1e6:6.2f} M tokens, {run['seconds']:5.1f} s {rate / 1e6:6.3f} M tokens/s"
                f"  peak {run['peak'] / 2**20:6.0f} MB  (load {os.getloadavg()[0]:.2f})",
                flush=True,
            )
            rates[name].append(rate)
            if rate > best.get(name, {"rate": 0})["rate"]:
                best[name] = run | {"rate": rate}
            if number or role == "peer":
                shutil.rmtree(out)
    result = {"tokens_per_second": round(best["spanlab"]["rate"]), "peak_mb": round(best["spanlab"]["peak"] / 2**20)}
    ratios = []
    if PEER in best:
        named: dict[str, Any] = {
            "what": f"preparing a corpus, {arguments.workers} workers, with sentence and word boundaries",
            "peer": "`datasets.map` and `group_texts`",
            "headline": True,
        }
        ratios.append(Ratio.of_rates(rates["spanlab"], rates[PEER], **named))
        print(f"ratio {ratios[0].ratio:.2f} (by round: {', '.join(map(str, ratios[0].rounds))})")
        result |= {
            "peer_tokens_per_second": round(best[PEER]["rate"]),
            "peer_peak_mb": round(best[PEER]["peak"] / 2**20),
        }
    return result, ratios


def measure_memory(novels: Path, tokenizer: Path, folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Peak memory on the novels and on four times as much text."""
    peaks = []
    for times in (1, 4):
        text = multiply(novels, folder / f"novels{times}", times)
        run = measured("ours", text, tokenizer, folder / f"memory{times}", arguments.workers)
        peaks.append(run["peak"])
        print(
            f"{times} x the novels: {run['tokens'] / 1e6:6.2f} M tokens, peak {run['peak'] / 2**20:.0f} MB", flush=True
        )
        shutil.rmtree(folder / f"memory{times}")
    return {"memory_ratio_at_4x": round(peaks[1] / peaks[0], 3)}


def measured(role: str, text: Path, tokenizer: Path, out: Path, workers: int) -> dict[str, Any]:
    """Run one side in a process of its own; what it reports, and the peak memory of its processes together."""
    command = [sys.executable, "-m", "benchmarks.prepare", "--role", role, "--workers", str(workers)]
    command += ["--text", str(text), "--tokenizer", str(tokenizer), "--out", str(out)]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_DATASETS_DISABLE_PROGRESS_BARS": "1"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    peak = 0
    while process.poll() is None:
        peak = max(peak, tree_memory(process.pid))
        time.sleep(0.1)
    assert process.stdout is not None
    if process.returncode:
        sys.exit(f"{role} failed")
    report: dict[str, Any] = json.loads(process.stdout.read().splitlines()[-1])
    return report | {"peak": peak}


def tree_memory(root: int) -> int:
    """Memory of a process and its descendants in bytes; shared pages are counted once."""
    total, waiting = 0, [root]
    while waiting:
        place = Path("/proc") / str(waiting.pop())
        try:
            rollup = (place / "smaps_rollup").read_text()
            total += next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:")) * 1024
            for task in (place / "task").iterdir():
                waiting += map(int, (task / "children").read_text().split())
        except (OSError, StopIteration):  # it has ended
            continue
    return total


def prepare_ours(arguments: argparse.Namespace) -> dict[str, Any]:
    """SpanLab, from files to a corpus on disk."""
    start = time.perf_counter()
    from spanlab.corpus import PrepareConfig, plan_preparation, run_preparation
    from spanlab.text import Tokenizer

    plan = plan_preparation([arguments.text], PrepareConfig())
    loaded = Tokenizer.load(arguments.tokenizer)
    manifest = run_preparation(plan, tokenizer=loaded, out=arguments.out, workers=arguments.workers)
    return {"tokens": manifest.counts.tokens, "seconds": time.perf_counter() - start}


def prepare_peer(arguments: argparse.Namespace) -> dict[str, Any]:
    """Tokenisation and grouping as in transformers' run_mlm without --line_by_line."""
    import datasets
    from transformers import PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast(
        tokenizer_file=arguments.tokenizer, cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]", pad_token="[PAD]"
    )
    files = [str(path) for path in sorted(Path(arguments.text).rglob("*.txt"))]
    text = datasets.load_dataset("text", data_files=files, split="train", cache_dir=arguments.out)

    def tokenize(examples: dict[str, list[str]]) -> Any:  # noqa: ANN401 (a mapping of its own kind)
        return tokenizer(examples["text"], return_special_tokens_mask=True)

    def group_texts(examples: dict[str, list[list[int]]]) -> dict[str, list[list[int]]]:
        joined = {key: [item for part in examples[key] for item in part] for key in examples}
        total = len(next(iter(joined.values()))) // BLOCK * BLOCK
        return {key: [items[k : k + BLOCK] for k in range(0, total, BLOCK)] for key, items in joined.items()}

    start = time.perf_counter()
    tokenized = text.map(tokenize, batched=True, num_proc=arguments.workers, remove_columns=["text"])
    grouped = tokenized.map(group_texts, batched=True, num_proc=arguments.workers)
    return {"tokens": BLOCK * len(grouped), "seconds": time.perf_counter() - start}


def measure_reading(folder: Path) -> dict[str, Any]:
    """Random blocks of the corpus that the comparison left, on one core, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.prepare", "--role", "read", "--out", str(folder / "ours0")]
    rate = json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)["rate"]
    print(f"random blocks of {BLOCK}, {BATCH} at a time: {rate / 1e6:.1f} M tokens/s on one core")
    return {"read_tokens_per_second": round(rate)}


def read_blocks(arguments: argparse.Namespace) -> dict[str, Any]:
    """Tokens a second of random document blocks with word and sentence boundaries, order included."""
    from spanlab.corpus import DocumentBlocks, PreparedCorpus, SampleOrder

    blocks = DocumentBlocks(PreparedCorpus.open(arguments.out), length=BLOCK)
    order = SampleOrder(len(blocks), seed=0)
    steps = len(blocks) // BATCH
    start = time.perf_counter()
    tokens = sum(len(blocks.batch(order.indices(0, k * BATCH, (k + 1) * BATCH)).ids) for k in range(steps))
    return {"rate": tokens / (time.perf_counter() - start)}


ROLES = {"ours": prepare_ours, "peer": prepare_peer, "read": read_blocks}

if __name__ == "__main__":
    main()
