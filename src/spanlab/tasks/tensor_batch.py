"""A batch of samples as tensors on a device: the packed input of the encoder, and the features of a head.

Shapes: N tokens, B sequences, S samples.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spanlab.tasks.sample import Arrays, SampleBatch


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
    def token_sequences(self) -> Tensor:
        """(N,) the index of the sequence that each token is of."""
        return _repeated_indices(self.lengths_B)

    @property
    def sequence_samples(self) -> Tensor:
        """(B,) the index of the sample that each sequence is of."""
        counts = [len(sample.sequences) for sample in self.batch.samples]
        return _repeated_indices(torch.tensor(counts, device=self.lengths_B.device))

    def packed(self, name: str) -> Tensor:
        """A feature of positions in each sample's only sequence, shifted to positions in the packed batch."""
        counts = torch.tensor(self.batch.feature_counts(name), device=self.lengths_B.device)
        return self.features[name] + torch.repeat_interleave(self.starts, counts)

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
        features=_concatenate([sample.features for sample in batch.samples], device),
        targets=_concatenate([sample.targets for sample in batch.samples], device),
    )


def _repeated_indices(counts: Tensor) -> Tensor:
    """0 so many times as the first count says, 1 as the second, and so on."""
    return torch.repeat_interleave(torch.arange(counts.shape[0], device=counts.device), counts)


def _concatenate(samples: Sequence[Arrays], device: torch.device | str) -> dict[str, Tensor]:
    return {name: _tensor(np.concatenate([arrays[name] for arrays in samples]), device) for name in samples[0]}


def _tensor(array: NDArray[np.generic], device: torch.device | str) -> Tensor:
    return torch.from_numpy(array).to(device, non_blocking=True)
