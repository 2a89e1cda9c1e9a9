from contextlib import suppress

import pytest
import torch
from torch import Tensor, nn

from spanlab.errors import InputError
from spanlab.training.ema import ExponentialMovingAverage


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    return {name: weight.detach().clone() for name, weight in model.named_parameters()}


def disturb(model: nn.Module) -> None:
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight))


def test_the_average_is_the_recurrence_of_its_definition() -> None:
    model = nn.Linear(3, 4)
    average = ExponentialMovingAverage(model, 0.9)
    expected = weights_of(model)
    for step in range(120):
        disturb(model)
        average.update(step)
        decay = min(0.9, (1 + step) / (10 + step))
        expected = {name: decay * value + (1 - decay) * weights_of(model)[name] for name, value in expected.items()}
    for name, value in average.state().items():
        torch.testing.assert_close(value, expected[name])


def test_within_the_swap_the_module_has_the_average_and_then_its_weights_again() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4))
    average = ExponentialMovingAverage(model, 0.5)
    disturb(model)
    average.update(3)
    memory = [weight.data_ptr() for weight in model.parameters()]
    before, averaged = weights_of(model), {name: value.clone() for name, value in average.state().items()}
    inside = {}
    with suppress(RuntimeError), average.swapped():
        inside = weights_of(model)
        raise RuntimeError("an evaluation that fails")
    assert all(inside[name].equal(value) for name, value in averaged.items())
    assert all(weights_of(model)[name].equal(value) for name, value in before.items())
    assert all(average.state()[name].equal(value) for name, value in averaged.items())
    assert [weight.data_ptr() for weight in model.parameters()] == memory


def test_a_loaded_average_goes_on_to_the_bit() -> None:
    model = nn.Linear(3, 4)
    whole = ExponentialMovingAverage(model, 0.99)
    disturb(model)
    whole.update(0)
    resumed = ExponentialMovingAverage(model, 0.99)
    resumed.load({name: value.clone() for name, value in whole.state().items()})
    disturb(model)
    for average in (whole, resumed):
        average.update(1)
    assert all(resumed.state()[name].equal(value) for name, value in whole.state().items())


def test_frozen_weights_are_left_out_and_a_foreign_average_is_refused() -> None:
    model = nn.Linear(3, 4)
    model.bias.requires_grad_(False)
    average = ExponentialMovingAverage(model, 0.99)
    assert list(average.state()) == ["weight"]
    with pytest.raises(InputError, match="1 weights, such as bias"):
        average.load(weights_of(model))
