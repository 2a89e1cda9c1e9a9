"""Fine-tuning compared with a plain transformers loop in one run: the same encoder, data, epochs and batch size.

    python -m benchmarks.finetune [--only qa,ner,sst2,stsb] [--parts losses,scores] [--seeds 3] [--train N] [--epochs E]

The encoder is the real MiniLM; the data are SQuAD 1.1, CoNLL-2003, SST-2 and STS-B, found through SPANLAB_DATA. Two
parts for each task:

- losses: with equal weights, order and no dropout, in single precision, the first 50 losses of both sides;
- scores: both sides train (bf16 where the machine has it, dropout, padding per batch for the peer) and predict: scores
  on dev over seeds, the time of training, and of prediction from text to answer; for questions also one at a time.
"""

import argparse
import json
import lzma
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from statistics import mean
from typing import Any

import torch
import transformers

from benchmarks.finetune_peer import AnswerPeer, Peer, SentencePeer, TaggingPeer
from benchmarks.finetune_peer_loop import PeerLesson, answer, fit, peer_optimiser, peer_step
from benchmarks.measure import Ratio, circumstances, in_turn, print_result, rounds_in_turn
from spanlab.encoder.pretrained import locate_model
from spanlab.finetuning.config import resolve_config
from spanlab.finetuning.run import FinetuningRun
from spanlab.inference.load import load
from spanlab.machine import has_bf16_instructions
from spanlab.tasks.formats.reading import read_rows
from spanlab.tasks.formats.row import Row
from spanlab.tasks.table import find_task
from spanlab.training.distributed import current_process
from spanlab.training.loop import Training
from spanlab.training.records import Record
from spanlab.training.run_folder import RunFolder
from spanlab.training.schedules import learning_rate_factor

LOSSES = 50
SINGLE = 100
"""Questions that are asked one at a time."""


def read_squad(path: Path) -> Iterator[dict[str, Any]]:
    """Questions of a SQuAD file as rows."""
    for article in json.loads(lzma.decompress(path.read_bytes()))["data"]:
        for paragraph in article["paragraphs"]:
            for one in paragraph["qas"]:
                answers = [{"text": answer["text"], "start": answer["answer_start"]} for answer in one["answers"]]
                yield {"question": one["question"], "context": paragraph["context"], "answers": answers}


def read_task_file(task: str, path: Path) -> Iterator[dict[str, Any]]:
    """Rows of a file, read by SpanLab's own reader."""
    for row in read_rows(str(path), find_task(task).shape):
        if isinstance(row, Row):
            yield dict(row.values)


@dataclass(frozen=True, kw_only=True)
class Contest:
    """One task: its data and settings, the same for both sides."""

    task: str
    train: Callable[[Path], Iterator[dict[str, Any]]]
    dev: Callable[[Path], Iterator[dict[str, Any]]]
    train_count: int
    dev_count: int
    metric: str
    peer: type[Peer]
    lr: float
    epochs: float
    length: int
    every: int = 1
    """Take every so many-th training row, so that they are not all of a few articles."""


CONTESTS = {
    "qa": Contest(
        task="qa",
        train=lambda data: read_squad(data / "qa/squad1_train.json.xz"),
        dev=lambda data: read_squad(data / "qa/squad1_dev.json.xz"),
        train_count=2000,
        dev_count=1000,
        metric="f1",
        peer=AnswerPeer,
        lr=2e-4,
        epochs=2.0,
        length=384,
        every=43,
    ),
    "ner": Contest(
        task="ner",
        train=lambda data: read_task_file("ner", data / "ner/conll2003.train"),
        dev=lambda data: read_task_file("ner", data / "ner/conll2003.dev"),
        train_count=5000,
        dev_count=3250,
        metric="f1",
        peer=TaggingPeer,
        lr=1e-4,
        epochs=2.0,
        length=256,
    ),
    "sst2": Contest(
        task="classification",
        train=lambda data: read_task_file("classification", data / "classification/SST-2/train.tsv"),
        dev=lambda data: read_task_file("classification", data / "classification/SST-2/dev.tsv"),
        train_count=10_000,
        dev_count=872,
        metric="accuracy",
        peer=SentencePeer,
        lr=5e-5,
        epochs=1.0,
        length=128,
    ),
    "stsb": Contest(
        task="similarity",
        train=lambda data: read_task_file("similarity", data / "pairs/STS-B/train.tsv"),
        dev=lambda data: read_task_file("similarity", data / "pairs/STS-B/dev.tsv"),
        train_count=5749,
        dev_count=1500,
        metric="spearman",
        peer=SentencePeer,
        lr=5e-5,
        epochs=1.0,
        length=128,
    ),
}


def minilm() -> Path:
    """The packaged MiniLM's folder."""
    return locate_model("minilm")


def without_dropout(folder: Path, out: Path) -> Path:
    """A copy of a model folder with dropout 0 in its config."""
    shutil.copytree(folder, out)
    path = out / "config.json"
    quiet = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    path.write_text(json.dumps({**json.loads(path.read_text()), **quiet}))
    return out


