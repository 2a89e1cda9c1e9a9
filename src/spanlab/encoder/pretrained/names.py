"""What transformers calls each weight, one table per architecture.

A rule names one of our layers and the layer or layers of theirs that it is made of. `{g}` stands for a group of
layers (a layer of its own in everything but ALBERT) and `{b}` for a block inside it. Queries, keys and values are
three layers there and one here; GPT's linear layers are stored transposed, and so are XLNet's, by heads.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Rule:
    """One of our layers (or single tensors) and what it is made of in the Hugging Face layout."""

    ours: str
    theirs: tuple[str, ...]
    """More than one: concatenated along the output axis."""
    transposed: bool = False
    heads: int | None = None
    """Their matrix has so many heads as an axis of its own, (D, H, W), where ours is (D, H·W)."""


@dataclass(frozen=True)
class Names:
    """All names of one architecture."""

    prefix: str
    """What the body's names begin with inside a model with heads."""
    body: tuple[Rule, ...]
    heads: dict[str, tuple[Rule, ...]]
    """By the name of the objective; rules relative to the head."""
    classes: tuple[tuple[str, tuple[str, ...]], ...]
    """Class names and the heads each holds, the fullest first; the last holds none."""
    headed_pooler: tuple[str, ...] = ()
    """The classes, beside the bare model, that have a pooler."""
    bare_pooler: bool = True
    """Whether the bare model has one, where there is one at all."""
    twin_bias: tuple[str, str] | None = None
    """Two names of the MLM head's bias: the one that is computed with, and the one the rules know.

    Tied models store one of them; untied ones store both and compute with the first.
    """

    def class_for(self, heads: frozenset[str]) -> tuple[str, tuple[str, ...]]:
        """The transformers class that holds as many of `heads` as any does, and the heads it holds."""
        return next((name, held) for name, held in self.classes if heads.issuperset(held))


TASK_HEADS = ("sequence", "token", "answer")
"""The heads of transformers' task classes; which of them a folder holds is told by the class in its `config.json`."""


def _task_heads(*, dense: bool = False) -> dict[str, tuple[Rule, ...]]:
    """The rules of the task heads; `dense` where the sequence head has a layer of its own before the last."""
    own = (Rule("dense", ("classifier.dense",)), Rule("classifier", ("classifier.out_proj",)))
    plain = (Rule("classifier", ("classifier",)),)
    return {"sequence": own if dense else plain, "token": plain, "answer": (Rule("ends", ("qa_outputs",)),)}


