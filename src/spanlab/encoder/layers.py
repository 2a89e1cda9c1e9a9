"""Building blocks of all encoders and heads: activations, norms, dropout, BERT's initialisation, evaluation mode.

BERT's own code used the tanh approximation of GELU; the released weights are used with the exact one everywhere
today, so "gelu" is exact and "gelu_tanh" is what GPT and ALBERT name `gelu_new`.

Dropout masks on a CPU are drawn from 16-bit integers, four to a random number, since drawing them is what costs there.
"""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from typing_extensions import override

Module = TypeVar("Module", bound=nn.Module)


def _gelu_tanh(x: Tensor) -> Tensor:
    return F.gelu(x, approximate="tanh")


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_tanh": _gelu_tanh,
    "relu": F.relu,
    "silu": F.silu,
    "tanh": torch.tanh,
}


def activate_in_place(name: str, x: Tensor) -> Tensor:
    """Apply an activation in place."""
    if name in {"gelu", "gelu_tanh"}:
        torch.ops.aten.gelu_(x, approximate="tanh" if name == "gelu_tanh" else "none")
        return x
    return F.relu(x, inplace=True) if name == "relu" else F.silu(x, inplace=True)


def init_weights(module: nn.Module, std: float) -> None:
    """BERT's initialisation of one layer: normal weights, zero biases; norms keep theirs."""
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=std)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)


def build_norm(norm: Literal["layer", "rms"], width: int, eps: float, *, bias: bool = True) -> nn.Module:
    """LayerNorm, or RMSNorm (no mean, no bias), over the last axis."""
    return nn.LayerNorm(width, eps=eps, bias=bias) if norm == "layer" else nn.RMSNorm(width, eps=eps)


def copy_sharing_tensors(module: Module) -> Module:
    """A copy of a module, whose parts can be replaced; parameters and buffers are the same tensors."""
    memo = {id(tensor): tensor for tensor in (*module.parameters(), *module.buffers())}
    return copy.deepcopy(module, memo)


def add_linear(residual: Tensor, x: Tensor, linear: nn.Module) -> Tensor:
    """`residual + linear(x)` with the residual added inside the matrix product: one pass over memory less.

    For inference: no gradient, and autocast is ignored. `residual` is (N, D) and not modified.
    """
    if not isinstance(linear, nn.Linear):
        return linear.add_to(residual, x)  # type: ignore[no-any-return,operator]
    bias: Tensor | None = linear.bias
    if bias is None:
        return torch.addmm(residual, x, linear.weight.t())
    return torch.add(residual, bias).addmm_(x, linear.weight.t())


_LEVELS = 1 << 16


def scaled_mask(shape: torch.Size, p: float, dtype: torch.dtype) -> Tensor:
    """A CPU tensor that is 0 with probability p and 1 / (1 - p) otherwise."""
    dropped_levels = round(p * _LEVELS)
    return _keep(shape, dropped_levels, dtype).mul_(_LEVELS / (_LEVELS - dropped_levels))


def draw_signs(x: Tensor, p: float) -> Tensor:
    """Like `x`: -1 with probability p (on a CPU a multiple of 1/65,536), otherwise 1."""
    keep = _keep(x.shape, round(p * _LEVELS), x.dtype) if x.device.type == "cpu" else (torch.rand_like(x) >= p).to(x)
    return keep.mul_(2.0).sub_(1.0)


def _keep(shape: torch.Size, dropped_levels: int, dtype: torch.dtype) -> Tensor:
    """A CPU tensor that is 0 with probability dropped_levels / 65,536 and 1 otherwise."""
    count = shape.numel()
    drawn = torch.empty((count + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    # int16 values are uniform over -32,768..32,767: those below the threshold are dropped. Compared straight into the
    # mask's dtype, there is no boolean tensor to convert in the forward and again in the backward pass.
    mask = torch.empty(count, dtype=dtype)
    torch.ge(drawn.view(torch.int16)[:count], dropped_levels - _LEVELS // 2, out=mask)
    return mask.view(shape)


def dropout(x: Tensor, p: float, *, training: bool) -> Tensor:
    """`x` with a share `p` of its elements set to zero and the others scaled up; `x` itself outside training."""
    if not training or p == 0.0:
        return x
    return x * scaled_mask(x.shape, p, x.dtype) if x.device.type == "cpu" else F.dropout(x, p)


class Dropout(nn.Module):
    """`dropout` as a module that follows `train()` and `eval()`."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """Same shape in and out."""
        return dropout(x, self.p, training=self.training)

    @override
    def extra_repr(self) -> str:
        return f"p={self.p}"


@contextmanager
def evaluating(*roots: nn.Module) -> Iterator[None]:
    """Evaluation mode; modules that were in training mode return to it.

    A module that is in evaluation mode already is not written to, so that threads can share it.
    """
    training = [module for root in roots for module in root.modules() if module.training]
    for module in training:
        module.training = False
    try:
        yield
    finally:
        for module in training:
            module.training = True
