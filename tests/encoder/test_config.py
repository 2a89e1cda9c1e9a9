"""Sizes and published parameter counts, and shapes that cannot be."""

import pytest
import torch

from spanlab.encoder import SIZES, SYSTEMS, EncoderConfig, TransformerEncoder, build_encoder, preset
from spanlab.encoder.flops import count_cost, flops_per_token
from spanlab.errors import ConfigError

PUBLISHED = {
    ("bert", "base"): 109_482_240,
    ("bert", "large"): 335_141_888,
    ("roberta", "base"): 124_645_632,
    ("albert", "base"): 11_683_584,
    ("albert", "large"): 17_683_968,
    ("electra", "base"): 108_891_648,
    ("modernbert", "base"): 149_014_272,
    ("modernbert", "large"): 394_781_696,
    ("gpt", "base"): 116_534_784,
    ("gpt2", "base"): 124_439_808,
}


@pytest.mark.parametrize(("system", "size"), PUBLISHED)
def test_published_parameter_counts(system: str, size: str) -> None:
    with torch.device("meta"):
        encoder = TransformerEncoder(preset(system, size))
    assert sum(parameter.numel() for parameter in encoder.parameters()) == PUBLISHED[system, size]


def test_alberts_factorised_embedding() -> None:
    with torch.device("meta"):
        albert = TransformerEncoder(preset("albert", "base", vocab_size=30_522))
        bert = TransformerEncoder(preset("bert", "base"))
    assert albert.projection is not None
    factorised = albert.word_table.numel() + albert.projection.weight.numel()
    assert factorised == 30_522 * 128 + 128 * 768 == 4_005_120
    assert bert.word_table.numel() == 30_522 * 768 == 23_440_896


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_system_has_every_size(system: str) -> None:
    for size, (layers, width) in SIZES.items():
        config = preset(system, size, vocab_size=99)
        if system == "modernbert":  # base and large are deeper, and a gate makes the feed-forward network narrower
            assert (config.width, config.heads) == (width, width // 64)
            continue
        assert (config.layers, config.width, config.heads, config.inner_width) == (
            layers,
            width,
            width // 64,
            4 * width,
        )
    encoder = build_encoder(preset(system, "tiny", vocab_size=99))
    hidden = encoder(torch.randint(3, 99, (2, 5))).hidden
    assert hidden.shape == (2, 5, 128)
    assert torch.isfinite(hidden).all()


def test_cost_counts_shared_layers_once_and_arithmetic_each_time() -> None:
    config = preset("albert", "tiny", vocab_size=99)
    cost = count_cost(TransformerEncoder(config))
    deep = preset("albert", "tiny", vocab_size=99, layers=6)
    deep_cost = count_cost(TransformerEncoder(deep))
    assert cost.total == deep_cost.total == sum(cost.parameters.values())
    embedding = 2 * 128 * config.table_width if config.table_width != config.width else 0
    assert deep_cost.flops_per_token - embedding == 3 * (cost.flops_per_token - embedding)


def test_flops_of_a_linear_layer_dominate_bert_base() -> None:
    config = preset("bert", "base")
    # Twelve layers of 12·D² weights, two operations each, and attention over 512 tokens.
    assert flops_per_token(config, 512) == 2 * 12 * (12 * 768 * 768 + 2 * 512 * 768)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"heads": 5}, "5 heads cannot share a width of 768"),
        ({"layers": 0}, "'layers' is 0"),
        ({"dropout": 1.0}, "'dropout' is 1.0"),
        ({"layer_groups": 13}, "'layer_groups' is 13"),
        ({"positions": "rotary", "heads": 256}, "even head width"),
    ],
)
def test_impossible_shapes_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        EncoderConfig(**changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(("system", "size", "hint"), [("bret", "base", "bert"), ("bert", "bsae", "base")])
def test_a_wrong_name_is_answered_with_the_nearest(system: str, size: str, hint: str) -> None:
    with pytest.raises(ConfigError, match=f"did you mean '{hint}'"):
        preset(system, size)
