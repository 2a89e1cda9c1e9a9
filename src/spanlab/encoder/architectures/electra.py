"""ELECTRA (Clark et al. 2020): BERT's encoder, without a pooler, as generator and as discriminator.

The two together, with their heads, are `spanlab.encoder.discriminator.Electra`.
"""

from spanlab.encoder.architectures.base import (
    Architecture,
    HuggingFaceLayout,
    WeightRule,
    build_transformer,
    mlm_head_rules,
    task_classes,
    task_head_rules,
)
from spanlab.encoder.architectures.bert import BERT_BLOCK, BERT_CONFIG_KEYS, BERT_EMBEDDINGS

ELECTRA = Architecture(
    name="electra",
    presets={"electra": {"vocab_size": 30522, "pooler": False}},
    build=build_transformer,
    sequence_head_activation="gelu",
    mlm_head_activation="gelu",
    hugging_face=HuggingFaceLayout(
        config_keys={**BERT_CONFIG_KEYS, "embedding_width": "embedding_size"},
        config_defaults={"pooler": False, "embedding_width": 128, "width": 256, "heads": 4, "inner_width": 1024},
        prefix="electra.",
        encoder=(*BERT_EMBEDDINGS, *BERT_BLOCK, WeightRule("projection", ("embeddings_project",))),
        heads={
            "mlm": mlm_head_rules(
                "generator_predictions.dense",
                "generator_predictions.LayerNorm",
                "generator_lm_head.bias",
                "generator_lm_head.weight",
            ),
            "rtd": (
                WeightRule("dense", ("discriminator_predictions.dense",)),
                WeightRule("classifier", ("discriminator_predictions.dense_prediction",)),
            ),
            **task_head_rules(dense=True),
        },
        classes=(
            *task_classes("Electra"),
            ("ElectraForPreTraining", ("rtd",)),
            ("ElectraForMaskedLM", ("mlm",)),
            ("ElectraModel", ()),
        ),
    ),
)
