"""Several tasks in one pass: each sequence is encoded once, and every task says what it says alone."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch

from spanlab.encoder import Encoder
from spanlab.finetuning.config import resolve_config
from spanlab.tasks.adapters import TaskAdapters
from spanlab.tasks.classification import Classification
from spanlab.tasks.config import TaskAdapterConfig
from spanlab.tasks.ner.task import NamedEntities
from spanlab.tasks.network import MultiTaskNetwork
from spanlab.tasks.predict import compute_outputs
from spanlab.tasks.sample import Sample
from spanlab.tasks.similarity import Similarity
from tests.tasks.making import PROCESS, read, tiny_encoder, windower

TEXTS = ["the river rose again", "she won", "and Mary won the long race " * 30, "the river rose again"]
ROWS = [
    {
        "text": text,
        "label": "ab"[number % 2],
        "spans": [{"start": 0, "end": 3, "label": "x"}],
        "text_a": text,
        "text_b": "she won the race",
        "score": float(number),
    }
    for number, text in enumerate(TEXTS)
]


@contextmanager
def counted(encoder: Encoder) -> Iterator[list[int]]:
    """The tokens of every pass through the encoder."""
    passes: list[int] = []
    hook = encoder.register_forward_hook(
        lambda _, arguments, keywords, out: passes.append(out.hidden.shape[0]), with_kwargs=True
    )
    yield passes
    hook.remove()


def several(lengths: tuple[int, int] = (64, 64)) -> tuple[MultiTaskNetwork, dict[str, list[Sample]]]:
    encoder = tiny_encoder()
    labels = Classification.fit(resolve_config("classification", {}), read(Classification, ROWS))
    names = NamedEntities.fit(resolve_config("ner", {}), read(NamedEntities, ROWS))
    both = Similarity.fit(resolve_config("similarity", {"head": "bi"}), read(Similarity, ROWS))
    tasks: dict[str, Any] = {"labels": labels, "names": names, "both": both}
    frames = {"labels": windower(lengths[0]), "names": windower(lengths[1]), "both": windower(64)}
    samples = {
        name: task.encode(read(type(task), ROWS, labelled=False), frames[name], labelled=False)
        for name, task in tasks.items()
    }
    return MultiTaskNetwork(encoder, {name: task.head(encoder) for name, task in tasks.items()}), samples


def alone(network: MultiTaskNetwork, samples: dict[str, list[Sample]]) -> dict[str, list[Any]]:
    return {
        name: compute_outputs(network, {name: each}, batch_tokens=500, process=PROCESS)[name]
        for name, each in samples.items()
    }


def assert_same(found: dict[str, list[Any]], wanted: dict[str, list[Any]]) -> None:
    assert list(found) == list(wanted)
    for name, outputs in wanted.items():
        for one, other in zip(found[name], outputs, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-5)


@pytest.mark.parametrize("batch_tokens", [1, 150, 10_000])
@pytest.mark.parametrize("lengths", [(64, 64), (64, 32)])
def test_every_task_says_what_it_says_alone(lengths: tuple[int, int], batch_tokens: int) -> None:
    network, samples = several(lengths)
    assert_same(compute_outputs(network, samples, batch_tokens=batch_tokens, process=PROCESS), alone(network, samples))


def test_a_text_is_encoded_once_for_all_tasks() -> None:
    network, samples = several()
    shared = {name: samples[name] for name in ("labels", "names")}
    with counted(network.encoder) as passes:
        compute_outputs(network, shared, batch_tokens=10_000, process=PROCESS)
    different = {sample.sequences[0].ids.tobytes(): sample.tokens for sample in samples["labels"]}
    assert passes == [sum(different.values())]
    assert len(different) < len(samples["labels"])
    with counted(network.encoder) as passes:
        compute_outputs(network, samples, batch_tokens=100, process=PROCESS)
    # The windows of the long text are one example: it is computed in turns of at most so many tokens.
    assert max(passes) <= 100
    assert len(passes) > 2


def test_own_poolers_share_the_pass_and_adapters_do_not() -> None:
    network, samples = several()
    wanted = alone(network, samples)
    own = TaskAdapters(network.encoder, TaskAdapterConfig(pooler=True))
    torch.nn.init.normal_(own.pooler.weight)  # type: ignore[union-attr]
    pooled = MultiTaskNetwork(network.encoder, {n: network.head(n) for n in samples}, adapters={"labels": own})
    shared = {name: samples[name] for name in ("labels", "names")}
    with counted(network.encoder) as passes:
        found = compute_outputs(pooled, shared, batch_tokens=10_000, process=PROCESS)
    assert len(passes) == 1
    assert_same(found, alone(pooled, shared))
    assert not np.allclose(found["labels"][0], wanted["labels"][0])
    adapted = TaskAdapters(network.encoder, TaskAdapterConfig(lora=2, embedding=True))
    torch.nn.init.normal_(adapted.adapters[0].up)  # type: ignore[arg-type]
    changed = MultiTaskNetwork(network.encoder, {n: network.head(n) for n in samples}, adapters={"labels": adapted})
    with counted(network.encoder) as passes:
        found = compute_outputs(changed, shared, batch_tokens=10_000, process=PROCESS)
    assert len(passes) == 2
    assert_same(found, alone(changed, shared))
    assert_same({"names": found["names"]}, {"names": wanted["names"]})
