"""One point of `benchmarks.growth`, in a process of its own: `python -m benchmarks.growth_points KIND JSON`.

What enters are the settings of the point; what leaves is one line of JSON with its time and memory. Time is the CPU
time of one thread, which other programs on the machine change least.
"""

import json
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

BASE = {"layers": 4, "width": 256, "length": 128, "batch": 16, "vocabulary": 8192, "predicted": 0.15}
ROUNDS = 3
QUESTION = "Where did they go in the evening?"


def training(
    *, layers: int, width: int, length: int, batch: int, vocabulary: int, predicted: float
) -> dict[str, float]:
    """The best of a few steps of masked language modelling, and the memory they took from before the model was made."""
    import torch

    torch.set_num_threads(1)
    from benchmarks.encoder import TrainingStep
    from benchmarks.measure import in_turn
    from spanlab.encoder import EncoderConfig, MaskedLMHead, TransformerEncoder
    from spanlab.machine import peak_memory_gb
    from spanlab.objectives import project

    before = peak_memory_gb()
    torch.manual_seed(0)
    config = EncoderConfig(
        vocab_size=vocabulary,
        width=width,
        layers=layers,
        heads=width // 64,
        inner_width=4 * width,
        max_positions=length,
        pooler=False,
    )
    encoder, head = TransformerEncoder(config), MaskedLMHead(config)
    model = torch.nn.ModuleDict({"encoder": encoder, "head": head}).train()
    ids_BT = torch.randint(5, vocabulary, (batch, length))
    positions = torch.randperm(batch * length)[: max(1, round(predicted * batch * length))]
    targets = ids_BT.flatten()[positions]

    def loss() -> torch.Tensor:
        hidden_KD = encoder(ids_BT).hidden.flatten(0, 1)[positions]
        return project(head.features(hidden_KD), encoder.word_table, head.bias, targets).total / len(targets)

    seconds = in_turn({"step": TrainingStep(model, loss, "fp32")}, ROUNDS, clock=time.process_time)["step"]
    return {
        "seconds": seconds,
        "tokens_per_second": batch * length / seconds,
        "peak_mb": 1e3 * (peak_memory_gb() - before),
    }


def reading(*, task: str, characters: int) -> dict[str, float]:
    """One document of so many characters, read by the packaged reader."""
    import torch

    torch.set_num_threads(1)
    from benchmarks.long_documents import novel
    from spanlab.inference.load import load
    from spanlab.machine import peak_memory_gb

    text = novel(characters // 4)[:characters]
    assert len(text) == characters, f"the longest novel has only {len(text):,} characters"
    model = load("reader", device="cpu", precision="fp32")
    short = text[:2000]
    list(model.predict([_given(task, short)], task=task))  # what is loaded at the first use
    before, began = peak_memory_gb(), time.process_time()
    list(model.predict([_given(task, text)], task=task))
    return {"seconds": time.process_time() - began, "added_mb": max(1.0, 1e3 * (peak_memory_gb() - before))}


def _given(task: str, text: str) -> Any:  # noqa: ANN401 (an input of any task)
    return {"question": QUESTION, "context": text} if task == "qa" else text


def serving(*, clients: list[int], seconds: float) -> dict[str, float]:
    """Requests per second and the median latency of one server, asked by more and more clients."""
    from benchmarks.clients import Asked
    from benchmarks.serve import load, make_requests
    from benchmarks.server_process import free_port, started

    port = free_port()
    command = ["spanlab.cli.main", "serve", "reader", "--port", str(port), "--queue", "10000"]
    requests: list[Asked] = [("/v1/entities", json.dumps(fields)) for _, fields in make_requests(["ner"], 200)]
    found: dict[str, float] = {}
    with ExitStack() as stack:
        server = stack.enter_context(started(command, port, threads=1))
        load(server, requests, 2, 1.0)  # warm-up
        for count in clients:
            seen = load(server, requests, count, seconds)
            found |= {f"per_second_{count}": seen.per_second, f"p50_ms_{count}": 1000 * seen.p50}
            assert not seen.errors, f"{seen.errors} errors with {count} clients"
    return found


if __name__ == "__main__":
    kinds: dict[str, Callable[..., dict[str, float]]] = {"training": training, "reading": reading, "serving": serving}
    print(json.dumps(kinds[sys.argv[1]](**json.loads(sys.argv[2]))))
