"""ELMo's way to hand several layers on as one: a learnt weighted mean and a learnt scale.

Peters et al. 2018, equation 1: γ · Σ softmax(w)ₖ · hₖ.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class ScalarMixture(nn.Module):
    """The mixture of a fixed number of layers; it begins as their plain mean."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(layers))
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, layers: Sequence[Tensor]) -> Tensor:
        """One tensor shaped like each of the layers."""
        shares = self.weights.softmax(dim=0) * self.scale
        mixed = layers[0] * shares[0]
        for layer, share in zip(layers[1:], shares[1:], strict=True):
            mixed = mixed + layer * share
        return mixed
