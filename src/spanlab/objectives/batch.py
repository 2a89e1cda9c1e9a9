"""A batch of examples as tensors on a device.

What enters is numpy on the host, what leaves are tensors, packed and gathered as they came. The host's arrays stay at
hand: what has to be counted or selected before the forward pass is done there, where it does not wait for a device.

Shapes: B sequences, N tokens, K predicted tokens, S tokens with span boundaries.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spanlab.corruption.examples import ExampleBatch


@dataclass(frozen=True, kw_only=True)
class TensorBatch:
    """`ExampleBatch` on a device; the fields mean what they mean there."""

    examples: ExampleBatch
    input_ids_N: Tensor
    original_ids_N: Tensor
    """As long as `input_ids_N` unless spans were collapsed."""
    lengths_B: Tensor
    segment_ids_N: Tensor | None
    positions_K: Tensor
    targets_K: Tensor
    boundary_targets_S: Tensor
    left_S: Tensor
    right_S: Tensor
    first_S: Tensor
    last_S: Tensor
    offsets_S: Tensor
    uniforms_K: Tensor
    """In single precision, which every device has."""
    pair_labels_B: Tensor
    rank_N: Tensor | None = None
    sight_N: Tensor | None = None
    """Of examples with an order; else None."""

    @classmethod
    def from_examples(cls, examples: ExampleBatch, device: torch.device | str = "cpu") -> "TensorBatch":
        """The same batch on `device`; on the CPU it shares the memory of arrays that may be written to."""

        def move(array: NDArray[np.generic]) -> Tensor:
            writable = array if array.flags.writeable else array.copy()  # tensors cannot be read-only
            return torch.from_numpy(writable).to(device, non_blocking=True)

        return cls(
            examples=examples,
            input_ids_N=move(examples.input_ids),
            original_ids_N=move(examples.original_ids),
            lengths_B=move(examples.lengths),
            segment_ids_N=None if examples.segment_ids is None else move(examples.segment_ids),
            positions_K=move(examples.positions),
            targets_K=move(examples.targets),
            boundary_targets_S=move(examples.boundary_targets),
            left_S=move(examples.left),
            right_S=move(examples.right),
            first_S=move(examples.first),
            last_S=move(examples.last),
            offsets_S=move(examples.offsets),
            uniforms_K=move(examples.uniforms.astype(np.float32)),
            pair_labels_B=move(examples.pair_labels),
            rank_N=None if examples.order is None else move(examples.order.rank),
            sight_N=None if examples.order is None else move(examples.order.sight),
        )
