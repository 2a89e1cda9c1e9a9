"""The activation functions of the family, by name.

BERT's own code used the tanh approximation of GELU; the released weights are used with the exact one everywhere
today, so "gelu" is exact and "gelu_tanh" is what GPT and ALBERT name `gelu_new`.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor


def _gelu_tanh(x: Tensor) -> Tensor:
    return F.gelu(x, approximate="tanh")


def activate_in_place(name: str, x: Tensor) -> Tensor:
    """The activation written over its input, which nobody else may need: no fresh memory is touched."""
    if name in {"gelu", "gelu_tanh"}:
        torch.ops.aten.gelu_(x, approximate="tanh" if name == "gelu_tanh" else "none")
        return x
    return F.relu(x, inplace=True) if name == "relu" else F.silu(x, inplace=True)


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_tanh": _gelu_tanh,
    "relu": F.relu,
    "silu": F.silu,
}
