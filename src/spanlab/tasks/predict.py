"""Examples to results, the same way for dev scores, evaluation, prediction and serving."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from spanlab.tasks.base import AnyTask, Encoded
from spanlab.tasks.formats.row import FileShape
from spanlab.tasks.network import MultiTaskNetwork, encode_samples
from spanlab.tasks.result import Result
from spanlab.tasks.sample import Sample, SampleBatch, TokenSequence, pack_samples
from spanlab.training.distributed import ProcessContext


def compute_outputs(
    network: MultiTaskNetwork, samples: Sequence[Sample], *, task: str, batch_tokens: int, process: ProcessContext
) -> list[Any]:
    """The head's output for each sample, in order; several processes share the work and all get all of it."""
    batches = list(batches_by_tokens(samples, batch_tokens))
    head = network.head(task)
    computed: dict[int, Any] = {}
    training = network.training
    network.eval()
    # no_grad and not inference_mode: the same tensors may be trained on afterwards.
    with torch.no_grad(), process.autocast():
        # Every process runs the model equally often, as sharded models need: a last batch may be computed twice.
        for turn in range(-(-len(batches) // process.world_size)):
            indices = batches[min(turn * process.world_size + process.rank, len(batches) - 1)]
            batch = pack_samples(SampleBatch(task=task, samples=tuple(samples[i] for i in indices)), process.device)
            logits = network(batch, answer=True, most_tokens=batch_tokens)
            computed.update(zip(indices, head.split(logits, batch), strict=True))
    network.train(training)
    if process.world_size > 1:
        shares: list[dict[int, Any]] = [{}] * process.world_size
        dist.all_gather_object(shares, computed)
        computed = {index: output for share in shares for index, output in share.items()}
    return [computed[index] for index in range(len(samples))]


def batches_by_tokens(samples: Sequence[Sample], batch_tokens: int) -> Iterator[list[int]]:
    """The samples' numbers in order of length, in batches of at most `batch_tokens` tokens or of one sample."""
    batch: list[int] = []
    held = 0
    for index in np.argsort([sample.longest for sample in samples], kind="stable").tolist():
        tokens = samples[index].tokens
        if batch and held + tokens > batch_tokens:
            yield batch
            batch, held = [], 0
        batch.append(index)
        held += tokens
    if batch:
        yield batch


@dataclass(frozen=True, kw_only=True)
class Computed:
    """Examples with their samples and the head's outputs, by example."""

    examples: Sequence[Any]
    samples: Sequence[Sequence[Sample]]
    outputs: Sequence[Sequence[Any]]

    def decode(self, task: AnyTask, *, first: int = 0) -> list[Result]:
        """A result each, numbered from `first`."""
        parts = zip(self.examples, self.samples, self.outputs, strict=True)
        return [task.decode(first + number, *part) for number, part in enumerate(parts)]

    def tune(self, task: AnyTask) -> AnyTask:
        """The task with thresholds tuned on these examples."""
        return task.tune(self.examples, self.samples, self.outputs)


def compute(
    network: MultiTaskNetwork,
    examples: Sequence[Any],
    samples: Sequence[Sample],
    *,
    name: str,
    batch_tokens: int,
    process: ProcessContext,
) -> Computed:
    """Run the model on examples, of which `samples` were encoded."""
    outputs = compute_outputs(network, samples, task=name, batch_tokens=batch_tokens, process=process)
    return group_outputs(examples, samples, outputs)


def group_outputs(examples: Sequence[Any], samples: Sequence[Sample], outputs: Sequence[Any]) -> Computed:
    """Samples and the head's outputs put together by their examples."""
    by_example: list[list[Sample]] = [[] for _ in examples]
    outputs_by_example: list[list[Any]] = [[] for _ in examples]
    numbered = zip(samples, outputs, strict=True)
    for number, group in groupby(numbered, key=lambda pair: pair[0].example):
        for sample, output in group:
            by_example[number].append(sample)
            outputs_by_example[number].append(output)
    return Computed(examples=examples, samples=by_example, outputs=outputs_by_example)


SamplesByTask = Mapping[str, Sequence[Sample]]
SequenceKey = tuple[bytes, bytes]


def compute_together(
    network: MultiTaskNetwork, samples: SamplesByTask, *, batch_tokens: int, process: ProcessContext
) -> dict[str, list[Any]]:
    """The heads' outputs by task, for each sample in order; the samples' examples are numbered alike in all tasks."""
    alone = [name for name in samples if not _can_share(network, name)]
    outputs: dict[str, list[Any]] = {
        name: compute_outputs(network, samples[name], task=name, batch_tokens=batch_tokens, process=process)
        for name in alone
    }
    shared = {name: each for name, each in samples.items() if name not in alone}
    found: dict[str, dict[int, Any]] = {name: {} for name in shared}
    training = network.training
    network.eval()
    with torch.no_grad(), process.autocast():
        for batch in _batches(shared, batch_tokens):
            encoded = _SharedPass(network, shared, batch, batch_tokens=batch_tokens, process=process)
            for name, indices in batch.items():
                found[name].update(zip(indices, encoded.outputs(name), strict=True))
    network.train(training)
    outputs |= {name: [each[index] for index in range(len(each))] for name, each in found.items()}
    return {name: outputs[name] for name in samples}


def _can_share(network: MultiTaskNetwork, task: str) -> bool:
    """Whether a task looks at the encoder's own hidden states of whole sequences."""
    adapters = network.adapters(task)
    return not network.head(task).generates and (adapters is None or not adapters.changes_hidden_states)


def joint_shape(shapes: Sequence[FileShape]) -> FileShape:
    """What one file looks like that several tasks read: JSON lines, a table or plain texts, unless they are alike."""
    if all(shape == shapes[0] for shape in shapes):
        return shapes[0]
    return FileShape(
        fields={name: others for shape in shapes for name, others in shape.fields.items()},
        required=tuple(dict.fromkeys(name for shape in shapes for name in shape.required)),
    )


class _SharedPass:
    """The different sequences of some samples of several tasks, encoded."""

    def __init__(
        self,
        network: MultiTaskNetwork,
        samples: SamplesByTask,
        batch: Mapping[str, Sequence[int]],
        *,
        batch_tokens: int,
        process: ProcessContext,
    ) -> None:
        self._network, self._process = network, process
        self._samples = {name: tuple(samples[name][i] for i in indices) for name, indices in batch.items()}
        different = {_key(sequence): sequence for each in self._samples.values() for sequence in _sequences(each)}
        self._places = {key: number for number, key in enumerate(different)}
        units = tuple(Sample(example=0, sequences=(sequence,)) for sequence in different.values())
        packed = pack_samples(SampleBatch(task="", samples=units), process.device)
        encoded = encode_samples(network.encoder, packed, most_tokens=batch_tokens)
        self._hidden = torch.split(encoded.hidden_ND, [len(sequence) for sequence in different.values()])
        self._pooled_BD = encoded.pooled_BD

    def outputs(self, task: str) -> list[Any]:
        """What the head of a task says about its samples."""
        batch = pack_samples(SampleBatch(task=task, samples=self._samples[task]), self._process.device)
        places = [self._places[_key(sequence)] for sequence in batch.batch.sequences]
        hidden_ND = torch.cat([self._hidden[place] for place in places])
        pooled_BD = self._pooled(places)
        adapters, head = self._network.adapters(task), self._network.head(task)
        if adapters is not None:
            pooled_BD = adapters.pooled(hidden_ND, batch.starts, pooled_BD)
        return head.split(head(Encoded(hidden_ND=hidden_ND, pooled_BD=pooled_BD, batch=batch)), batch)

    def _pooled(self, places: Sequence[int]) -> Tensor | None:
        if self._pooled_BD is None:
            return None
        return self._pooled_BD.index_select(0, torch.tensor(places, device=self._pooled_BD.device))


def _batches(samples: SamplesByTask, batch_tokens: int) -> Iterator[dict[str, list[int]]]:
    """The samples' numbers by task, all those of an example together; at most so many tokens, or one example."""
    by_example: dict[int, dict[str, list[int]]] = {}
    for name, each in samples.items():
        for index, sample in enumerate(each):
            by_example.setdefault(sample.example, {}).setdefault(name, []).append(index)
    sizes = {number: _size(samples, indices) for number, indices in by_example.items()}
    batch: dict[str, list[int]] = {}
    held = 0
    for number in sorted(by_example, key=lambda number: sizes[number]):
        _, tokens = sizes[number]
        if batch and held + tokens > batch_tokens:
            yield batch
            batch, held = {}, 0
        for name, indices in by_example[number].items():
            batch.setdefault(name, []).extend(indices)
        held += tokens
    if batch:
        yield batch


def _size(samples: SamplesByTask, indices: Mapping[str, Sequence[int]]) -> tuple[int, int]:
    """The longest sequence of an example, and the tokens of its different ones."""
    own = (samples[name][index] for name, each in indices.items() for index in each)
    lengths = {_key(sequence): len(sequence) for sequence in _sequences(own)}
    return max(lengths.values()), sum(lengths.values())


def _sequences(samples: Iterable[Sample]) -> Iterator[TokenSequence]:
    return (sequence for sample in samples for sequence in sample.sequences)


def _key(sequence: TokenSequence) -> SequenceKey:
    """Equal for sequences that an encoder cannot tell apart."""
    return sequence.ids.tobytes(), b"" if sequence.segments is None else sequence.segments.tobytes()
