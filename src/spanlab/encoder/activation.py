"""The activation functions of the family, by name.

BERT's own code used the tanh approximation of GELU; the released weights are used with the exact one everywhere
today, so "gelu" is exact and "gelu_tanh" is what GPT and ALBERT name `gelu_new`.
"""

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor


def _gelu_tanh(x: Tensor) -> Tensor:
    return F.gelu(x, approximate="tanh")


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_tanh": _gelu_tanh,
    "relu": F.relu,
    "silu": F.silu,
}
