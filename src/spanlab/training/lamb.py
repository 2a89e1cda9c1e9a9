"""LAMB, for batches of thousands of sequences: Adam with a trust ratio for each tensor.

You et al. 2020, "Large batch optimization for deep learning": x ← x − lr · φ(‖x‖) / ‖u‖ · u with u = m̂ / (√v̂ + ε) + λx
and φ(z) = min(max(z, γ_l), γ_u). The paper gives no γ, and the authors' code uses φ(z) = z, the default here.
As in that code, the ratio is 1 where a norm is zero, and norms and biases have none.

With FSDP2, norms are those of the full tensors, over all shards.
"""

import math
from collections.abc import Callable
from typing import Any, overload

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer
from torch.optim.adam import adam


class Lamb(Optimizer):
    """LAMB on parameter groups; a group with `norm_or_bias` is updated as by AdamW."""

    def __init__(
        self,
        groups: list[dict[str, Any]],
        *,
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.01,
        bias_correction: bool = True,
        norm_bounds: tuple[float, float] = (0.0, math.inf),
    ) -> None:
        """`norm_bounds` are the paper's γ_l and γ_u."""
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "bias_correction": bias_correction,
            "norm_bounds": norm_bounds,
            "norm_or_bias": False,
        }
        super().__init__(groups, defaults)

    @overload
    def step(self, closure: None = None) -> None: ...

    @overload
    def step(self, closure: Callable[[], float]) -> float: ...

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Update every parameter that has a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            weights = [weight for weight in group["params"] if weight.grad is not None]
            if weights:
                self._update(weights, group)
        return loss

    def _update(self, weights: list[Tensor], group: dict[str, Any]) -> None:
        updates = self._directions(weights, group)
        if group["weight_decay"]:
            torch._foreach_add_(updates, weights, alpha=group["weight_decay"])
        if group["norm_or_bias"]:
            torch._foreach_add_(weights, updates, alpha=-group["lr"])
        else:
            ratios = _trust_ratios(weights, updates, group["norm_bounds"])
            torch._foreach_addcmul_(weights, updates, ratios, -group["lr"])

    def _directions(self, weights: list[Tensor], group: dict[str, Any]) -> list[Tensor]:
        """Adam's m̂ / (√v̂ + ε): its fused step from zero with a learning rate of -1."""
        updates = [torch.zeros_like(weight) for weight in weights]
        states = [self._state_of(weight, group["bias_correction"]) for weight in weights]
        beta1, beta2 = group["betas"]
        adam(
            updates,
            [weight.grad for weight in weights if weight.grad is not None],
            [state["exp_avg"] for state in states],
            [state["exp_avg_sq"] for state in states],
            [],
            [state["step"] for state in states],
            lr=-1.0,
            beta1=beta1,
            beta2=beta2,
            eps=group["eps"],
            weight_decay=0.0,
            amsgrad=False,
            maximize=False,
            fused=True,
        )
        return updates

    def _state_of(self, weight: Tensor, bias_correction: bool) -> dict[str, Tensor]:
        state: dict[str, Tensor] = self.state[weight]
        if not state:
            # The correction divides by 1 - β^step, which at an infinite step is exactly 1.
            step = 0.0 if bias_correction else math.inf
            state["step"] = torch.tensor(step, dtype=torch.float32, device=weight.device)
            state["exp_avg"] = torch.zeros_like(weight)
            state["exp_avg_sq"] = torch.zeros_like(weight)
        return state


def _trust_ratios(weights: list[Tensor], updates: list[Tensor], bounds: tuple[float, float]) -> list[Tensor]:
    weight_norms, update_norms = _full_norms(weights), _full_norms(updates)
    ratios = weight_norms.clamp(*bounds) / update_norms
    defined = (weight_norms > 0) & (update_norms > 0)
    return list(torch.where(defined, ratios, 1.0).unbind())


def _full_norms(tensors: list[Tensor]) -> Tensor:
    """(tensors,) the norm of each, over all its shards."""
    norms = [tensor.norm() for tensor in tensors]
    return torch.stack([norm.full_tensor() if isinstance(norm, DTensor) else norm for norm in norms])