def _task_classes(model: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    suffixes = ("SequenceClassification", "TokenClassification", "QuestionAnswering")
    return tuple((f"{model}For{suffix}", (head,)) for suffix, head in zip(suffixes, TASK_HEADS, strict=True))


def _bert_body(*extra: Rule) -> tuple[Rule, ...]:
    layer = "encoder.layer.{g}"
    return (
        Rule("embeddings.word", ("embeddings.word_embeddings",)),
        Rule("embeddings.position", ("embeddings.position_embeddings",)),
        Rule("embeddings.segment", ("embeddings.token_type_embeddings",)),
        Rule("embeddings.norm", ("embeddings.LayerNorm",)),
        Rule(
            "layers.{g}.{b}.attention.qkv",
            tuple(f"{layer}.attention.self.{part}" for part in ("query", "key", "value")),
        ),
        Rule("layers.{g}.{b}.attention.output", (f"{layer}.attention.output.dense",)),
        Rule("layers.{g}.{b}.attention_norm", (f"{layer}.attention.output.LayerNorm",)),
        Rule("layers.{g}.{b}.feed_forward.up", (f"{layer}.intermediate.dense",)),
        Rule("layers.{g}.{b}.feed_forward.down", (f"{layer}.output.dense",)),
        Rule("layers.{g}.{b}.feed_forward_norm", (f"{layer}.output.LayerNorm",)),
        *extra,
    )


_BERT_POOLER = Rule("pooler", ("pooler.dense",))

BERT = Names(
    prefix="bert.",
    body=_bert_body(_BERT_POOLER),
    heads={
        "mlm": (
            Rule("dense", ("cls.predictions.transform.dense",)),
            Rule("norm", ("cls.predictions.transform.LayerNorm",)),
            Rule("bias", ("cls.predictions.bias",)),
            Rule("decoder", ("cls.predictions.decoder.weight",)),
        ),
        "nsp": (Rule("classifier", ("cls.seq_relationship",)),),
        **_task_heads(),
    },
    classes=(
        *_task_classes("Bert"),
        ("BertForPreTraining", ("mlm", "nsp")),
        ("BertForMaskedLM", ("mlm",)),
        ("BertForNextSentencePrediction", ("nsp",)),
        ("BertModel", ()),
    ),
    headed_pooler=("BertForPreTraining", "BertForNextSentencePrediction", "BertForSequenceClassification"),
    twin_bias=("cls.predictions.decoder.bias", "cls.predictions.bias"),
)

ROBERTA = Names(
    prefix="roberta.",
    body=_bert_body(_BERT_POOLER),
    heads={
        "mlm": (
            Rule("dense", ("lm_head.dense",)),
            Rule("norm", ("lm_head.layer_norm",)),
            Rule("bias", ("lm_head.bias",)),
            Rule("decoder", ("lm_head.decoder.weight",)),
        ),
        **_task_heads(dense=True),
    },
    classes=(*_task_classes("Roberta"), ("RobertaForMaskedLM", ("mlm",)), ("RobertaModel", ())),
    twin_bias=("lm_head.decoder.bias", "lm_head.bias"),
)

ELECTRA = Names(
    prefix="electra.",
    body=_bert_body(Rule("projection", ("embeddings_project",))),
    heads={
        "mlm": (
            Rule("dense", ("generator_predictions.dense",)),
            Rule("norm", ("generator_predictions.LayerNorm",)),
            Rule("bias", ("generator_lm_head.bias",)),
            Rule("decoder", ("generator_lm_head.weight",)),
        ),
        "rtd": (
            Rule("dense", ("discriminator_predictions.dense",)),
            Rule("classifier", ("discriminator_predictions.dense_prediction",)),
        ),
        **_task_heads(dense=True),
    },
    classes=(
        *_task_classes("Electra"),
        ("ElectraForPreTraining", ("rtd",)),
        ("ElectraForMaskedLM", ("mlm",)),
        ("ElectraModel", ()),
    ),
)

_ALBERT_BLOCK = "encoder.albert_layer_groups.{g}.albert_layers.{b}"

ALBERT = Names(
    prefix="albert.",
    body=(
        *_bert_body()[:4],
        Rule("projection", ("encoder.embedding_hidden_mapping_in",)),
        Rule(
            "layers.{g}.{b}.attention.qkv",
            tuple(f"{_ALBERT_BLOCK}.attention.{part}" for part in ("query", "key", "value")),
        ),
        Rule("layers.{g}.{b}.attention.output", (f"{_ALBERT_BLOCK}.attention.dense",)),
        Rule("layers.{g}.{b}.attention_norm", (f"{_ALBERT_BLOCK}.attention.LayerNorm",)),
        Rule("layers.{g}.{b}.feed_forward.up", (f"{_ALBERT_BLOCK}.ffn",)),
        Rule("layers.{g}.{b}.feed_forward.down", (f"{_ALBERT_BLOCK}.ffn_output",)),
        Rule("layers.{g}.{b}.feed_forward_norm", (f"{_ALBERT_BLOCK}.full_layer_layer_norm",)),
        Rule("pooler", ("pooler",)),
    ),
    heads={
        "mlm": (
            Rule("dense", ("predictions.dense",)),
            Rule("norm", ("predictions.LayerNorm",)),
            Rule("bias", ("predictions.bias",)),
            Rule("decoder", ("predictions.decoder.weight",)),
        ),
        "sop": (Rule("classifier", ("sop_classifier.classifier",)),),
        **_task_heads(),
    },
    classes=(
        *_task_classes("Albert"),
        ("AlbertForPreTraining", ("mlm", "sop")),
        ("AlbertForMaskedLM", ("mlm",)),
        ("AlbertModel", ()),
    ),
    headed_pooler=("AlbertForPreTraining", "AlbertForSequenceClassification"),
    twin_bias=("predictions.decoder.bias", "predictions.bias"),
)


def _gpt_body(word: str, position: str, *extra: Rule) -> tuple[Rule, ...]:
    return (
        Rule("embeddings.word", (word,)),
        Rule("embeddings.position", (position,)),
        Rule("layers.{g}.{b}.attention.qkv", ("h.{g}.attn.c_attn",), transposed=True),
        Rule("layers.{g}.{b}.attention.output", ("h.{g}.attn.c_proj",), transposed=True),
        Rule("layers.{g}.{b}.attention_norm", ("h.{g}.ln_1",)),
        Rule("layers.{g}.{b}.feed_forward.up", ("h.{g}.mlp.c_fc",), transposed=True),
        Rule("layers.{g}.{b}.feed_forward.down", ("h.{g}.mlp.c_proj",), transposed=True),
        Rule("layers.{g}.{b}.feed_forward_norm", ("h.{g}.ln_2",)),
        *extra,
    )


_CLM: dict[str, tuple[Rule, ...]] = {"clm": (Rule("decoder", ("lm_head.weight",)),)}

GPT2 = Names(
    prefix="transformer.",
    body=_gpt_body("wte", "wpe", Rule("final_norm", ("ln_f",))),
    heads=_CLM,
    classes=(("GPT2LMHeadModel", ("clm",)), ("GPT2Model", ())),
)

OPENAI_GPT = Names(
    prefix="transformer.",
    body=_gpt_body("tokens_embed", "positions_embed"),
    heads=_CLM,
    classes=(("OpenAIGPTLMHeadModel", ("clm",)), ("OpenAIGPTModel", ())),
)

_XLNET_ATTENTION = "layer.{g}.rel_attn"
BY_HEADS = -1
"""Stands in `Rule.heads` for the number of heads of the config."""

XLNET = Names(
    prefix="transformer.",
    body=(
        Rule("embeddings.word", ("word_embedding",)),
        Rule("mask", ("mask_emb",)),
        Rule(
            "layers.{g}.attention.qkv.weight",
            tuple(f"{_XLNET_ATTENTION}.{part}" for part in "qkv"),
            transposed=True,
            heads=BY_HEADS,
        ),
        Rule("layers.{g}.attention.position.weight", (f"{_XLNET_ATTENTION}.r",), transposed=True, heads=BY_HEADS),
        Rule("layers.{g}.attention.output.weight", (f"{_XLNET_ATTENTION}.o",), heads=BY_HEADS),
        Rule("layers.{g}.attention.content_bias", (f"{_XLNET_ATTENTION}.r_w_bias",)),
        Rule("layers.{g}.attention.position_bias", (f"{_XLNET_ATTENTION}.r_r_bias",)),
        Rule("layers.{g}.attention.segment_bias", (f"{_XLNET_ATTENTION}.r_s_bias",)),
        Rule("layers.{g}.attention.segment", (f"{_XLNET_ATTENTION}.seg_embed",)),
        Rule("layers.{g}.attention_norm", (f"{_XLNET_ATTENTION}.layer_norm",)),
        Rule("layers.{g}.feed_forward.up", ("layer.{g}.ff.layer_1",)),
        Rule("layers.{g}.feed_forward.down", ("layer.{g}.ff.layer_2",)),
        Rule("layers.{g}.feed_forward_norm", ("layer.{g}.ff.layer_norm",)),
        Rule("pooler", ("sequence_summary.summary",)),
    ),
    heads={"plm": (Rule("bias", ("lm_loss.bias",)), Rule("decoder", ("lm_loss.weight",)))},
    classes=(("XLNetLMHeadModel", ("plm",)), ("XLNetModel", ())),
    bare_pooler=False,
)

NAMES: dict[str, Names] = {
    "bert": BERT,
    "roberta": ROBERTA,
    "albert": ALBERT,
    "electra": ELECTRA,
    "gpt2": GPT2,
    "openai-gpt": OPENAI_GPT,
    "xlnet": XLNET,
}
