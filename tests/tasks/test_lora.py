"""Frozen layers and low-rank adapters: what learns, that nothing changes at first, and that merging keeps the sums."""

from pathlib import Path

import pytest
import torch

from spanlab.encoder import Encoder, load_model
from spanlab.errors import ConfigError
from spanlab.tasks.adapters import adapt, merged
from spanlab.tasks.config import TuningConfig

IDS = torch.tensor([[5, 6, 7, 8, 9], [9, 8, 7, 6, 5]])


@pytest.fixture
def encoder(tiny_model: Path) -> Encoder:
    return load_model(tiny_model).encoder.eval()


def test_frozen_layers_do_not_learn(encoder: Encoder) -> None:
    adapt(encoder, TuningConfig(freeze=1))
    learning = {name for name, parameter in encoder.named_parameters() if parameter.requires_grad}
    assert learning
    assert all(name.startswith(("layers.1.", "pooler.")) for name in learning)
    with pytest.raises(ConfigError, match="has 2 layers"):
        adapt(encoder, TuningConfig(freeze=3))


def test_adapters_change_nothing_until_they_learn_and_merge_into_the_weights(encoder: Encoder) -> None:
    before = encoder(IDS).hidden
    names = set(encoder.state_dict())
    adapt(encoder, TuningConfig(lora=2))
    assert torch.equal(encoder(IDS).hidden, before)
    assert merged(encoder).state_dict().keys() == names
    learning = [parameter for parameter in encoder.parameters() if parameter.requires_grad]
    optimiser = torch.optim.SGD(learning, lr=0.5)
    for _ in range(3):
        optimiser.zero_grad()
        encoder(IDS).hidden[..., 0].sum().backward()
        optimiser.step()
    after = encoder(IDS).hidden
    assert not torch.allclose(after, before, atol=1e-3)
    plain = merged(encoder)
    assert plain.state_dict().keys() == names
    torch.testing.assert_close(plain(IDS).hidden, after, atol=1e-6, rtol=1e-5)
    with torch.no_grad():  # the path that adds in the matrix product
        torch.testing.assert_close(plain(IDS).hidden, encoder(IDS).hidden, atol=1e-6, rtol=1e-5)


def test_without_adapters_the_encoder_is_itself(encoder: Encoder) -> None:
    assert merged(encoder) is encoder
