"""ALBERT (Lan et al. 2020): narrow embeddings that are projected up, and one set of weights for all layers."""

from spanlab.encoder.architectures.base import (
    Architecture,
    HuggingFaceLayout,
    WeightRule,
    block_rules,
    build_transformer,
    mlm_head_rules,
    task_classes,
    task_head_rules,
)
from spanlab.encoder.architectures.bert import BERT_CONFIG_KEYS, BERT_EMBEDDINGS

_BLOCK = "encoder.albert_layer_groups.{g}.albert_layers.{b}"
_SETTINGS = {
    "vocab_size": 30000,
    "embedding_width": 128,
    "layer_groups": 1,
    "activation": "gelu_tanh",
    "dropout": 0.0,
    "attention_dropout": 0.0,
}

ALBERT = Architecture(
    name="albert",
    presets={"albert": _SETTINGS},
    build=build_transformer,
    has_pooled_head=True,
    hugging_face=HuggingFaceLayout(
        config_keys={
            **BERT_CONFIG_KEYS,
            "embedding_width": "embedding_size",
            "layer_groups": "num_hidden_groups",
            "inner_layers": "inner_group_num",
        },
        config_defaults={**_SETTINGS, "width": 4096, "heads": 64, "inner_width": 16384},
        prefix="albert.",
        encoder=(
            *BERT_EMBEDDINGS,
            WeightRule("projection", ("encoder.embedding_hidden_mapping_in",)),
            *block_rules(
                qkv=tuple(f"{_BLOCK}.attention.{part}" for part in ("query", "key", "value")),
                output=f"{_BLOCK}.attention.dense",
                attention_norm=f"{_BLOCK}.attention.LayerNorm",
                up=f"{_BLOCK}.ffn",
                down=f"{_BLOCK}.ffn_output",
                feed_forward_norm=f"{_BLOCK}.full_layer_layer_norm",
            ),
            WeightRule("pooler", ("pooler",)),
        ),
        heads={
            "mlm": mlm_head_rules(
                "predictions.dense", "predictions.LayerNorm", "predictions.bias", "predictions.decoder.weight"
            ),
            "sop": (WeightRule("classifier", ("sop_classifier.classifier",)),),
            **task_head_rules(),
        },
        classes=(
            *task_classes("Albert"),
            ("AlbertForPreTraining", ("mlm", "sop")),
            ("AlbertForMaskedLM", ("mlm",)),
            ("AlbertModel", ()),
        ),
        classes_with_pooler=("AlbertForPreTraining", "AlbertForSequenceClassification"),
        twin_bias=("predictions.decoder.bias", "predictions.bias"),
    ),
)
