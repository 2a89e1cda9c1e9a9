"""A small model, gradients that depend on the step alone, and updates applied one parameter at a time."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from spanlab.training.config import TrainingConfig
from spanlab.training.optim import build_optimiser, set_learning_rate


def small_model(dtype: torch.dtype = torch.float64) -> nn.Module:
    torch.manual_seed(3)
    layers = nn.Sequential(nn.Linear(5, 6), nn.LayerNorm(6), nn.Linear(6, 2))
    return layers.to(dtype)


def give_gradients(model: nn.Module, step: int) -> None:
    generator = torch.Generator().manual_seed(step)
    for weight in model.parameters():
        weight.grad = torch.randn(weight.shape, generator=generator, dtype=torch.float64).to(weight.dtype)


def train(model: nn.Module, config: TrainingConfig, steps: int) -> torch.optim.Optimizer:
    optimiser = build_optimiser(model, config)
    for step in range(steps):
        set_learning_rate(optimiser, config.lr / (step + 1))
        give_gradients(model, step)
        optimiser.step()
    return optimiser


def by_hand(model: nn.Module, steps: int, rule: Callable[[Tensor, dict[str, Any], int, bool], Tensor]) -> None:
    """Apply one rule to each parameter alone: `rule(weight, state, step, is_matrix)` is what is subtracted."""
    states: dict[str, dict[str, Any]] = {name: {"m": 0.0, "v": 0.0} for name, _ in model.named_parameters()}
    for step in range(steps):
        give_gradients(model, step)
        for name, weight in model.named_parameters():
            with torch.no_grad():
                weight.sub_(rule(weight, states[name], step, weight.ndim > 1))


def assert_same_weights(one: nn.Module, other: nn.Module, rtol: float, atol: float) -> None:
    for (name, ours), theirs in zip(one.named_parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=rtol, atol=atol, msg=lambda text, name=name: f"{name}: {text}")  # type: ignore[misc]
