"""Objects that a server shares are used by many threads at once, and every result is bit for bit the sequential one.

Each test computes its results one after the other, then has eight threads make the same calls in different orders on
objects that no call has touched before, while Python switches threads as often as it can.
"""

import json
import pickle
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import spanlab
from spanlab.decoding.config import DecodingConfig
from spanlab.encoder import load_model
from spanlab.inference.fill import Filler
from spanlab.inference.generation import generate
from spanlab.inference.predictor import Predictor
from spanlab.text import Tokenizer, TokenizerConfig, train_tokenizer
from tests.text.hostile_text import HONEST

THREADS = 8
COMPAT = Path(__file__).parent / "compat" / "data"

Call = Callable[[], Any]


@pytest.fixture(autouse=True)
def _switch_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def comparable(value: Any) -> Any:
    """A value that `==` compares whole, and exactly."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, list | tuple):
        return [comparable(part) for part in value]
    if isinstance(value, dict):
        return {key: comparable(part) for key, part in value.items()}
    return comparable(value.to_dict()) if hasattr(value, "to_dict") else value


def wrong_results(calls: Sequence[Call], expected: Sequence[Any]) -> list[str]:
    """What eight threads, each making all of the calls from a different one on, got otherwise than `expected`."""
    begin = threading.Barrier(THREADS)

    def work(thread: int) -> list[str]:
        wrong = []
        begin.wait()
        for turn in range(len(calls)):
            index = (turn + thread * len(calls) // THREADS) % len(calls)
            try:
                if comparable(calls[index]()) != expected[index]:
                    wrong.append(f"call {index} in thread {thread}: another result")
            except Exception as error:
                wrong.append(f"call {index} in thread {thread}: {type(error).__name__}: {error}")
        return wrong

    with ThreadPoolExecutor(THREADS) as pool:
        return [finding for part in pool.map(work, range(THREADS)) for finding in part]


def assert_safe(make_calls: Callable[[], Sequence[Call]], *, rounds: int = 1) -> None:
    """Calls on new objects, made one after the other and, `rounds` times, by eight threads, give the same."""
    expected = [comparable(call()) for call in make_calls()]
    wrong = [finding for _ in range(rounds) for finding in wrong_results(make_calls(), expected)]
    assert not wrong, f"{len(wrong)} of {rounds * THREADS * len(expected)} calls: {wrong[:3]}"


# ---- text

LINES = [line for line in HONEST.splitlines() if line.strip()]
TEXTS = [*LINES, *(f"{one} {other}" for one, other in pairwise(LINES))] * 2
KINDS = {
    "wordpiece": TokenizerConfig(kind="wordpiece", vocab_size=550, lowercase=True),
    "wordpiece, Chinese not split": TokenizerConfig(kind="wordpiece", vocab_size=750, split_chinese=False),
    "bpe": TokenizerConfig(kind="bpe", vocab_size=600),
    "unigram": TokenizerConfig(kind="unigram", vocab_size=290),
    "word": TokenizerConfig(kind="word", vocab_size=230, min_frequency=1),
}


@cache
def trained(kind: str) -> Tokenizer:
    return train_tokenizer([HONEST, HONEST], KINDS[kind])


def renewed(kind: str) -> Tokenizer:
    """A trained tokenizer with nothing cached."""
    backend = trained(kind)._backend
    return Tokenizer(type(backend).from_str(backend.to_str()))


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_tokenizer(kind: str) -> None:
    def make_calls() -> list[Call]:
        tokenizer = renewed(kind)
        encode = [lambda text=text: vars(tokenizer.encode(text)) for text in TEXTS]
        rest = [lambda: tokenizer.decode(range(5, 60)), lambda: tokenizer.vocabulary, lambda: tokenizer.fingerprint]
        return [*rest, *encode]

    assert_safe(make_calls, rounds=12)


@pytest.mark.parametrize("kind", ["wordpiece", "bpe", "unigram"])
def test_a_tokenizer_whose_cache_overflows(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spanlab.text.encoding_cache.MAX_CHUNKS", 40)

    def make_calls() -> list[Call]:
        tokenizer = renewed(kind)
        return [lambda text=text: vars(tokenizer.encode(text)) for text in TEXTS]

    assert_safe(make_calls, rounds=3)


def test_a_tokenizer_is_copied_with_its_cache_in_use() -> None:
    tokenizer = trained("wordpiece")
    tokenizer.encode(LINES[0])
    copied = pickle.loads(pickle.dumps(tokenizer))
    assert comparable(vars(copied.encode(LINES[0]))) == comparable(vars(tokenizer.encode(LINES[0])))


# ---- models

TASK_FOLDERS = sorted(path.stem for path in (COMPAT / "tasks").glob("*.json"))


def load_with_dropout(folder: Path) -> Predictor:
    """A predictor whose random dropout would show if any thread left the model in training mode."""
    model = spanlab.load(folder, precision="fp32", device="cpu")
    for module in model._network.modules():
        if hasattr(module, "p") and isinstance(module.p, float):
            module.p = 0.5
    return model


@pytest.mark.parametrize("name", TASK_FOLDERS)
def test_predictor_and_its_vectors(name: str) -> None:
    cases = json.loads((COMPAT / "tasks" / f"{name}.json").read_text(encoding="utf-8"))

    def make_calls() -> list[Call]:
        model = load_with_dropout(COMPAT / "tasks" / name)
        predict = [lambda case=case: model.predict([case["input"]] * 2, task=case["task"]) for case in cases]
        embed = [lambda text=text: model.encode([text, "Anna sold the flour."]) for text in ("She was glad.", "Oslo")]
        return [*predict, *embed] * max(1, 24 // len(cases))

    assert_safe(make_calls)


def test_tasks_with_different_adapters_on_one_encoder(tmp_path: Path) -> None:
    folder = several_adapters(tmp_path / "model")
    texts = ["Anna sold the flour in Delft.", "The mayor of Oslo crossed the river. She was sad."]

    def make_calls() -> list[Call]:
        model = load_with_dropout(folder)
        each = [lambda text=text, task=task: model.predict(text, task=task) for text in texts for task in model.tasks]
        together = [lambda text=text: model.predict(text, task="all") for text in texts]
        return [*each, *together, lambda: model.encode(texts)] * 4

    assert_safe(make_calls)


def several_adapters(folder: Path) -> Path:
    """A model of four tasks: one without adapters, and three with LoRA, a task embedding, and both."""
    from spanlab.tasks.adapters import TaskAdapters
    from spanlab.tasks.config import TaskAdapterConfig
    from spanlab.tasks.model import TaskModel, load_task_model, save_task_model
    from tests.inference.models import shake

    base = load_task_model(COMPAT / "tasks" / "classification")
    task = base.tasks["classification"]
    own = {
        "lora": TaskAdapterConfig(lora=4, pooler=True),
        "embedding": TaskAdapterConfig(embedding=True),
        "both": TaskAdapterConfig(lora=2, embedding=True, pooler=True),
    }
    adapters = {name: TaskAdapters(base.encoder, config) for name, config in own.items()}
    heads = {name: task.head(base.encoder) for name in ("plain", *own)}
    for number, module in enumerate((*adapters.values(), *heads.values())):
        shake(module, number)
    tasks = dict.fromkeys(heads, task)
    save_task_model(
        folder,
        TaskModel(encoder=base.encoder, tokenizer=base.tokenizer, tasks=tasks, heads=heads, adapters=adapters),
    )
    return folder


@pytest.mark.parametrize("system", ["spanbert", "albert", "electra"])
def test_filling_masks(system: str) -> None:
    texts = [
        "Anna sold [MASK] [MASK] in Delft. She was glad.",
        "The mayor of [MASK] crossed the river.",
        "Peter [MASK] the nets in Rome.",
    ]

    def make_calls() -> list[Call]:
        filler = Filler(COMPAT / "models" / system, device="cpu")
        return [lambda text=text: filler.fill(text, top=3) for text in texts] * 8

    assert_safe(make_calls)


@pytest.mark.parametrize("setting", [{"temperature": 0.0}, {"seed": 3}, {"temperature": 0.0, "beams": 3}])
def test_generation(setting: dict[str, Any]) -> None:
    prompts = ["Anna sold", "The mayor of Oslo", "She was"]
    config = DecodingConfig(max_new_tokens=8, **setting)

    def make_calls() -> list[Call]:
        model, tokenizer = load_model(COMPAT / "models" / "gpt"), Tokenizer.load(COMPAT / "models" / "gpt")
        each = [lambda prompt=prompt: generate(model, tokenizer, [prompt], config) for prompt in prompts]
        return [*each, lambda: generate(model, tokenizer, prompts, config)] * 6

    assert_safe(make_calls)


def test_what_no_thread_may_leave_behind(tmp_path: Path) -> None:
    """A prediction leaves modes, weights and gradients of a shared model as they were."""
    model = load_with_dropout(several_adapters(tmp_path / "model"))
    loaded = [*model.model.encoder.parameters(), *model.model.adapters["both"].parameters()]
    values = [weight.clone() for weight in loaded]
    for task in model.tasks:
        model.predict("Anna", task=task)  # merges the adapters of the task, once
    assert all(torch.equal(weight, value) for weight, value in zip(loaded, values, strict=True))
    before = {name: weight.clone() for name, weight in model._network.state_dict().items()}
    identities = {name: id(weight) for name, weight in model._network.named_parameters()}
    wrong = wrong_results([lambda task=task: model.predict("Anna", task=task) for task in model.tasks], [])
    assert len(wrong) == THREADS * len(model.tasks), "nothing was expected, so every result is another"
    assert not any(module.training for module in model._network.modules())
    assert {name: id(weight) for name, weight in model._network.named_parameters()} == identities
    assert all(torch.equal(weight, before[name]) for name, weight in model._network.state_dict().items())
