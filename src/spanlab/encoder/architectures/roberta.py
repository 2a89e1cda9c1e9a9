"""RoBERTa (Liu et al. 2019): BERT's encoder with positions counted from the padding id plus one."""

from typing import Any

from spanlab.encoder.architectures.base import (
    Architecture,
    HuggingFaceLayout,
    build_transformer,
    mlm_head_rules,
    task_classes,
    task_head_rules,
)
from spanlab.encoder.architectures.bert import BERT_BLOCK, BERT_CONFIG_KEYS, BERT_EMBEDDINGS, BERT_POOLER
from spanlab.encoder.config import EncoderConfig


def _from_config_values(values: dict[str, Any]) -> dict[str, Any]:
    """Their position table counts the rows that no token takes."""
    offset = (values["pad_id"] or 0) + 1
    rows = values.get("max_positions", EncoderConfig.max_positions)
    return {**values, "position_offset": offset, "max_positions": rows - offset}


def _extra_config(config: EncoderConfig) -> dict[str, Any]:
    return {"max_position_embeddings": config.max_positions + config.position_offset}


ROBERTA = Architecture(
    name="roberta",
    presets={
        "roberta": {"vocab_size": 50265, "position_offset": 2, "segments": 1, "norm_eps": 1e-5, "pad_id": 1},
    },
    build=build_transformer,
    mlm_head_activation="gelu",
    hugging_face=HuggingFaceLayout(
        config_keys=BERT_CONFIG_KEYS,
        config_defaults={"pad_id": 1, "norm_eps": 1e-12},
        from_config_values=_from_config_values,
        extra_config=_extra_config,
        prefix="roberta.",
        encoder=(*BERT_EMBEDDINGS, *BERT_BLOCK, BERT_POOLER),
        heads={
            "mlm": mlm_head_rules("lm_head.dense", "lm_head.layer_norm", "lm_head.bias", "lm_head.decoder.weight"),
            **task_head_rules(dense=True),
        },
        classes=(*task_classes("Roberta"), ("RobertaForMaskedLM", ("mlm",)), ("RobertaModel", ())),
        twin_bias=("lm_head.decoder.bias", "lm_head.bias"),
    ),
)
