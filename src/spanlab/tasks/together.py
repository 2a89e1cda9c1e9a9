"""Several tasks on the same inputs: every sequence that their samples have in common is encoded once.

Tasks see the same sequence where they frame a text alike, with the same windows; what differs (a question before its
context) is a sequence of its own. Tasks that have adapters or a vector of their own in the encoder, and those that
write text, are computed alone.
Inputs are taken in order of length, in batches by tokens, so memory is bounded as it is for one task.

Shapes: B sequences, N tokens, D width.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from spanlab.tasks.formats.row import FileShape
from spanlab.tasks.head import Answering, Encoded
from spanlab.tasks.network import MultiTaskNetwork, encode_samples
from spanlab.tasks.outputs import compute_outputs
from spanlab.tasks.sample import Sample, SampleBatch, TokenSequence, pack_samples
from spanlab.training.place import ProcessContext

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
    own = network.own_parts(task)
    return not isinstance(network.head(task), Answering) and not (own is not None and own.changes_hidden_states)


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
        own, head = self._network.own_parts(task), self._network.head(task)
        if own is not None:
            pooled_BD = own.pooled(hidden_ND, batch.starts, pooled_BD)
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