def write_rows(rows: Iterator[dict[str, Any]], path: Path, count: int, every: int = 1) -> Path:
    """Some of the rows as JSON lines."""
    chosen = islice(rows, 0, count * every, every)
    path.write_text("".join(json.dumps(row) + "\n" for row in chosen), encoding="utf-8")
    return path


class Bench:
    """One contest with its files in a folder of its own."""

    def __init__(self, contest: Contest, data: Path, folder: Path, options: argparse.Namespace) -> None:
        self.name = folder.name
        self.contest, self.folder, self.options = contest, folder, options
        self.epochs = options.epochs or contest.epochs
        train_count, dev_count = options.train or contest.train_count, options.dev or contest.dev_count
        folder.mkdir(parents=True)
        self.train = write_rows(contest.train(data), folder / "train.jsonl", train_count, contest.every)
        self.dev = write_rows(contest.dev(data), folder / "dev.jsonl", dev_count)

    def prepare(self, model: Path, config: Any, *, dev: bool) -> FinetuningRun:  # noqa: ANN401 (the task's config)
        """The run of our side."""
        dev_file = str(self.dev) if dev else None
        return FinetuningRun(self.contest.task, config, model=str(model), train=str(self.train), dev=dev_file)

    def config(self, seed: int, **training: Any) -> Any:  # noqa: ANN401 (the task's config)
        """Our settings; the peer reads its own from them."""
        shared = {"lr": self.contest.lr, "batch_size": self.options.batch, "epochs": self.epochs, "save_every": 10**9}
        shared |= {"threads": self.options.threads, **training}
        # Losses are compared over whole batches; what trains for a score is cut as by default.
        data = {"length": self.contest.length, **({"batch_tokens": 10**6} if training.get("steps") else {})}
        return resolve_config(self.contest.task, {"seed": seed, "data": data, "training": shared})


def records(run: FinetuningRun, path: Path) -> Iterator[Record]:
    """Train our side, in the loop of every run."""
    folder, training = RunFolder(path), run.training
    folder.begin({})
    process = current_process(training.device, training.precision)
    return Training(run.spec, training, folder, process, seed=run.config.seed).records()


# ---- losses


def compare_losses(bench: Bench, model: Path) -> dict[str, float]:
    """The largest difference of the first losses."""
    quiet = without_dropout(model, bench.folder / "quiet")
    config = bench.config(0, steps=LOSSES, epochs=None, precision="fp32")
    run = bench.prepare(quiet, config, dev=False)
    theirs = peer_losses(bench, quiet, run, config)
    ours = [record.metrics["loss"] for record in records(run, bench.folder / "losses") if record.split == "train"]
    worst = max(abs(a - b) for a, b in zip(ours, theirs, strict=True))
    print(
        f"  losses {ours[0]:.4f} and {theirs[0]:.4f} to {ours[-1]:.4f} and {theirs[-1]:.4f}, at most {worst:.1e} apart"
    )
    return {"loss_difference": worst}


def peer_losses(bench: Bench, folder: Path, run: FinetuningRun, config: Any) -> list[float]:  # noqa: ANN401
    """The peer's losses on our batches, from our initial weights."""
    (data,) = run.tasks
    peer = bench.contest.peer(folder, data.task)
    features, samples = peer.features(data.train.examples), data.samples
    same = [
        list(one["input_ids"]) == sample.sequences[0].ids.tolist()
        for one, sample in zip(features, samples, strict=True)
    ]
    assert all(same), f"{same.count(False)} sequences differ"
    process = {id(sample): number for number, sample in enumerate(samples)}
    model = peer.build().train()
    standard = run.network.head(data.name).standard
    assert standard is not None
    peer.copy_head(model, standard.layer)
    loss_of = getattr(peer, "masked_loss", peer.loss)
    optimiser = peer_optimiser(model, config.training.lr)
    losses = []
    for step in range(LOSSES):
        batches = run.spec.data.step(step, rank=0, world_size=1)
        chosen = [features[process[id(sample)]] for batch in batches for sample in batch.samples]
        loss = loss_of(model, peer.labelled(chosen))
        peer_step(model, optimiser, loss, config.training.lr * learning_rate_factor(step, LOSSES, config.training))
        losses.append(loss.item())
    return losses


# ---- scores and speed


@dataclass(frozen=True, kw_only=True)
class Trained:
    """One side after training."""

    score: float
    seconds: float
    """Of the training steps."""
    predict: Callable[[int, int], Any]
    """From text to answers, for the first examples of dev; the peer is given its batch size."""


def train_ours(bench: Bench, model: Path, seed: int) -> tuple[Trained, FinetuningRun]:
    """SpanLab's loop, scored after the last step."""
    run = bench.prepare(model, bench.config(seed, eval_every=10**9), dev=True)
    told = records(run, bench.folder / f"run-{seed}")
    began, seconds, score = time.perf_counter(), 0.0, 0.0
    for record in told:
        if record.split == "train":
            seconds = time.perf_counter() - began
        else:
            score = record.metrics[bench.contest.metric] * (100 if bench.contest.metric == "spearman" else 1)
    product = load(bench.folder / f"run-{seed}", device="cpu")
    rows = [json.loads(line) for line in bench.dev.read_text(encoding="utf-8").splitlines()]
    return Trained(score=score, seconds=seconds, predict=lambda count, size: product.predict(rows[:count])), run


