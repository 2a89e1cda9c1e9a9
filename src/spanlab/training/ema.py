"""Exponential moving average (EMA) of the weights, which often scores better than the weights themselves.

The average starts as a copy of the weights. Early in a run its decay is smaller than configured, so that the initial
weights do not dominate it for thousands of steps. It costs one more copy of the weights; with FSDP2, of the shards.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from spanlab.errors import InputError


class ExponentialMovingAverage:
    """The moving average of a module's trainable parameters."""

    def __init__(self, module: nn.Module, decay: float) -> None:
        self.decay = decay
        named = [(name, weight) for name, weight in module.named_parameters() if weight.requires_grad]
        self._names = [name for name, _ in named]
        self._weights: list[Tensor] = [weight for _, weight in named]
        self._averages = [weight.detach().clone() for weight in self._weights]

    @torch.no_grad()
    def update(self, step: int) -> None:
        """After step `step` (from 0): average ← d · average + (1 - d) · weights.

        d is the decay, but at most (1 + step) / (10 + step).
        """
        decay = min(self.decay, (1 + step) / (10 + step))
        torch._foreach_lerp_(self._averages, self._weights, 1 - decay)

    @contextmanager
    def swapped(self) -> Iterator[None]:
        """Context in which the module's weights are the average; afterwards they are restored exactly."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def state(self) -> dict[str, Tensor]:
        """The averages by parameter name; not copies."""
        return dict(zip(self._names, self._averages, strict=True))

    @torch.no_grad()
    def load(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state` returned."""
        differing = sorted(set(self._names) ^ set(state))
        if differing:
            cause = f"the saved moving average and the model differ in {len(differing)} weights, such as {differing[0]}"
            raise InputError(cause, fix="resume with the settings the run was started with")
        for name, average in zip(self._names, self._averages, strict=True):
            average.copy_(state[name])

    @torch.no_grad()
    def _swap(self) -> None:
        # Swaps values, not tensors: the optimiser and FSDP2 refer to the parameters' memory.
        for weight, average in zip(self._weights, self._averages, strict=True):
            current = weight.detach().clone()
            weight.copy_(average)
            average.copy_(current)
