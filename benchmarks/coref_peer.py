"""Coreference in documents of 1,000 to 100,000 words: words a second and peak memory beside fastcoref.

    python -m benchmarks.coref_peer [--words 1000 10000 100000] [--rounds 3] [--minutes 30]

Both sides read the same words of a novel with the same encoder, the packaged MiniLM, and a head of random weights, as
fastcoref's trained models are on the hub alone: what they find is arbitrary, what it costs is not. fastcoref has the
published sizes of F-coref's head (1,024 wide, a mention for every four tokens, segments of 512); SpanLab has its preset
`coref=small` (a mention for every four tokens, too). Each document is a process of its own on one thread, and time is
its CPU time from text to clusters, the best of the rounds; memory is the peak of the process with all of its libraries.
A side may take what memory the machine has free, and `--minutes` of the processor; one that needs more is told so.

Install the peer first: pip install fastcoref.
"""

import argparse
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any

from benchmarks.measure import Ratio, circumstances, print_result
from spanlab.machine import memory_gb, peak_memory_gb

WORDS = (1000, 10_000, 100_000)
HEAD = {"dropout_prob": 0.3, "ffnn_size": 1024, "max_segment_len": 512, "max_span_length": 30, "top_lambda": 0.25}
"""Those of F-coref's published config."""
PEER = "fastcoref (F-coref)"
Resolve = Callable[[str], int]
"""A text to its number of clusters."""


def ours() -> Resolve:
    """MiniLM with a new head."""
    from benchmarks.long_documents import predictor
    from spanlab.tasks.coref.config import SMALL
    from spanlab.tasks.coref.task import Coreference
    from spanlab.tasks.formats.row import Row

    row = Row(values={"text": "Anna said she slept.", "clusters": [[[0, 4], [10, 13]]]})
    example = Coreference.read(row, labelled=True)
    model = predictor(Coreference.fit(SMALL, [example]))

    def resolve(text: str) -> int:
        (result,) = model.predict([text])
        return len(result.clusters)

    return resolve


def fastcoref() -> Resolve:
    """The peer's own model and pipeline over the same encoder; words by spaCy's rules, without a tagger."""
    import logging

    import spacy
    import torch
    import transformers
    from fastcoref import FCoref
    from fastcoref.coref_models.modeling_fcoref import FCorefModel

    from benchmarks.finetune import minilm

    logging.disable(logging.INFO)
    transformers.utils.logging.disable_progress_bar()
    FCorefModel.all_tied_weights_keys = {}  # what transformers 5 asks of a model; it has no tied weights
    torch.manual_seed(0)
    config = transformers.AutoConfig.from_pretrained(minilm())
    config.coref_head = HEAD
    with tempfile.TemporaryDirectory() as folder:
        model = FCorefModel(config)
        encoder = transformers.AutoModel.from_pretrained(minilm())
        getattr(model, model.base_model_prefix).load_state_dict(encoder.state_dict())
        model.save_pretrained(folder)
        transformers.AutoTokenizer.from_pretrained(minilm()).save_pretrained(folder)
        peer = FCoref(folder, device="cpu", nlp=spacy.blank("en"), enable_progress_bar=False)
    peer.nlp.max_length = 10**8  # a novel has more characters than spaCy takes without being asked

    def resolve(text: str) -> int:
        # One batch, however long the document: fastcoref's own limit only divides documents between batches.
        return len(peer.predict([text], max_tokens_in_batch=10**9)[0].get_clusters())

    return resolve


SIDES: Mapping[str, Callable[[], Resolve]] = {"spanlab": ours, "fastcoref": fastcoref}


def one_side(side: str, words: int, rounds: int, minutes: float) -> dict[str, Any]:
    """Seconds of each round and the peak memory, measured in this process."""
    import torch

    from benchmarks.long_documents import novel

    _limit(minutes)
    torch.set_num_threads(1)
    text, resolve, seconds = novel(words), SIDES[side](), []
    resolve(text[:500])  # what is loaded at the first use
    loaded = peak_memory_gb()
    for _ in range(rounds):
        began = time.process_time()
        clusters = resolve(text)
        seconds.append(time.process_time() - began)
    return {"seconds": seconds, "peak_gb": peak_memory_gb(), "loaded_gb": loaded, "clusters": clusters}


