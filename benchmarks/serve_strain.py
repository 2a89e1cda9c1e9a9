"""`spanlab serve` under strain: a long document beside short requests, overload, the signal to end, a deleted folder.

    python -m benchmarks.serve_strain [--model reader] [--threads 1] [--parts document,overload,signal,folder]

- document: the 99th percentile of short requests alone, and beside a document of 100,000 words (entities; `--document`
  names another task);
- overload: 200 clients and a queue of 64: the statuses, and how long a request takes just after the clients have gone;
- signal: SIGTERM while 32 clients ask: what came of requests sent before it and after it;
- folder: the folder of the model is deleted while it is served, and every task is asked.

The last line is the result for scripts.
"""

import argparse
import json
import shutil
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import spanlab.models
from benchmarks.clients import Answered, Asked, ask_once, ask_together, quantile
from benchmarks.measure import circumstances, print_result
from benchmarks.serve import QUESTIONS
from benchmarks.serve_soak import requests_for
from benchmarks.server_process import ServerProcess, free_port, started

WORDS = 100_000
READER = Path(spanlab.models.__file__).parent / "reader"


def short_requests() -> list[Asked]:
    """Sentences of the almanac for entities and for answers."""
    from spanlab.samples import load

    sentences = [passage.text.partition(". ")[0] + "." for passage in load() if passage.language == "en"]
    asked = [("/v1/entities", json.dumps({"text": sentence})) for sentence in sentences]
    asked += [("/v1/qa", json.dumps({"question": QUESTIONS[0], "context": sentence})) for sentence in sentences]
    return asked[::7] + asked[3::7]


def long_document(words: int = WORDS) -> str:
    """The almanac over and over."""
    from spanlab.samples import load

    text = [word for passage in load() if passage.language == "en" for word in passage.text.split()]
    return " ".join((text * (words // len(text) + 1))[:words])


def strain_by_document(server: ServerProcess, task: str, *, clients: int, seconds: float) -> dict[str, Any]:
    """The 99th percentile of short requests alone and beside the document, while that is computed."""
    asked = short_requests()
    ask_together(server.port, asked, clients=clients, seconds=3)
    quiet = ask_together(server.port, asked, clients=clients, seconds=seconds)
    answer: list[Answered] = []
    done = threading.Event()

    def ask() -> None:
        answer.append(ask_once(server.port, f"/v1/{task}", json.dumps({"text": long_document()})))
        done.set()

    thread = threading.Thread(target=ask)
    thread.start()
    beside = ask_together(server.port, asked, clients=clients, seconds=600, stop=done)
    thread.join()
    ratio = quantile(beside, 0.99) / quantile(quiet, 0.99)
    return {
        "document_seconds": round(answer[0].seconds, 1),
        "document_status": answer[0].status,
        "quiet": _describe(quiet),
        "beside": _describe(beside),
        "p99_over_quiet": round(ratio, 2),
    }


def strain_by_overload(server: ServerProcess, *, seconds: float) -> dict[str, Any]:
    """What 200 clients get of a queue of 64, and what one gets after them."""
    asked = short_requests()
    answered = ask_together(server.port, asked, clients=200, seconds=seconds)
    refused = [one for one in answered if one.status == 429]
    after = ask_once(server.port, *asked[0])
    return {
        "statuses": _statuses(answered),
        "slowest_refusal_ms": round(1000 * max((one.seconds for one in refused), default=0.0)),
        "after": {"status": after.status, "ms": round(1000 * after.seconds)},
    }


def strain_by_signal(server: ServerProcess) -> dict[str, Any]:
    """The statuses of requests sent before SIGTERM and after it; before it, all must be 200."""
    at: list[float] = []

    def end() -> None:
        at.append(time.perf_counter())
        server.process.send_signal(signal.SIGTERM)

    timer = threading.Timer(8, end)
    timer.start()
    answered = ask_together(server.port, short_requests(), clients=32, seconds=60)
    timer.join()
    code = server.process.wait(timeout=60)
    before = [one for one in answered if one.sent < at[0]]
    return {
        "before": _statuses(before),
        "waiting_at_the_signal": sum(one.sent + one.seconds > at[0] for one in before),
        "after": _statuses([one for one in answered if one.sent >= at[0]]),
        "exit_code": code,
    }


def strain_by_folder(server: ServerProcess, folder: Path) -> dict[str, Any]:
    """The statuses of every task after the folder is gone."""
    shutil.rmtree(folder)
    asked = requests_for(server.port, 2)
    return {"deleted": not folder.exists(), "statuses": _statuses([ask_once(server.port, *one) for one in asked])}


def _statuses(answered: Sequence[Answered]) -> dict[str, int]:
    return {str(status): count for status, count in sorted(Counter(one.status for one in answered).items())}


def _describe(answered: Sequence[Answered]) -> dict[str, Any]:
    milliseconds = {f"p{share}_ms": round(1000 * quantile(answered, share / 100)) for share in (50, 99)}
    return {"requests": len(answered), "statuses": _statuses(answered), **milliseconds}


def serving(model: str, options: argparse.Namespace, *more: str) -> AbstractContextManager[ServerProcess]:
    """A server of a model."""
    port = free_port()
    command = ["spanlab.cli.main", "serve", model, "--port", str(port), *more]
    return started(command, port, threads=options.threads)


def main() -> None:
    """Try what was asked for and print; the last line is the result for scripts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="reader")
    parser.add_argument("--folder", type=Path, default=READER, help="a model, of which a copy is deleted")
    parser.add_argument("--document", default="entities")
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--parts", default="document,overload,signal,folder")
    options = parser.parse_args()
    parts, result = options.parts.split(","), {}
    if "document" in parts:
        with serving(options.model, options, "--timeout", "3600") as server:
            result["document"] = strain_by_document(
                server, options.document, clients=options.clients, seconds=options.seconds
            )
            print(result["document"], flush=True)
    if "overload" in parts:
        with serving(options.model, options, "--queue", "64") as server:
            result["overload"] = strain_by_overload(server, seconds=options.seconds)
            print(result["overload"], flush=True)
    if "signal" in parts:
        with serving(options.model, options) as server:
            result["signal"] = strain_by_signal(server)
            print(result["signal"], flush=True)
    if "folder" in parts:
        with tempfile.TemporaryDirectory() as temporary:
            copy = Path(shutil.copytree(options.folder, Path(temporary) / "model-to-delete"))
            with serving(str(copy), options) as server:
                result["folder"] = strain_by_folder(server, copy)
    print_result({**result, "threads_each": options.threads, **circumstances()})


if __name__ == "__main__":
    main()
