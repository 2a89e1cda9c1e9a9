"""`spanlab serve` under a steady load: errors, latencies, and whether its memory stays as it is.

    python -m benchmarks.serve_soak [MODEL ...] [--minutes 10] [--clients 24] [--threads 1]

Clients ask without pause, each of the tasks that the models have, about single sentences up to several passages. A line
every ten seconds says what the server's memory is; the last line is the result: errors, and the memory of the second
minute beside that of the last.
"""

import argparse
import json
import threading
import time
from statistics import mean
from typing import Any

from benchmarks.clients import Asked, ask_once, ask_together, quantile
from benchmarks.measure import circumstances, print_result
from benchmarks.serve import make_requests
from benchmarks.server_process import ServerProcess, free_port, started

PERIOD = 10.0
_FIELDS: dict[frozenset[str], str] = {frozenset({"text"}): "text", frozenset({"question", "context"}): "qa"}
"""What to ask a task with these fields, as `make_requests` names it."""


def requests_for(port: int, count: int) -> list[Asked]:
    """Requests of every task of every model, by what the server says of itself, and of vectors."""
    models = json.loads(ask_once(port, "/v1/models").content)["data"]
    asked: list[Asked] = []
    for model in models:
        paths = {f"/v1/{task['name']}": _FIELDS.get(frozenset(task["fields"])) for task in model["spanlab"]["tasks"]}
        for number, (path, kind) in enumerate([*paths.items(), ("/embed", "inputs")]):
            if kind is None:
                continue
            for _, fields in make_requests([kind], count, seed=number):
                body = {"inputs": fields["text"]} if kind == "inputs" else fields
                asked.append((f"{path}?model={model['id']}", json.dumps(body)))
    # One task after the other, so that every minute has all of them.
    return [one for first in range(count) for one in asked[first::count]]


def watch(server: ServerProcess, stop: threading.Event, memory: list[tuple[float, float]]) -> None:
    """Note the time and the server's memory every ten seconds."""
    begin = time.perf_counter()
    while True:
        memory.append((time.perf_counter(), server.memory_mb()))
        print(f"{memory[-1][0] - begin:5.0f} s  {memory[-1][1]:7.1f} MB", flush=True)
        if stop.wait(PERIOD):
            return


def main() -> None:
    """Load and print; the last line is the result for scripts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=["reader"])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--clients", type=int, default=24)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    port, stop = free_port(), threading.Event()
    memory: list[tuple[float, float]] = []
    command = ["spanlab.cli.main", "serve", *options.models, "--port", str(port)]
    with started(command, port, threads=options.threads) as server:
        requests = requests_for(port, 100)
        watcher = threading.Thread(target=watch, args=(server, stop, memory))
        watcher.start()
        begin = time.perf_counter()
        answered = ask_together(port, requests, clients=options.clients, seconds=60 * options.minutes)
        elapsed = time.perf_counter() - begin
        stop.set()
        watcher.join()
    early = [size for at, size in memory if 60 <= at - begin < 120] or [memory[0][1]]
    late = [size for at, size in memory if at - begin >= elapsed - 60]
    errors = [one for one in answered if one.status != 200]
    for one in errors[:3]:
        print(one.status, one.content[:200])
    result: dict[str, Any] = {
        "minutes": round(elapsed / 60, 1),
        "clients": options.clients,
        "requests": len(answered),
        "errors": len(errors),
        "p50_ms": round(1000 * quantile(answered, 0.5)),
        "p99_ms": round(1000 * quantile(answered, 0.99)),
        "memory_mb": {"second_minute": round(mean(early), 1), "last_minute": round(mean(late), 1)},
        "threads_each": options.threads,
    }
    print_result({**result, **circumstances()})


if __name__ == "__main__":
    main()
