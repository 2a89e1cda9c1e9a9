"""LAMB against a plain loop."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from spanlab.training.config import TrainingConfig
from spanlab.training.lamb import Lamb
from tests.training.by_hand import assert_same_weights, by_hand, small_model, train


@pytest.mark.parametrize("bias_correction", [True, False])
def test_lamb_is_the_paper_s_loop(bias_correction: bool) -> None:
    ours, theirs = small_model(), small_model()
    config = TrainingConfig(
        steps=9, optimiser="lamb", lr=0.1, weight_decay=0.2, eps=1e-6, bias_correction=bias_correction
    )
    train(ours, config, 9)

    def rule(weight: Tensor, state: dict[str, Any], step: int, is_matrix: bool) -> Tensor:
        assert weight.grad is not None
        state["m"] = 0.9 * state["m"] + 0.1 * weight.grad
        state["v"] = 0.999 * state["v"] + 0.001 * weight.grad**2
        m, v = state["m"], state["v"]
        if bias_correction:
            m, v = m / (1 - 0.9 ** (step + 1)), v / (1 - 0.999 ** (step + 1))
        update = m / (v.sqrt() + 1e-6)
        ratio = 1.0
        if is_matrix:
            update = update + 0.2 * weight
            ratio = (weight.pow(2).sum().sqrt() / update.pow(2).sum().sqrt()).item()
        scaled: Tensor = 0.1 / (step + 1) * ratio * update
        return scaled

    by_hand(theirs, 9, rule)
    assert_same_weights(ours, theirs, rtol=1e-10, atol=1e-12)


def step_length(weight: Tensor, gradient: Tensor, **options: Any) -> float:
    """How far one step with lr 1 and no decay goes."""
    parameter = nn.Parameter(weight.clone())
    parameter.grad = gradient
    Lamb([{"params": [parameter], **options}], lr=1.0, weight_decay=0.0).step()
    return float((parameter.detach() - weight).norm())


def test_a_step_is_as_long_as_the_weights_within_the_bounds() -> None:
    weight, gradient = torch.full((4, 4), 0.5), torch.randn(4, 4)
    assert step_length(weight, gradient) == pytest.approx(2.0, rel=1e-5)
    assert step_length(weight, gradient, norm_bounds=(0.0, 1.5)) == pytest.approx(1.5, rel=1e-5)
    assert step_length(weight, gradient, norm_bounds=(5.0, 10.0)) == pytest.approx(5.0, rel=1e-5)


def test_zeros_and_norms_move_as_by_adam() -> None:
    gradient = torch.randn(4, 4)
    adam = math.sqrt(16)  # the first corrected update is the gradient's sign
    assert step_length(torch.zeros(4, 4), gradient) == pytest.approx(adam, rel=1e-3)
    assert step_length(torch.full((4, 4), 9.0), gradient, norm_or_bias=True) == pytest.approx(adam, rel=1e-3)
    assert step_length(torch.ones(4, 4), torch.zeros(4, 4)) == 0.0
