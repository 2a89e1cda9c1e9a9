"""What an encoder computes in one go: sequences of token ids, with what a head needs to know about them.

An example of a labelled file becomes one or more samples: a short text is one sample of one sequence, a long one a
sample a window; the two texts of a bi-encoder are two sequences of one sample, and so are the segments of a document
whose head must see them together. Training draws samples, batches hold samples, a head answers by sample.

A batch lays all sequences end to end, without padding. Arrays that samples carry under one name are laid end to end
along their first axis, too; positions in them count from the start of the sample's own sequence.

Shapes: N tokens, B sequences, S samples.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spanlab.arrays import Flags, Integers

Arrays = Mapping[str, NDArray[np.generic]]


@dataclass(frozen=True, kw_only=True, eq=False)
class TokenSequence:
    """The ids of one sequence with its special tokens."""

    ids: Integers
    """(N,)"""
    segments: Integers | None = None
    """(N,) which of two texts a token belongs to, for encoders that are told."""
    word_starts: Flags | None = None
    """(N,) where a word of a text, or a special token, begins; None where nobody can tell."""

    prefix: int = 0
    """So many first tokens see each other in both directions, in an encoder that otherwise looks back only."""

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, kw_only=True, eq=False)
class Sample:
    """One or more sequences that are computed together, and what belongs to them."""

    example: int
    """The number of the example this came from, in the list that was encoded."""
    sequences: tuple[TokenSequence, ...]
    features: Arrays = field(default_factory=dict)
    """What the head needs besides hidden states, in training and prediction alike; by name, first axis free."""
    targets: Arrays = field(default_factory=dict)
    """What the head is to predict; empty in prediction."""
    fixed: Flags | None = None
    """(N,) tokens of the only sequence that augmentation must leave as they are; None: special tokens alone."""
    truncated: bool = False
    """Whether text of the example was cut off here, because the user asked for that."""
    draw: "Callable[[np.random.Generator], Sample] | None" = None
    """Gives another part of the example each time training comes to it; None: the sample is all there is."""

    @property
    def tokens(self) -> int:
        """Tokens of all its sequences."""
        return sum(map(len, self.sequences))

    @property
    def longest(self) -> int:
        """Tokens of its longest sequence."""
        return max(map(len, self.sequences))


@dataclass(frozen=True, kw_only=True, eq=False)
class SampleBatch:
    """Samples of one task, on the host."""

    task: str
    """The name of the head they are for."""
    samples: tuple[Sample, ...]

    @property
    def sequences(self) -> list[TokenSequence]:
        """Of all samples, in order."""
        return [sequence for sample in self.samples for sequence in sample.sequences]


@dataclass(frozen=True, kw_only=True, eq=False)
class TensorBatch:
    """`SampleBatch` on a device, packed."""

    batch: SampleBatch
    """The host's arrays, where counting and slicing do not wait for the device."""
    input_ids_N: Tensor
    segment_ids_N: Tensor | None
    lengths_B: Tensor
    prefixes_B: Tensor | None = None
    """The prefix of each sequence; None where none has one."""
    features: Mapping[str, Tensor] = field(default_factory=dict)
    targets: Mapping[str, Tensor] = field(default_factory=dict)

    @property
    def starts(self) -> Tensor:
        """(B,) where each sequence begins on the token axis."""
        return torch.cumsum(self.lengths_B, 0) - self.lengths_B

    @property
    def sequence_counts(self) -> list[int]:
        """(S,) sequences of each sample."""
        return [len(sample.sequences) for sample in self.batch.samples]

    @property
    def token_counts(self) -> list[int]:
        """(S,) tokens of each sample."""
        return [sample.tokens for sample in self.batch.samples]


def pack_samples(batch: SampleBatch, device: torch.device | str = "cpu") -> TensorBatch:
    """The batch as tensors on `device`."""
    sequences = batch.sequences
    segments = [sequence.segments for sequence in sequences]
    prefixes = [sequence.prefix for sequence in sequences]
    segment_ids = None if segments[0] is None else np.concatenate([ids for ids in segments if ids is not None])
    return TensorBatch(
        batch=batch,
        input_ids_N=_tensor(np.concatenate([sequence.ids for sequence in sequences]), device),
        segment_ids_N=None if segment_ids is None else _tensor(segment_ids, device),
        lengths_B=torch.tensor([len(sequence) for sequence in sequences], device=device),
        prefixes_B=torch.tensor(prefixes, device=device) if any(prefixes) else None,
        features=_joined([sample.features for sample in batch.samples], device),
        targets=_joined([sample.targets for sample in batch.samples], device),
    )


def _joined(arrays: Sequence[Arrays], device: torch.device | str) -> dict[str, Tensor]:
    return {name: _tensor(np.concatenate([each[name] for each in arrays]), device) for name in arrays[0]}


def _tensor(array: NDArray[np.generic], device: torch.device | str) -> Tensor:
    return torch.from_numpy(array).to(device, non_blocking=True)
