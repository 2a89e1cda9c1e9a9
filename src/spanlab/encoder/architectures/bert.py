"""BERT (Devlin et al. 2019) and SpanBERT (Joshi et al. 2020), which differ in vocabulary and training."""

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

BERT_CONFIG_KEYS = {
    "vocab_size": "vocab_size",
    "width": "hidden_size",
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "inner_width": "intermediate_size",
    "activation": "hidden_act",
    "dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
    "max_positions": "max_position_embeddings",
    "segments": "type_vocab_size",
    "norm_eps": "layer_norm_eps",
    "init_std": "initializer_range",
    "pad_id": "pad_token_id",
}
BERT_EMBEDDINGS = (
    WeightRule("embeddings.word", ("embeddings.word_embeddings",)),
    WeightRule("embeddings.position", ("embeddings.position_embeddings",)),
    WeightRule("embeddings.segment", ("embeddings.token_type_embeddings",)),
    WeightRule("embeddings.norm", ("embeddings.LayerNorm",)),
)
_LAYER = "encoder.layer.{g}"
BERT_BLOCK = block_rules(
    qkv=tuple(f"{_LAYER}.attention.self.{part}" for part in ("query", "key", "value")),
    output=f"{_LAYER}.attention.output.dense",
    attention_norm=f"{_LAYER}.attention.output.LayerNorm",
    up=f"{_LAYER}.intermediate.dense",
    down=f"{_LAYER}.output.dense",
    feed_forward_norm=f"{_LAYER}.output.LayerNorm",
)
BERT_POOLER = WeightRule("pooler", ("pooler.dense",))

BERT = Architecture(
    name="bert",
    presets={"bert": {"vocab_size": 30522}, "spanbert": {"vocab_size": 28996}},
    build=build_transformer,
    has_pooled_head=True,
    hugging_face=HuggingFaceLayout(
        config_keys=BERT_CONFIG_KEYS,
        config_defaults={},
        prefix="bert.",
        encoder=(*BERT_EMBEDDINGS, *BERT_BLOCK, BERT_POOLER),
        heads={
            "mlm": mlm_head_rules(
                "cls.predictions.transform.dense",
                "cls.predictions.transform.LayerNorm",
                "cls.predictions.bias",
                "cls.predictions.decoder.weight",
            ),
            "nsp": (WeightRule("classifier", ("cls.seq_relationship",)),),
            **task_head_rules(),
        },
        classes=(
            *task_classes("Bert"),
            ("BertForPreTraining", ("mlm", "nsp")),
            ("BertForMaskedLM", ("mlm",)),
            ("BertForNextSentencePrediction", ("nsp",)),
            ("BertModel", ()),
        ),
        classes_with_pooler=("BertForPreTraining", "BertForNextSentencePrediction", "BertForSequenceClassification"),
        twin_bias=("cls.predictions.decoder.bias", "cls.predictions.bias"),
    ),
)
