"""GPT (Radford et al. 2018) and GPT-2 (Radford et al. 2019): causal, the second with norms before each part."""

from typing import Any

from spanlab.encoder.architectures.base import (
    ACTIVATION_NAMES,
    Architecture,
    HuggingFaceLayout,
    WeightRule,
    block_rules,
    build_transformer,
)
from spanlab.encoder.config import EncoderConfig

_SETTINGS: dict[str, Any] = {
    "segments": 0,
    "embedding_norm": False,
    "activation": "gelu_tanh",
    "norm_eps": 1e-5,
    "causal": True,
    "pooler": False,
    "pad_id": None,
}
_GPT1: dict[str, Any] = {**_SETTINGS, "vocab_size": 40478}
_GPT2: dict[str, Any] = {
    **_SETTINGS,
    "vocab_size": 50257,
    "max_positions": 1024,
    "norm_place": "pre",
    "final_norm": True,
}
_CONFIG_KEYS = {
    "vocab_size": "vocab_size",
    "width": "n_embd",
    "layers": "n_layer",
    "heads": "n_head",
    "dropout": "resid_pdrop",
    "attention_dropout": "attn_pdrop",
    "max_positions": "n_positions",
    "norm_eps": "layer_norm_epsilon",
    "init_std": "initializer_range",
    "pad_id": "pad_token_id",
}
_BLOCK = block_rules(
    qkv=("h.{g}.attn.c_attn",),
    output="h.{g}.attn.c_proj",
    attention_norm="h.{g}.ln_1",
    up="h.{g}.mlp.c_fc",
    down="h.{g}.mlp.c_proj",
    feed_forward_norm="h.{g}.ln_2",
    transposed=True,
)
_HEADS = {"clm": (WeightRule("decoder", ("lm_head.weight",)),)}


def _from_config_values(values: dict[str, Any]) -> dict[str, Any]:
    inner_width = values.get("inner_width") or 4 * values.get("width", EncoderConfig.width)
    return {**values, "inner_width": inner_width}


def _extra_config(config: EncoderConfig) -> dict[str, Any]:
    return {"embd_pdrop": config.dropout}


OPENAI_GPT = Architecture(
    name="openai-gpt",
    presets={"gpt": _GPT1},
    build=build_transformer,
    hugging_face=HuggingFaceLayout(
        config_keys={**_CONFIG_KEYS, "activation": "afn"},
        config_defaults=_GPT1,
        # transformers calls the tanh approximation plain "gelu" here.
        activation_names={**ACTIVATION_NAMES, "gelu": "gelu_tanh"},
        from_config_values=_from_config_values,
        extra_config=_extra_config,
        prefix="transformer.",
        encoder=(
            WeightRule("embeddings.word", ("tokens_embed",)),
            WeightRule("embeddings.position", ("positions_embed",)),
            *_BLOCK,
        ),
        heads=_HEADS,
        classes=(("OpenAIGPTLMHeadModel", ("clm",)), ("OpenAIGPTModel", ())),
    ),
)

GPT2 = Architecture(
    name="gpt2",
    presets={"gpt2": _GPT2},
    build=build_transformer,
    hugging_face=HuggingFaceLayout(
        config_keys={**_CONFIG_KEYS, "activation": "activation_function", "inner_width": "n_inner"},
        config_defaults=_GPT2,
        from_config_values=_from_config_values,
        extra_config=_extra_config,
        prefix="transformer.",
        encoder=(
            WeightRule("embeddings.word", ("wte",)),
            WeightRule("embeddings.position", ("wpe",)),
            *_BLOCK,
            WeightRule("final_norm", ("ln_f",)),
        ),
        heads=_HEADS,
        classes=(("GPT2LMHeadModel", ("clm",)), ("GPT2Model", ())),
    ),
)
