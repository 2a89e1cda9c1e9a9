"""Small models and texts for the tests of tasks, and the frame's way through them in a few lines."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from spanlab.encoder import Encoder, TransformerEncoder, preset
from spanlab.tasks.base import AnyTask
from spanlab.tasks.formats.row import Row
from spanlab.tasks.network import MultiTaskNetwork
from spanlab.tasks.predict import compute_outputs
from spanlab.tasks.sample import Sample, SampleBatch
from spanlab.tasks.tensor_batch import pack_samples
from spanlab.tasks.windows import Windower
from spanlab.text import Tokenizer, TokenizerConfig, train_tokenizer
from spanlab.training.distributed import ProcessContext
from tests.text.hostile_text import HONEST

TOKENIZER = train_tokenizer([HONEST, HONEST], TokenizerConfig(kind="wordpiece", vocab_size=550, lowercase=True))
BPE = train_tokenizer([HONEST, HONEST], TokenizerConfig(kind="bpe", vocab_size=600))
PROCESS = ProcessContext(device=torch.device("cpu"), precision="fp32")


def tiny_encoder(tokenizer: Tokenizer = TOKENIZER, system: str = "bert") -> Encoder:
    dry = {"dropout": 0.0, "attention_dropout": 0.0}
    return TransformerEncoder(preset(system, "tiny", vocab_size=tokenizer.vocab_size, max_positions=128, **dry))


def windower(
    length: int = 128, stride: int | None = None, tokenizer: Tokenizer = TOKENIZER, segments: int = 2
) -> Windower:
    return Windower(tokenizer, length=length, stride=stride, segments=segments)


def read(task: type[AnyTask], rows: Sequence[Mapping[str, Any]], *, labelled: bool = True) -> list[Any]:
    return [task.read(Row(values=values), labelled=labelled) for values in rows]


def by_example(samples: Sequence[Sample], values: Sequence[Any], count: int) -> list[list[Any]]:
    grouped: list[list[Any]] = [[] for _ in range(count)]
    for sample, value in zip(samples, values, strict=True):
        grouped[sample.example].append(value)
    return grouped


def decode_all(task: AnyTask, examples: Sequence[Any], samples: Sequence[Sample], outputs: Sequence[Any]) -> list[Any]:
    own_samples, own_outputs = (by_example(samples, values, len(examples)) for values in (samples, outputs))
    return [task.decode(i, example, own_samples[i], own_outputs[i]) for i, example in enumerate(examples)]


def run_head(task: AnyTask, encoder: Encoder, head: Any, samples: Sequence[Sample], *, batch_tokens: int) -> list[Any]:
    network = MultiTaskNetwork(encoder, {task.name: head})
    return compute_outputs(network, {task.name: samples}, batch_tokens=batch_tokens, process=PROCESS)[task.name]


def predict(task: AnyTask, encoder: Encoder, head: Any, examples: Sequence[Any], frame: Windower) -> list[Any]:
    samples = task.encode(examples, frame, labelled=False)
    outputs = run_head(task, encoder, head, samples, batch_tokens=256)
    return decode_all(task, examples, samples, outputs)


def train_head(
    task: AnyTask, examples: Sequence[Any], frame: Windower, *, steps: int, lr: float = 2e-3
) -> tuple[Encoder, Any]:
    """An encoder and a head trained on all examples at once, with the frame's own criterion."""
    encoder = tiny_encoder(frame.tokenizer)
    head = task.head(encoder)
    criterion = MultiTaskNetwork(encoder, {task.name: head})
    batch = SampleBatch(task=task.name, samples=tuple(task.encode(examples, frame, labelled=True)))
    optimiser = torch.optim.Adam(criterion.parameters(), lr=lr)
    for _ in range(steps):
        loss = criterion(pack_samples(batch), criterion.counts(batch)).value
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return encoder, head
