"""XLNet (Yang et al. 2019): relative positions and segments, a memory, and [CLS] at the end of a sequence."""

from typing import TYPE_CHECKING, Any

from spanlab.encoder.architectures.base import UNWRITTEN_FIELDS, Architecture, HuggingFaceLayout, WeightRule
from spanlab.encoder.config import EncoderConfig

if TYPE_CHECKING:
    from spanlab.encoder.model import Encoder

FIXED_FIELDS: dict[str, Any] = {"architecture": "xlnet", "positions": "relative", "embedding_norm": False}
"""What every XLNet has in common, where it differs from the defaults of `EncoderConfig`."""

FREE_FIELDS = (
    *("vocab_size", "width", "layers", "heads", "inner_width", "max_positions", "segments", "pad_id"),
    *("activation", "norm_eps", "init_std", "pooler", "max_distance", "memory", "reuse"),
    *("dropout", "attention_dropout", "checkpoint_layers"),
)
"""What may differ between XLNets; every other field has its fixed value or its default."""
_SETTINGS: dict[str, Any] = {**FIXED_FIELDS, "vocab_size": 32000, "segments": 3, "pooler": False, "pad_id": 5}
_ATTENTION = "layer.{g}.rel_attn"


def _from_config_values(values: dict[str, Any]) -> dict[str, Any]:
    """One dropout serves for all of theirs, and -1 and 0 stand for "no limit"."""
    limits = {name: values.get(name) or 0 for name in ("max_distance", "memory", "reuse")}
    return {
        **values,
        "attention_dropout": values.get("dropout", EncoderConfig.attention_dropout),
        **{name: limit if limit > 0 else None for name, limit in limits.items()},
    }


def _extra_config(config: EncoderConfig) -> dict[str, Any]:
    return {"clamp_len": config.max_distance or -1, "d_head": config.head_width, "untie_r": True}


def _build(config: EncoderConfig) -> "Encoder":
    from spanlab.encoder.xlnet.model import XLNetEncoder

    return XLNetEncoder(config)


XLNET = Architecture(
    name="xlnet",
    presets={"xlnet": _SETTINGS},
    build=_build,
    pools_last_token=True,
    settings=FREE_FIELDS,
    hugging_face=HuggingFaceLayout(
        config_keys={
            "vocab_size": "vocab_size",
            "width": "d_model",
            "layers": "n_layer",
            "heads": "n_head",
            "inner_width": "d_inner",
            "activation": "ff_activation",
            "dropout": "dropout",
            "norm_eps": "layer_norm_eps",
            "init_std": "initializer_range",
            "pad_id": "pad_token_id",
            "max_distance": "clamp_len",
            "memory": "mem_len",
            "reuse": "reuse_len",
        },
        config_defaults={**_SETTINGS, "width": 1024, "layers": 24, "heads": 16, "inner_width": 4096, "memory": 512},
        unwritten_fields=(*UNWRITTEN_FIELDS, "attention_dropout", "max_positions"),
        from_config_values=_from_config_values,
        extra_config=_extra_config,
        prefix="transformer.",
        encoder=(
            WeightRule("embeddings.word", ("word_embedding",)),
            WeightRule("mask", ("mask_emb",)),
            WeightRule(
                "layers.{g}.attention.qkv.weight",
                tuple(f"{_ATTENTION}.{part}" for part in "qkv"),
                transposed=True,
                by_heads=True,
            ),
            WeightRule("layers.{g}.attention.position.weight", (f"{_ATTENTION}.r",), transposed=True, by_heads=True),
            WeightRule("layers.{g}.attention.output.weight", (f"{_ATTENTION}.o",), by_heads=True),
            WeightRule("layers.{g}.attention.content_bias", (f"{_ATTENTION}.r_w_bias",)),
            WeightRule("layers.{g}.attention.position_bias", (f"{_ATTENTION}.r_r_bias",)),
            WeightRule("layers.{g}.attention.segment_bias", (f"{_ATTENTION}.r_s_bias",)),
            WeightRule("layers.{g}.attention.segment", (f"{_ATTENTION}.seg_embed",)),
            WeightRule("layers.{g}.attention_norm", (f"{_ATTENTION}.layer_norm",)),
            WeightRule("layers.{g}.feed_forward.up", ("layer.{g}.ff.layer_1",)),
            WeightRule("layers.{g}.feed_forward.down", ("layer.{g}.ff.layer_2",)),
            WeightRule("layers.{g}.feed_forward_norm", ("layer.{g}.ff.layer_norm",)),
            WeightRule("pooler", ("sequence_summary.summary",)),
        ),
        heads={"plm": (WeightRule("bias", ("lm_loss.bias",)), WeightRule("decoder", ("lm_loss.weight",)))},
        classes=(("XLNetLMHeadModel", ("plm",)), ("XLNetModel", ())),
        bare_class_has_pooler=False,
    ),
)
