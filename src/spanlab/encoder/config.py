"""The config of an encoder: one frozen dataclass from which every architecture of the family is built.

A setting that several architectures share has one name here; `architectures/` has the presets of each architecture and
the translation to and from Hugging Face's `config.json`.
"""

from dataclasses import dataclass, replace
from typing import Annotated, Literal

from spanlab.config import Above, AtLeast, AtMost, Below, Bounded
from spanlab.errors import ConfigError, did_you_mean


@dataclass(frozen=True, kw_only=True)
class EncoderConfig(Bounded):
    """Everything that decides which tensors an encoder holds and what it computes with them."""

    architecture: str = "bert"
    """One of `architectures.ARCHITECTURES`; a saved folder follows its names and layout."""
    vocab_size: Annotated[int, AtLeast(1), AtMost(10_000_000)] = 30522
    """Rows of the word table; as many as the tokenizer has tokens."""
    width: Annotated[int, AtLeast(1), AtMost(65_536)] = 768
    """D, the width of the hidden states."""
    layers: Annotated[int, AtLeast(1), AtMost(1_000)] = 12
    """How many layers a token passes."""
    heads: Annotated[int, AtLeast(1)] = 12
    """Attention heads of a layer, each of width / heads."""
    inner_width: Annotated[int, AtLeast(1), AtMost(1_000_000)] = 3072
    """The width inside the feed-forward network."""
    embedding_width: Annotated[int, AtLeast(1), AtMost(65_536)] | None = None
    """Width of the embedding tables; None means `width`. A narrower table is projected up (ALBERT, ELECTRA)."""

    positions: Literal["learned", "sinusoidal", "rotary", "relative", "none"] = "learned"
    """relative: distances between tokens, XLNet's only; none: ELMo, which reads token by token."""
    rotary_base: Annotated[float, Above(1)] = 10_000.0
    """Rotary positions: the longest wavelength is 2π times it."""
    local_rotary_base: Annotated[float, Above(1)] | None = None
    """The same for layers with local attention; None: `rotary_base`."""
    max_positions: Annotated[int, AtLeast(1), AtMost(10_000_000)] = 512
    """How many tokens a sequence may have; rotary and relative positions set no limit."""
    position_offset: Annotated[int, AtLeast(0), AtMost(10_000_000)] = 0
    """The row of the position table that the first token takes (RoBERTa: the padding id plus one)."""
    segments: Annotated[int, AtLeast(0), AtMost(65_536)] = 2
    """Rows of the segment table; 0 for none."""
    scale_embeddings: bool = False
    """Multiply token embeddings by the square root of the width, as the original Transformer does."""
    embedding_norm: bool = True
    """Whether a norm follows the sum of the embeddings."""

    activation: Literal["gelu", "gelu_tanh", "relu", "silu"] = "gelu"
    """Of the feed-forward networks."""
    feed_forward: Literal["plain", "glu"] = "plain"
    """Two matrices, or three with a gate (GLU)."""
    norm: Literal["layer", "rms"] = "layer"
    """LayerNorm, or RMSNorm without mean and bias."""
    norm_place: Literal["post", "pre"] = "post"
    """Norms after the residual sum (BERT), or before each sublayer (GPT-2, ModernBERT)."""
    norm_eps: Annotated[float, Above(0), Below(1)] = 1e-12
    """The number added to the variance in norms."""
    final_norm: bool = False
    """A norm after the last layer; a pre-norm stack needs one."""
    first_attention_norm: bool = True
    """Pre-norm: whether the first block normalises the input of its attention, too (ModernBERT: no)."""
    attention_bias: bool = True
    """Whether the linear layers of attention have biases."""
    feed_forward_bias: bool = True
    """Whether those of the feed-forward networks have."""
    norm_bias: bool = True
    """Whether the norms have biases."""
    causal: bool = False
    """Each token attends to itself and the tokens before it."""
    local_window: Annotated[int, AtLeast(2)] | None = None
    """Local attention: a token sees half of the window to its left and half to its right."""
    global_every: Annotated[int, AtLeast(1)] = 1
    """Every n-th layer, from the first on, attends to the whole sequence; the others are local."""

    layer_groups: int | None = None
    """How many groups of layers have separate weights; None: every layer has (ALBERT: 1, all layers share)."""
    inner_layers: Annotated[int, AtLeast(1), AtMost(1_000)] = 1
    """How many distinct blocks a layer runs through one after the other (ALBERT's inner groups)."""
    pooler: bool = True
    """Whether there is a dense tanh layer on the first token of a sequence (XLNet: the last)."""

    max_distance: Annotated[int, AtLeast(1)] | None = None
    """Relative positions: larger distances are clamped to it; None for no limit."""
    memory: Annotated[int, AtLeast(1)] | None = None
    """XLNet: how many tokens of earlier segments the memory keeps; None for all."""
    reuse: Annotated[int, AtLeast(1)] | None = None
    """XLNet: how many tokens of a segment, its first ones, go into the memory; None for all."""

    dropout: Annotated[float, AtLeast(0), Below(1)] = 0.1
    """On embeddings and on the output of each sublayer."""
    attention_dropout: Annotated[float, AtLeast(0), Below(1)] = 0.1
    """On attention weights."""
    stochastic_depth: Annotated[float, AtLeast(0), Below(1)] = 0.0
    """The chance that a training step skips the last layer for a sequence; earlier layers in proportion."""
    checkpoint_layers: bool = False
    """Recompute each layer in the backward pass instead of keeping its activations (gradient checkpointing)."""
    init_std: Annotated[float, AtLeast(0), AtMost(100)] = 0.02
    """The standard deviation of new weights."""
    residual_init: Literal["same", "depth-scaled", "zero"] = "same"
    """The layers that add to the residual stream start with `init_std`, with `init_std` / √(2 · layers), or at zero."""
    pad_id: Annotated[int, AtLeast(0)] | None = 0
    """The id of padding; None: the tokenizer has none."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pad_id is not None and self.pad_id >= self.vocab_size:
            raise ConfigError(f"'pad_id' is {self.pad_id}, outside the vocabulary of {self.vocab_size} tokens")
        if self.width % self.heads:
            fix = f"choose a number of heads that divides {self.width}"
            raise ConfigError(f"{self.heads} heads cannot share a width of {self.width}", fix=fix)
        if self.positions == "rotary" and self.head_width % 2:
            raise ConfigError(f"rotary positions need an even head width, and {self.width} / {self.heads} is odd")
        if self.layer_groups is not None and not 1 <= self.layer_groups <= self.layers:
            raise ConfigError(f"'layer_groups' is {self.layer_groups}; it must lie between 1 and {self.layers} layers")
        self._check_local_layers()
        if (self.positions == "relative") != (self.architecture == "xlnet"):
            raise ConfigError("positions=relative needs architecture=xlnet, and the other way round")

    def _check_local_layers(self) -> None:
        if self.global_every > 1 and self.local_window is None:
            raise ConfigError("'global_every' makes layers local, but 'local_window' is not set", fix="set both")
        if self.global_every > 1 and self.causal:
            cause = "local attention looks to both sides, and this encoder is causal"
            raise ConfigError(cause, fix="set global_every=1")
        shared = self.groups < self.layers or self.inner_layers > 1
        if shared and (self.global_every > 1 or not self.first_attention_norm):
            cause = "layers that share weights are all alike: none is local, and none lacks a norm"
            raise ConfigError(cause, fix="set global_every=1 and first_attention_norm=true")

    def is_local(self, layer: int) -> bool:
        """Whether a layer, counted from 0, has local attention."""
        return layer % self.global_every > 0

    @property
    def limits_length(self) -> bool:
        """Whether a sequence can be too long for the positions."""
        return self.positions in {"learned", "sinusoidal"}

    @property
    def head_width(self) -> int:
        """The width of one attention head."""
        return self.width // self.heads

    @property
    def table_width(self) -> int:
        """E, the width of the embedding tables."""
        return self.width if self.embedding_width is None else self.embedding_width

    @property
    def groups(self) -> int:
        """How many groups of layers have separate weights."""
        return self.layers if self.layer_groups is None else self.layer_groups

    def without_dropout(self) -> "EncoderConfig":
        """The config with dropout, attention dropout and stochastic depth off."""
        return replace(self, dropout=0.0, attention_dropout=0.0, stochastic_depth=0.0)


SIZES: dict[str, tuple[int, int]] = {
    "tiny": (2, 128),
    "mini": (4, 256),
    "small": (4, 512),
    "base": (12, 768),
    "large": (24, 1024),
}
"""Layers and width of each size; heads are width / 64 and the feed-forward network is four times as wide."""


@dataclass(frozen=True, kw_only=True)
class SpanBoundaryConfig(Bounded):
    """The inputs of a span boundary head and how it combines them; the defaults are as published."""

    boundaries: Literal["external", "internal"] = "external"
    """The two tokens the head reads: the ones just outside the span, or the first and the last inside it."""
    positions: bool = True
    """Whether the head knows the position of the token in the span, by a learned embedding."""
    combine: Literal["concat", "sum", "sum-all"] = "concat"
    """concat: both boundary vectors and the position next to one another; sum: the boundary vectors are added, and the
    position stands beside; sum-all: the position, as wide as they are, is added, too."""
    activation: Literal["gelu", "relu"] = "gelu"
    """The activation of its hidden layers."""
    layers: Annotated[int, AtLeast(1), AtMost(2)] = 2
    """The hidden layers before the output matrix."""
    inner_width: Annotated[int, AtLeast(1), AtMost(65_536)] | None = None
    """The width of the hidden layers; None: the encoder's. The last one before a tied output matrix has its width."""
    norm: bool = True
    """Whether a LayerNorm follows each hidden layer."""
    bias: bool = True
    """Whether the hidden layers and the output have biases."""
    tie: bool = True
    """Whether the output matrix is the word table; if not, the head has one of its own."""
    max_span: Annotated[int, AtLeast(1), AtMost(10_000)] | None = 20
    """How many positions in a span have an embedding; tokens further on have no target. None: as positions=false."""
    position_width: Annotated[int, AtLeast(1), AtMost(65_536)] = 200
    """The width of those embeddings, unless combine=sum-all."""

    def __post_init__(self) -> None:
        super().__post_init__()
        choices = {
            "boundaries": ("external", "internal"),
            "combine": ("concat", "sum", "sum-all"),
            "activation": ("gelu", "relu"),
        }
        for name, known in choices.items():
            value = getattr(self, name)
            if value not in known:
                hint = did_you_mean(str(value), known)
                raise ConfigError(f"'{name}' is '{value}'{hint}; it must be one of {', '.join(known)}")
        if self.inner_width is not None and self.layers == 1 and self.tie:
            cause = "span_boundary.inner_width has no layer: the only one is as wide as the word table it is tied to"
            raise ConfigError(cause, fix="set span_boundary.layers=2 or span_boundary.tie=false")

    @property
    def span_limit(self) -> int | None:
        """How many tokens of a span, from its first, can be predicted; None: any number."""
        return self.max_span if self.positions else None