def _limit(minutes: float) -> None:
    """No more memory than what is free now, beyond which the system would end other programs; no more time either."""
    import resource

    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(60 * minutes), resource.RLIM_INFINITY))
    free = memory_gb()[1]
    if free is not None:
        limit = int(0.9e9 * free)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def in_own_process(side: str, words: int, rounds: int, minutes: float) -> dict[str, Any]:
    """The same in a fresh process; `unable` says why there is no measurement."""
    command = [sys.executable, "-m", "benchmarks.coref_peer", "--side", side, "--words", str(words)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    command += ["--rounds", str(rounds), "--minutes", str(minutes)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode == -signal.SIGXCPU:
        return {"unable": f"takes more than {minutes:g} minutes of the processor"}
    if done.returncode:
        return {"unable": _why(done.stderr)}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _why(errors: str) -> str:
    """The reason in the last line of a traceback."""
    if "allocate memory" in errors:
        asked = errors.rpartition("you tried to allocate ")[2].split()[0]
        free = memory_gb()[1] or 0
        return f"asks for {int(asked) / 1e9:.0f} GB in one piece, and {free:.0f} GB are free"
    if "MemoryError" in errors:
        return "asks for more memory than is free"
    last = errors.strip().splitlines()
    return f"fails: {last[-1][:200] if last else 'without a message'}"


def compare(words: int, options: argparse.Namespace) -> tuple[dict[str, Any], list[Ratio], list[str]]:
    """One length: figures of both sides, their ratios, and what a side cannot do."""
    rounds = options.rounds if words <= 2000 else 1
    sides = list(SIDES) if find_spec("fastcoref") else ["spanlab"]
    found = {side: in_own_process(side, words, rounds, options.minutes) for side in sides}
    facts, unable = {}, []
    for side, measured in found.items():
        if "unable" in measured:
            unable.append(f"Coreference in a document of {words:,} words: {side} {measured['unable']}.")
            continue
        facts[side] = {
            "words_per_second": round(words / min(measured["seconds"])),
            "peak_gb": round(measured["peak_gb"], 2),
            "loaded_gb": round(measured["loaded_gb"], 2),
            "clusters": measured["clusters"],
        }
    print(f"{words:,} words: {facts or ''} {' '.join(unable)}", flush=True)
    if len(facts) < len(SIDES):
        return facts, [], unable
    times = [found[side]["seconds"] for side in SIDES]
    peaks = [[found[side]["peak_gb"]] for side in SIDES]
    what = "coreference, MiniLM, one thread"
    named: dict[str, Any] = {"what": what, "peer": PEER, "variant": f"{words:,} words", "headline": True}
    return facts, [Ratio.of(*times, **named), Ratio.of(*peaks, quantity="memory", **named)], unable


def main() -> None:
    """Measure and print; the last line is the result for scripts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--words", type=int, nargs="+", default=WORDS)
    parser.add_argument("--rounds", type=int, default=3, help="of documents up to 2,000 words; longer ones have one")
    parser.add_argument("--minutes", type=float, default=30.0, help="of the processor, for each side of a document")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        print(json.dumps(one_side(options.side, options.words[0], options.rounds, options.minutes)))
        return
    about, result = circumstances(), {}
    ratios: list[Ratio] = []
    cannot: list[str] = []
    for words in options.words:
        facts, beside, unable = compare(words, options)
        result[f"{words}_words"] = facts
        ratios += beside
        cannot += unable
    if find_spec("fastcoref") is None:
        cannot.append("Coreference beside fastcoref: it is not installed (`pip install fastcoref`).")
    print_result({**result, **about}, ratios, cannot)


if __name__ == "__main__":
    main()
