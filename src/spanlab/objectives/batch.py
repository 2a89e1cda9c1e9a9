"""A batch of examples as tensors on a device.

The NumPy arrays stay available as `examples`: counting and selecting on the host does not synchronise with the device.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spanlab.corruption.examples import ExampleBatch, map_arrays


@dataclass(frozen=True, kw_only=True)
class TensorBatch(ExampleBatch[Tensor]):
    """An `ExampleBatch` on a device."""

    examples: ExampleBatch
    """The same batch on the host."""

    @classmethod
    def from_examples(cls, examples: ExampleBatch, device: torch.device | str = "cpu") -> "TensorBatch":
        """The batch on `device`; on the CPU it shares the memory of writable arrays. Doubles become floats."""

        def move(array: NDArray[Any]) -> Tensor:
            if array.dtype == np.float64:  # which not every device has
                array = array.astype(np.float32)
            writable = array if array.flags.writeable else array.copy()  # tensors cannot be read-only
            return torch.from_numpy(writable).to(device, non_blocking=True)

        return cls(examples=examples, **map_arrays(examples, move))
