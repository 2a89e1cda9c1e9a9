"""The table of architectures: every row is whole, and what is built from it is of the right class."""

import pytest
import torch

from spanlab.encoder import (
    ARCHITECTURES,
    SYSTEMS,
    ElmoEncoder,
    Encoder,
    EncoderConfig,
    TransformerEncoder,
    XLNetEncoder,
    build_encoder,
    elmo_preset,
    preset,
)
from spanlab.encoder.pretrained.config_json import LAYOUTS, config_json, is_expressible, parse_config
from spanlab.encoder.pretrained.translate import encoder_rules, to_ours, to_theirs
from spanlab.errors import ConfigError, InputError


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_preset_survives_its_config_and_its_weight_names(system: str) -> None:
    config = preset(system, "tiny", vocab_size=30)
    if config.architecture not in LAYOUTS:
        assert not is_expressible(config)
        return
    assert is_expressible(config)
    layout = LAYOUTS[config.architecture]
    parsed = parse_config(config_json(config, layout.classes[-1][0], torch_dtype="float32"))
    assert (parsed.width, parsed.layers, parsed.activation) == (config.width, config.layers, config.activation)
    state = build_encoder(config).state_dict()
    rules = encoder_rules(layout, config)
    theirs, used = to_theirs(state, rules, heads=config.heads)
    assert used == set(state)
    ours, _ = to_ours(theirs, rules)
    assert ours.keys() == state.keys()
    assert all(torch.equal(ours[name], state[name]) for name in state)


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_head_of_a_class_has_weight_names(name: str) -> None:
    layout = LAYOUTS[name]
    held = {head for _, heads in layout.classes for head in heads}
    assert held == set(layout.heads)
    assert layout.classes[-1][1] == ()
    assert set(layout.classes_with_pooler) <= {class_name for class_name, _ in layout.classes}


def test_each_config_builds_the_class_of_its_architecture() -> None:
    assert isinstance(Encoder.from_config(preset("gpt2", "tiny", vocab_size=30)), TransformerEncoder)
    assert isinstance(Encoder.from_config(preset("xlnet", "tiny", vocab_size=30)), XLNetEncoder)
    elmo = Encoder.from_config(elmo_preset("tiny", vocab_size=30, cells=16, projection=8))
    assert isinstance(elmo, ElmoEncoder)
    assert build_encoder(elmo.full_config).state_dict().keys() == elmo.state_dict().keys()
    with pytest.raises(InputError, match="a bert encoder; expected XLNetEncoder"):
        XLNetEncoder.from_config(preset("bert", "tiny", vocab_size=30))


def test_a_wrong_architecture_is_answered_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"unknown architecture 'brt' \(did you mean 'bert'"):
        build_encoder(EncoderConfig(architecture="brt"))
    with pytest.raises(ConfigError, match="an ELMo is built from an ElmoConfig"):
        build_encoder(EncoderConfig(architecture="elmo", positions="none"))
    assert {settings["architecture"] for settings in SYSTEMS.values()} == set(ARCHITECTURES) - {"elmo"}


@pytest.mark.parametrize("system", ["bert", "albert", "xlnet"])
def test_the_layer_stack_holds_all_but_the_pooler_and_ends(system: str) -> None:
    encoder = build_encoder(preset(system, "tiny", vocab_size=30, embedding_width=32 if system == "albert" else None))
    stack = encoder.layer_stack()
    assert len(stack) == 1 + encoder.config.groups
    inside = {parameter for module in stack for parameter in module.parameters()}
    outside = {name.split(".")[0] for name, parameter in encoder.named_parameters() if parameter not in inside}
    assert outside <= {"pooler", "mask"}
