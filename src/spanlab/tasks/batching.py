"""Samples of any lengths to batches of a bounded number of tokens, sorted by length."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from spanlab.tasks.sample import Sample, TokenSequence

SamplesByTask = Mapping[str, Sequence[Sample]]


def batches_by_tokens(samples: Sequence[Sample], batch_tokens: int) -> Iterator[list[int]]:
    """Indices of the samples, sorted by length, in batches of at most `batch_tokens` tokens or of one sample."""
    batch: list[int] = []
    tokens = 0
    for index in np.argsort([sample.longest for sample in samples], kind="stable").tolist():
        if batch and tokens + samples[index].tokens > batch_tokens:
            yield batch
            batch, tokens = [], 0
        batch.append(index)
        tokens += samples[index].tokens
    if batch:
        yield batch


def shared_batches(samples: SamplesByTask, batch_tokens: int) -> Iterator[dict[str, list[int]]]:
    """Indices of samples by task, all those of an example together; at most `batch_tokens` tokens, or one example."""
    by_example: dict[int, dict[str, list[int]]] = {}
    for name, part in samples.items():
        for index, sample in enumerate(part):
            by_example.setdefault(sample.example, {}).setdefault(name, []).append(index)
    sizes = {example: _size(samples, indices) for example, indices in by_example.items()}
    batch: dict[str, list[int]] = {}
    total = 0
    for example in sorted(by_example, key=lambda example: sizes[example]):
        _, tokens = sizes[example]
        if batch and total + tokens > batch_tokens:
            yield batch
            batch, total = {}, 0
        for name, indices in by_example[example].items():
            batch.setdefault(name, []).extend(indices)
        total += tokens
    if batch:
        yield batch


def _size(samples: SamplesByTask, indices: Mapping[str, Sequence[int]]) -> tuple[int, int]:
    """The length of an example's longest sequence, and the tokens of its distinct ones."""
    chosen = (samples[name][index] for name, part in indices.items() for index in part)
    lengths = {sequence_key(sequence): len(sequence) for sequence in sequences_of(chosen)}
    return max(lengths.values()), sum(lengths.values())


def sequences_of(samples: Iterable[Sample]) -> Iterator[TokenSequence]:
    """All sequences of samples, in order."""
    return (sequence for sample in samples for sequence in sample.sequences)


def sequence_key(sequence: TokenSequence) -> tuple[bytes, bytes]:
    """Equal for sequences that give the same hidden states."""
    return sequence.ids.tobytes(), b"" if sequence.segments is None else sequence.segments.tobytes()
