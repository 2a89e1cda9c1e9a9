"""AdamW and BERT's Adam against loops that say what they are."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from spanlab.training.config import TrainingConfig
from spanlab.training.optim import build_optimiser, set_learning_rate
from tests.training.by_hand import assert_same_weights, by_hand, give_gradients, small_model, train

OPTIMISERS = [{"optimiser": "adamw"}, {"optimiser": "adamw", "bias_correction": False}, {"optimiser": "lamb"}]


def test_adamw_is_torchs() -> None:
    ours, theirs = small_model(), small_model()
    train(ours, TrainingConfig(steps=9, lr=0.1, weight_decay=0.2, betas=(0.8, 0.95), eps=1e-3), 9)
    matrices = [weight for weight in theirs.parameters() if weight.ndim > 1]
    vectors = [weight for weight in theirs.parameters() if weight.ndim == 1]
    reference = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": 0.2}, {"params": vectors, "weight_decay": 0.0}],
        betas=(0.8, 0.95),
        eps=1e-3,
        foreach=False,
    )
    for step in range(9):
        for group in reference.param_groups:
            group["lr"] = 0.1 / (step + 1)
        give_gradients(theirs, step)
        reference.step()
    assert_same_weights(ours, theirs, rtol=1e-12, atol=1e-14)


def test_bert_s_adam_does_not_correct_its_moments() -> None:
    ours, theirs = small_model(), small_model()
    config = TrainingConfig(steps=9, lr=0.1, weight_decay=0.2, eps=1e-6, bias_correction=False)
    train(ours, config, 9)

    def rule(weight: Tensor, state: dict[str, Any], step: int, is_matrix: bool) -> Tensor:
        assert weight.grad is not None
        state["m"] = 0.9 * state["m"] + 0.1 * weight.grad
        state["v"] = 0.999 * state["v"] + 0.001 * weight.grad**2
        update = state["m"] / (state["v"].sqrt() + 1e-6) + (0.2 * weight if is_matrix else 0.0)
        scaled: Tensor = 0.1 / (step + 1) * update
        return scaled

    by_hand(theirs, 9, rule)
    assert_same_weights(ours, theirs, rtol=1e-12, atol=1e-14)


def test_without_correction_the_first_update_is_larger_by_the_root_of_the_moments_shares() -> None:
    sizes = []
    for bias_correction in (True, False):
        model = small_model()
        before = model[0].weight.detach().clone()  # type: ignore[index]
        train(model, TrainingConfig(steps=1, lr=1e-3, weight_decay=0, bias_correction=bias_correction), 1)
        sizes.append((model[0].weight - before).norm().item())  # type: ignore[index]
    assert sizes[1] / sizes[0] == pytest.approx(0.1 / math.sqrt(0.001), rel=1e-4)


@pytest.mark.parametrize("options", OPTIMISERS, ids=str)
def test_saved_state_goes_on_to_the_bit(options: dict[str, Any]) -> None:
    config = TrainingConfig(steps=8, lr=0.1, **options)
    whole, stopped = small_model(torch.float32), small_model(torch.float32)
    first = train(stopped, config, 5)
    train(whole, config, 8)
    saved = {weight: {key: value.clone() for key, value in first.state[weight].items()} for weight in first.state}
    assert all(set(state) == {"step", "exp_avg", "exp_avg_sq"} for state in saved.values())
    assert all(isinstance(value, Tensor) for state in saved.values() for value in state.values())
    resumed = build_optimiser(stopped, config)
    for weight, state in saved.items():
        resumed.state[weight] = state
    for step in range(5, 8):
        set_learning_rate(resumed, config.lr / (step + 1))
        give_gradients(stopped, step)
        resumed.step()
    assert all(ours.equal(theirs) for ours, theirs in zip(stopped.parameters(), whole.parameters(), strict=True))


@pytest.mark.parametrize("options", OPTIMISERS, ids=str)
def test_groups_have_their_own_rate_and_weights_without_a_gradient_stay(options: dict[str, Any]) -> None:
    model = small_model()
    config = TrainingConfig(steps=1, lr=0.1, lr_factors={"0": 0.0, "1": 3.0}, **options)
    optimiser = build_optimiser(model, config)
    assert sorted({group["lr"] for group in optimiser.param_groups}) == pytest.approx([0.0, 0.1, 0.3])
    set_learning_rate(optimiser, 0.2)
    assert sorted({group["lr"] for group in optimiser.param_groups}) == pytest.approx([0.0, 0.2, 0.6])
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    give_gradients(model, 0)
    model[2].bias.grad = None  # type: ignore[index]
    optimiser.step()
    unmoved = {name for name, weight in model.named_parameters() if weight.equal(before[name])}
    assert unmoved == {"0.weight", "0.bias", "2.bias"}


@pytest.mark.parametrize("options", OPTIMISERS, ids=str)
def test_a_quadratic_is_solved(options: dict[str, Any]) -> None:
    model = nn.Linear(4, 4, bias=False)
    goal = torch.randn(4, 4)
    config = TrainingConfig(steps=300, lr=0.05, weight_decay=0.0, **options)
    optimiser = build_optimiser(model, config)
    for step in range(300):
        optimiser.zero_grad()
        set_learning_rate(optimiser, config.lr * (1 - step / 300))
        (model.weight - goal).square().sum().backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    torch.testing.assert_close(model.weight, goal, rtol=0, atol=0.02)
