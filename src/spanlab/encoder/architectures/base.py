"""What an architecture file provides: its presets, how its encoder is built, and its form in Hugging Face folders.

A weight rule names one of our layers and the layer or layers of theirs that it is made of. `{g}` stands for a group of
layers (a single layer in everything but ALBERT) and `{b}` for a block inside it. Queries, keys and values are three
layers there and one here; GPT's linear layers are stored transposed, and so are XLNet's, with the heads as an axis.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from spanlab.encoder.config import EncoderConfig

if TYPE_CHECKING:
    from spanlab.encoder.model import Encoder

TASK_HEADS = ("sequence", "token", "answer")
"""The heads of transformers' task classes; the class in `config.json` says which of them a folder holds."""

ACTIVATION_NAMES: Mapping[str, str] = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}
"""transformers' name of each activation, and ours; the first of several names is the one that is written."""

UNWRITTEN_FIELDS = ("stochastic_depth", "checkpoint_layers", "residual_init")
"""Fields that only training depends on, which `config.json` has no key for."""

Classes = tuple[tuple[str, tuple[str, ...]], ...]
"""Class names of transformers and the heads each holds."""


@dataclass(frozen=True)
class WeightRule:
    """One of our layers (or single tensors) and what it is made of in the Hugging Face layout."""

    ours: str
    theirs: tuple[str, ...]
    """More than one: concatenated along the output axis."""
    transposed: bool = False
    by_heads: bool = False
    """Their matrix is (D, H, W), with an axis for the heads, where ours is (D, H·W)."""


@dataclass(frozen=True, kw_only=True)
class HuggingFaceLayout:
    """`config.json` and `model.safetensors` of one architecture, as transformers reads and writes them."""

    config_keys: Mapping[str, str]
    """Our field and their key."""
    config_defaults: Mapping[str, Any]
    """What the architecture fixes, and what its `config.json` means where a key is missing."""
    config_keys_read: Mapping[str, str] = field(default_factory=dict)
    """Further keys that `from_config_values` turns into fields; `extra_config` writes them."""
    unwritten_fields: tuple[str, ...] = UNWRITTEN_FIELDS
    """Fields that `config.json` has no key for; `spanlab.json` keeps them."""
    activation_names: Mapping[str, str] = field(default_factory=lambda: ACTIVATION_NAMES)
    from_config_values: Callable[[dict[str, Any]], dict[str, Any]] = dict
    """Our field values from those read under `config_keys`, where they do not mean the same."""
    extra_config: Callable[[EncoderConfig], dict[str, Any]] = field(default=lambda _: {})
    """Keys of `config.json` beside `config_keys`, or with another value than our field's."""

    prefix: str
    """The prefix of the encoder's weight names in a model with heads."""
    encoder: tuple[WeightRule, ...]
    heads: Mapping[str, tuple[WeightRule, ...]]
    """By the name of the objective or task head; our names are relative to the head."""
    classes: Classes
    """The class with the most heads first; the last holds none."""
    classes_with_pooler: tuple[str, ...] = ()
    """The classes with heads that have a pooler, too."""
    bare_class_has_pooler: bool = True
    twin_bias: tuple[str, str] | None = None
    """Two names of the MLM head's bias: the one that is computed with, and the one the rules know.

    Tied models store one of them; untied ones store both and compute with the first.
    """

    def class_for(self, heads: frozenset[str]) -> tuple[str, tuple[str, ...]]:
        """The transformers class that holds as many of `heads` as any does, and the heads it holds."""
        return next((name, held) for name, held in self.classes if heads.issuperset(held))


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """Everything that is specific to an architecture."""

    name: str
    """`EncoderConfig.architecture`, and the `model_type` of its Hugging Face folders."""
    presets: Mapping[str, Mapping[str, Any]]
    """By the name of a system: its published settings beside the size."""
    sizes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By size: where the published shape differs from `SIZES`."""
    build: "Callable[[Any], Encoder]"
    """A new encoder from its config; torch is imported when it is called."""
    hugging_face: HuggingFaceLayout | None = None
    """None: transformers has no such class, and folders are in our own layout."""
    has_pooled_head: bool = False
    """Whether the sequence head is one layer on the pooler; otherwise it brings a dense layer before the last."""
    sequence_head_activation: str = "tanh"
    """The activation of that dense layer."""
    mlm_head_activation: str | None = None
    """The activation of the MLM head; None: the encoder's."""
    mlm_head_bias: bool = True
    """Whether the dense layer of the MLM head has a bias."""
    pools_last_token: bool = False
    """Whether the last token of a sequence is pooled, not the first."""
    settings: tuple[str, ...] | None = None
    """The fields of its config that may be chosen; None: any field of `EncoderConfig`."""


def build_transformer(config: EncoderConfig) -> "Encoder":
    """The encoder of all architectures but XLNet and ELMo."""
    from spanlab.encoder.transformer import TransformerEncoder

    return TransformerEncoder(config)


def task_head_rules(*, dense: bool = False) -> dict[str, tuple[WeightRule, ...]]:
    """The rules of the task heads; `dense` where the sequence head has a layer of its own before the last."""
    with_dense = (WeightRule("dense", ("classifier.dense",)), WeightRule("classifier", ("classifier.out_proj",)))
    plain = (WeightRule("classifier", ("classifier",)),)
    return {
        "sequence": with_dense if dense else plain,
        "token": plain,
        "answer": (WeightRule("ends", ("qa_outputs",)),),
    }


def task_classes(model: str) -> Classes:
    """Transformers' task classes of a model family, such as "Bert"."""
    suffixes = ("SequenceClassification", "TokenClassification", "QuestionAnswering")
    return tuple((f"{model}For{suffix}", (head,)) for suffix, head in zip(suffixes, TASK_HEADS, strict=True))


def mlm_head_rules(dense: str, norm: str, bias: str, decoder: str) -> tuple[WeightRule, ...]:
    """The rules of the MLM head from the names of its layers."""
    pairs = {"dense": dense, "norm": norm, "bias": bias, "decoder": decoder}
    return tuple(WeightRule(ours, (theirs,)) for ours, theirs in pairs.items())


def block_rules(
    qkv: tuple[str, ...],
    output: str,
    attention_norm: str,
    up: str,
    down: str,
    feed_forward_norm: str,
    *,
    transposed: bool = False,
) -> tuple[WeightRule, ...]:
    """The rules of one Transformer block from the names of its layers; `transposed` is for its linear layers."""
    block = "layers.{g}.{b}"
    return (
        WeightRule(f"{block}.attention.qkv", qkv, transposed),
        WeightRule(f"{block}.attention.output", (output,), transposed),
        WeightRule(f"{block}.attention_norm", (attention_norm,)),
        WeightRule(f"{block}.feed_forward.up", (up,), transposed),
        WeightRule(f"{block}.feed_forward.down", (down,), transposed),
        WeightRule(f"{block}.feed_forward_norm", (feed_forward_norm,)),
    )
