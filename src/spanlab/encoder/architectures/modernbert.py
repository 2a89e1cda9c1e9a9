"""ModernBERT (Warner et al. 2024): pre-norm without biases, rotary positions, gated feed-forward networks, and local
attention in two of three layers, with a rotary base of their own.

transformers 5 writes the kind of every layer and the rotary bases as nested values; earlier versions wrote single keys.
Both are read, and both are written.
"""

from typing import Any

from spanlab.encoder.architectures.base import (
    Architecture,
    HuggingFaceLayout,
    WeightRule,
    block_rules,
    build_transformer,
    mlm_head_rules,
)
from spanlab.encoder.config import EncoderConfig
from spanlab.errors import ConfigError

_GLOBAL, _LOCAL = "full_attention", "sliding_attention"

_FIXED: dict[str, Any] = {
    "positions": "rotary",
    "segments": 0,
    "feed_forward": "glu",
    "norm_place": "pre",
    "final_norm": True,
    "first_attention_norm": False,
    "pooler": False,
}
"""What makes an encoder a ModernBERT."""

_DEFAULTS: dict[str, Any] = {
    **_FIXED,
    "norm_eps": 1e-5,
    "attention_bias": False,
    "feed_forward_bias": False,
    "norm_bias": False,
    "rotary_base": 160_000.0,
    "local_rotary_base": 10_000.0,
    "local_window": 128,
    "global_every": 3,
    "dropout": 0.0,
    "attention_dropout": 0.0,
}


def _from_config_values(values: dict[str, Any]) -> dict[str, Any]:
    """The nested values of transformers 5 as single fields."""
    kinds, rotary = values.pop("layer_types", None), values.pop("rope_parameters", None)
    if kinds is not None:
        values["global_every"] = _global_every(kinds, values["global_every"])
    for kind, field in ((_GLOBAL, "rotary_base"), (_LOCAL, "local_rotary_base")):
        settings = rotary.get(kind) if isinstance(rotary, dict) else None
        if not isinstance(settings, dict):
            continue
        if settings.get("rope_type", "default") != "default":
            raise ConfigError(f"rope_type '{settings['rope_type']}' is not supported", fix="only 'default' is")
        values[field] = settings.get("rope_theta", values[field])
    return values


def _global_every(kinds: Any, likely: Any) -> int:  # noqa: ANN401 (whatever the file holds)
    """The n for which every n-th layer, from the first on, is global and the others are local; `likely` if it fits."""
    readable = isinstance(kinds, list) and len(kinds) <= 1_000 and isinstance(likely, int)
    periods = [likely, *range(1, len(kinds) + 1)] if readable else []
    for period in periods:
        if period > 0 and kinds == [_LOCAL if layer % period else _GLOBAL for layer in range(len(kinds))]:
            return int(period)
    raise ConfigError("'layer_types' does not have a global layer every n layers, from the first on")


def _extra_config(config: EncoderConfig) -> dict[str, Any]:
    local_base = config.local_rotary_base or config.rotary_base
    return {
        "local_rope_theta": local_base,
        "layer_types": [_LOCAL if config.is_local(layer) else _GLOBAL for layer in range(config.layers)],
        "rope_parameters": {
            _GLOBAL: {"rope_type": "default", "rope_theta": config.rotary_base},
            _LOCAL: {"rope_type": "default", "rope_theta": local_base},
        },
        "mlp_dropout": config.dropout,
        # The tokenizer has the special tokens; transformers' defaults are ids of the published vocabulary.
        **dict.fromkeys(("bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id")),
        "classifier_bias": False,
        "decoder_bias": True,
        "position_embedding_type": "absolute",
    }


MODERNBERT = Architecture(
    name="modernbert",
    presets={"modernbert": {**_DEFAULTS, "vocab_size": 50368, "max_positions": 8192, "pad_id": None}},
    sizes={"base": {"layers": 22, "inner_width": 1152}, "large": {"layers": 28, "inner_width": 2624}},
    build=build_transformer,
    mlm_head_activation="gelu",
    mlm_head_bias=False,
    hugging_face=HuggingFaceLayout(
        config_keys={
            "vocab_size": "vocab_size",
            "width": "hidden_size",
            "layers": "num_hidden_layers",
            "heads": "num_attention_heads",
            "inner_width": "intermediate_size",
            "activation": "hidden_activation",
            "dropout": "embedding_dropout",
            "attention_dropout": "attention_dropout",
            "max_positions": "max_position_embeddings",
            "norm_eps": "norm_eps",
            "norm_bias": "norm_bias",
            "attention_bias": "attention_bias",
            "feed_forward_bias": "mlp_bias",
            "rotary_base": "global_rope_theta",
            "local_rotary_base": "local_rope_theta",
            "local_window": "local_attention",
            "global_every": "global_attn_every_n_layers",
            "init_std": "initializer_range",
            "pad_id": "pad_token_id",
        },
        config_defaults={
            **_DEFAULTS,
            "vocab_size": 50368,
            "layers": 22,
            "inner_width": 1152,
            "max_positions": 8192,
            "pad_id": 50283,
        },
        config_keys_read={"layer_types": "layer_types", "rope_parameters": "rope_parameters"},
        from_config_values=_from_config_values,
        extra_config=_extra_config,
        prefix="model.",
        encoder=(
            WeightRule("embeddings.word", ("embeddings.tok_embeddings",)),
            WeightRule("embeddings.norm", ("embeddings.norm",)),
            *block_rules(
                qkv=("layers.{g}.attn.Wqkv",),
                output="layers.{g}.attn.Wo",
                attention_norm="layers.{g}.attn_norm",
                up="layers.{g}.mlp.Wi",
                down="layers.{g}.mlp.Wo",
                feed_forward_norm="layers.{g}.mlp_norm",
            ),
            WeightRule("final_norm", ("final_norm",)),
        ),
        heads={"mlm": mlm_head_rules("head.dense", "head.norm", "decoder.bias", "decoder.weight")},
        classes=(("ModernBertForMaskedLM", ("mlm",)), ("ModernBertModel", ())),
        bare_class_has_pooler=False,
    ),
)
