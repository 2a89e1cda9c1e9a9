"""An exponential moving average of the weights, which often scores better than the weights themselves.

The average starts as a copy of the weights. Early in a run it forgets faster than its decay says, so that it is not for
thousands of steps mostly the weights the run began with. It costs one more copy of the weights; shards of FSDP2 are
averaged as shards.
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
        """Take in the weights after step `step` (from 0): average ← d · average + (1 - d) · weights.

        d is the decay, but at most (1 + step) / (10 + step).
        """
        decay = min(self.decay, (1 + step) / (10 + step))
        torch._foreach_lerp_(self._averages, self._weights, 1 - decay)

    @contextmanager
    def swapped(self) -> Iterator[None]:
        """Within it the module's weights are the average; afterwards they are back, to the bit."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def state(self) -> dict[str, Tensor]:
        """The averages by parameter name; the tensors are the ones that are updated, not copies."""
        return dict(zip(self._names, self._averages, strict=True))

    @torch.no_grad()
    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on from what `state` gave."""
        missing = sorted(set(self._names) ^ set(state))
        if missing:
            raise InputError(f"the saved average and the model differ in {len(missing)} weights, such as {missing[0]}")
        for name, average in zip(self._names, self._averages, strict=True):
            average.copy_(state[name])

    @torch.no_grad()
    def _swap(self) -> None:
        # Values change places, not tensors: optimisers and sharding hold on to the parameters' memory.
        for weight, average in zip(self._weights, self._averages, strict=True):
            kept = weight.detach().clone()
            weight.copy_(average)
            average.copy_(kept)