def train_peer(bench: Bench, model: Path, seed: int, run: FinetuningRun, peer: ProcessPoolExecutor) -> Trained:
    """The plain loop, in the process that holds it."""
    (data,) = run.tasks
    assert data.dev is not None
    lesson = PeerLesson(
        peer=bench.contest.peer,
        folder=model,
        task=data.task,
        train=data.train.examples,
        dev=data.dev.examples,
        training=run.config.training,
        epochs=bench.epochs,
        batch=bench.options.batch,
        threads=bench.options.threads,
        seed=seed,
    )
    score, seconds = peer.submit(fit, lesson).result()
    return Trained(score=score, seconds=seconds, predict=lambda count, size: peer.submit(answer, count, size).result())


def compare_scores(bench: Bench, model: Path, seeds: int) -> tuple[dict[str, Any], list[Ratio]]:
    """Scores over seeds, and the ratios of the times; the peer in a process of its own, with memory of its own."""
    with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as peer:
        return compare_with(peer, bench, model, seeds)


def compare_with(
    process: ProcessPoolExecutor, bench: Bench, model: Path, seeds: int
) -> tuple[dict[str, Any], list[Ratio]]:
    """The comparison, with the peer's process given."""
    ours, theirs = [], []
    for seed in range(seeds):
        mine, run = train_ours(bench, model, seed)
        peer = train_peer(bench, model, seed, run, process)
        ours.append(mine)
        theirs.append(peer)
        print(
            f"  seed {seed}: {bench.contest.metric} {mine.score:.2f} and {peer.score:.2f}, "
            f"training {mine.seconds:.0f} s and {peer.seconds:.0f} s",
            flush=True,
        )
    dev = run.tasks[0].dev
    assert dev is not None
    count = len(dev)
    times = rounds_in_turn(
        {"ours": lambda: mine.predict(count, 32), "theirs": lambda: peer.predict(count, 32)}, rounds=2, warmup=0
    )
    seconds = {name: min(rounds) for name, rounds in times.items()}
    result = {
        "score": round(mean(one.score for one in ours), 2),
        "peer_score": round(mean(one.score for one in theirs), 2),
        "train_ratio": round(sum(one.seconds for one in theirs) / sum(one.seconds for one in ours), 2),
        "predict_ratio": round(seconds["theirs"] / seconds["ours"], 2),
    }
    if bench.contest.task == "qa":
        few = min(SINGLE, count)
        alone = in_turn({"theirs": lambda: peer.predict(few, 1)}, rounds=1, warmup=0)["theirs"]
        result["predict_ratio_one_at_a_time"] = round(alone / few / (seconds["ours"] / count), 2)
    print(f"  {result}", flush=True)
    named: dict[str, Any] = {"peer": "a plain transformers loop", "headline": True, "variant": bench.name}
    what = "fine-tuning MiniLM, fp32" if not has_bf16_instructions() else "fine-tuning MiniLM, bf16"
    by_seed = ([one.seconds for one in side] for side in (ours, theirs))
    return result, [
        Ratio.of(*by_seed, what=what, **named),
        Ratio.of(times["ours"], times["theirs"], what=f"{what}: prediction from text to answer", **named),
    ]


def data_folder() -> Path:
    """Where the public data sets are."""
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("SPANLAB_DATA", default))
    if not folder.is_dir():
        raise SystemExit("no data: set SPANLAB_DATA to its folder")
    return folder


def read_options(about: str | None, *, only: Iterable[str], parts: str, threads: int) -> argparse.Namespace:
    """The command line of a contest with a plain transformers loop, with these defaults."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(only), help="contests, separated by commas")
    parser.add_argument("--parts", default=parts, help="what is compared, separated by commas: losses, scores")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--train", type=int, help="training examples of each")
    parser.add_argument("--dev", type=int, help="dev examples of each")
    parser.add_argument("--epochs", type=float)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--threads", type=int, default=threads)
    return parser.parse_args()


def main() -> None:
    """Measure and print; the last line is the result for scripts."""
    options = read_options(__doc__, only=CONTESTS, parts="losses,scores", threads=2)
    torch.set_num_threads(options.threads)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    about = circumstances()
    print(about)
    result: dict[str, Any] = {}
    ratios: list[Ratio] = []
    with tempfile.TemporaryDirectory() as folder:
        for name in options.only.split(","):
            print(name, flush=True)
            bench = Bench(CONTESTS[name], data_folder(), Path(folder) / name, options)
            found: dict[str, Any] = {}
            if "losses" in options.parts:
                found |= compare_losses(bench, minilm())
            if "scores" in options.parts:
                scores, beside = compare_scores(bench, minilm(), options.seeds)
                found |= scores
                ratios += beside
            result[name] = found
    print_result({**result, **about}, ratios)


if __name__ == "__main__":
    main()
