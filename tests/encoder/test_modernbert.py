"""ModernBERT beyond parity: the published config, and layers that see only their window."""

from typing import Any

import pytest
import torch

from spanlab.encoder import TransformerEncoder, preset
from spanlab.encoder.pretrained.config_json import parse_config
from spanlab.errors import ConfigError

PUBLISHED: dict[str, Any] = {
    "architectures": ["ModernBertForMaskedLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": 50281,
    "classifier_activation": "gelu",
    "classifier_bias": False,
    "classifier_dropout": 0.0,
    "classifier_pooling": "mean",
    "cls_token_id": 50281,
    "decoder_bias": True,
    "deterministic_flash_attn": False,
    "embedding_dropout": 0.0,
    "eos_token_id": 50282,
    "global_attn_every_n_layers": 3,
    "global_rope_theta": 160000.0,
    "gradient_checkpointing": False,
    "hidden_activation": "gelu",
    "hidden_size": 768,
    "initializer_cutoff_factor": 2.0,
    "initializer_range": 0.02,
    "intermediate_size": 1152,
    "layer_norm_eps": 1e-05,
    "local_attention": 128,
    "local_rope_theta": 10000.0,
    "max_position_embeddings": 8192,
    "mlp_bias": False,
    "mlp_dropout": 0.0,
    "model_type": "modernbert",
    "norm_bias": False,
    "norm_eps": 1e-05,
    "num_attention_heads": 12,
    "num_hidden_layers": 22,
    "pad_token_id": 50283,
    "position_embedding_type": "absolute",
    "reference_compile": None,
    "repad_logits_with_grad": False,
    "sep_token_id": 50282,
    "sparse_pred_ignore_index": -100,
    "sparse_prediction": False,
    "torch_dtype": "float32",
    "transformers_version": "4.47.0.dev0",
    "vocab_size": 50368,
}
"""`config.json` of ModernBERT-base as it was published, before transformers 5 renamed keys."""


def test_the_published_config_is_the_preset() -> None:
    assert parse_config(PUBLISHED) == preset("modernbert", "base", pad_id=50283)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"classifier_bias": True}, "classifier_bias"),
        ({"rope_parameters": {"full_attention": {"rope_type": "yarn", "rope_theta": 1e4}}}, "yarn"),
        ({"layer_types": ["sliding_attention"] * 22}, "layer_types"),
        ({"layer_types": 5}, "layer_types"),
    ],
)
def test_what_it_cannot_compute_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_config({**PUBLISHED, **change})


def test_nested_keys_win_over_the_single_ones() -> None:
    nested = {
        "layer_types": ["full_attention", "sliding_attention"] * 11,
        "rope_parameters": {"full_attention": {"rope_theta": 5e4}, "sliding_attention": {"rope_theta": 2e4}},
    }
    config = parse_config({**PUBLISHED, **nested})
    assert (config.global_every, config.rotary_base, config.local_rotary_base) == (2, 5e4, 2e4)


def test_a_local_layer_sees_its_window_and_a_global_one_the_whole_sequence() -> None:
    torch.manual_seed(0)
    config = preset("modernbert", "tiny", vocab_size=50, local_window=8, layers=2, global_every=2)
    encoder = TransformerEncoder(config).double().eval()
    ids = torch.randint(50, (1, 40))
    changed = ids.clone()
    changed[0, 0] = (ids[0, 0] + 1) % 50
    with torch.no_grad():
        before, after = (encoder(x, output_hidden_states=True).hidden_states for x in (ids, changed))
    assert before is not None
    assert after is not None
    moved = [(x - y).abs().amax(-1)[0] > 1e-12 for x, y in zip(before, after, strict=True)]
    assert moved[1].all()  # the first layer is global

    local = TransformerEncoder(preset("modernbert", "tiny", vocab_size=50, local_window=8, layers=3)).double().eval()
    local.layers[0][0].attention.output.weight.data.zero_()  # so that the first, global layer moves nothing
    with torch.no_grad():
        difference = (local(ids).hidden - local(changed).hidden).abs().amax(-1)[0]
    assert (difference[:9] > 0).all()  # two layers of four tokens to each side
    assert (difference[9:] == 0).all()


def test_settings_that_exclude_each_other() -> None:
    for changes in ({"causal": True}, {"local_window": None}, {"layer_groups": 1}):
        with pytest.raises(ConfigError):
            preset("modernbert", "tiny", **changes)


@pytest.mark.parametrize("residual_init", ["depth-scaled", "zero"])
def test_the_layers_that_add_to_the_residual_stream_start_smaller(residual_init: str) -> None:
    config = preset("modernbert", "tiny", vocab_size=50, layers=8, residual_init=residual_init)
    block = TransformerEncoder(config).layers[3][0]  # type: ignore[index]
    expected = 0.0 if residual_init == "zero" else config.init_std / 4
    for linear in (block.attention.output, block.feed_forward.down):
        assert linear.weight.std().item() == pytest.approx(expected, rel=0.05)
    assert block.attention.qkv.weight.std().item() == pytest.approx(config.init_std, rel=0.05)
