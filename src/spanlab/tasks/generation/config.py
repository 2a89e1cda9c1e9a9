"""Settings of generation: the published ones of each head."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typing_extensions import override

from spanlab.config import AtLeast, AtMost, Below, Bounded
from spanlab.decoding.config import DecodingConfig
from spanlab.errors import ConfigError
from spanlab.tasks.config import PUBLISHED_WIDTH, TaskConfig, TaskDataConfig
from spanlab.training.config import TrainingConfig

if TYPE_CHECKING:
    from spanlab.encoder import EncoderConfig


@dataclass(frozen=True, kw_only=True)
class DecoderConfig(Bounded):
    """The `decoder` section: the size of the decoder of `head=decoder`; what it leaves open is as in the encoder."""

    layers: Annotated[int, AtLeast(1), AtMost(1_000)] | None = None
    """None: as many as the encoder."""
    width: Annotated[int, AtLeast(1), AtMost(65_536)] | None = None
    """None: that of the encoder."""
    heads: Annotated[int, AtLeast(1)] | None = None
    """None: those of the encoder, or with a width of its own width / 64."""
    inner_width: Annotated[int, AtLeast(1), AtMost(1_000_000)] | None = None
    """The width inside the feed-forward network; None: four times the width."""
    dropout: Annotated[float, AtLeast(0), Below(1)] = 0.1
    """Of the decoder's residual branches and embeddings."""
    attention_dropout: Annotated[float, AtLeast(0), Below(1)] | None = None
    """None: as `dropout`."""
    share_words: bool = True
    """With the source's vocabulary: the word table, which is also the output matrix, is that of the encoder."""

    def for_encoder(
        self, encoder: "EncoderConfig", *, vocab_size: int, max_positions: int, shares: bool
    ) -> "EncoderConfig":
        """The config of the decoder; with `shares` its word vectors have the width of the encoder's."""
        from spanlab.encoder import EncoderConfig

        width = self.width or encoder.width
        heads = self.heads or (encoder.heads if width == encoder.width else max(1, width // 64))
        return EncoderConfig(
            architecture="transformer",
            vocab_size=vocab_size,
            width=width,
            layers=self.layers or encoder.layers,
            heads=heads,
            inner_width=self.inner_width or 4 * width,
            embedding_width=encoder.table_width if shares else None,
            positions=encoder.positions if encoder.positions in {"sinusoidal", "rotary"} else "learned",
            max_positions=max_positions,
            segments=0,
            scale_embeddings=encoder.scale_embeddings,
            embedding_norm=encoder.embedding_norm,
            activation=encoder.activation,
            norm_place=encoder.norm_place,
            final_norm=encoder.final_norm,
            norm_eps=encoder.norm_eps,
            causal=True,
            pooler=False,
            dropout=self.dropout,
            attention_dropout=self.dropout if self.attention_dropout is None else self.attention_dropout,
            init_std=encoder.init_std,
            pad_id=None,
        )


@dataclass(frozen=True, kw_only=True)
class GenerationConfig(TaskConfig):
    """Settings of generation."""

    head: Literal["prefix", "decoder"] = "prefix"
    """A causal encoder that continues the source with the target, or a new decoder over any encoder."""
    prefix: Literal["both", "causal"] = "both"
    """head=prefix: whether the tokens of the source see each other in both directions, or only what came before."""
    decoder: DecoderConfig = field(default_factory=DecoderConfig)
    """The decoder of `head=decoder`."""
    target_tokenizer: str | None = None
    """head=decoder: the folder of a tokenizer for the targets, which is saved with the model; None: the encoder's."""
    label_smoothing: Annotated[float, AtLeast(0), Below(1)] = 0.0
    """head=decoder: the share of a target's probability that is spread over the whole vocabulary in training."""
    max_new_tokens: int = 64
    """The longest target, in tokens; with head=prefix the source has the rest of `data.length`."""
    beams: int = 1
    """The beam size of prediction; 1 is greedy search."""
    length_penalty: float = 1.0
    """With several beams; above 0 favours long targets."""
    language: Literal["auto", "en", "zh", "ko"] = "auto"
    """The language whose words ROUGE and BLEU count; auto: by the script of the targets."""
    choose_by: Literal["rougeL", "rouge1", "rouge2", "bleu", "chrf"] = "rougeL"
    """The dev score that selects the best model."""
    data: TaskDataConfig = field(default_factory=lambda: TaskDataConfig(length=512, long_text="error"))
    training: TrainingConfig = field(default_factory=lambda: TrainingConfig(lr=6.25e-5, batch_size=32, epochs=3.0))

    def __post_init__(self) -> None:
        super().__post_init__()
        self.decoding()  # checks its own settings
        if self.data.long_text == "windows":
            cause = "a target is generated from the whole source, so there are no windows over it"
            raise ConfigError(cause, fix="use data.long_text=truncate or error")
        if self.head == "prefix":
            self._check_prefix()

    def _check_prefix(self) -> None:
        if self.max_new_tokens + 2 > self.data.length:
            cause = (
                f"max_new_tokens {self.max_new_tokens} leaves no tokens for a source in data.length {self.data.length}"
            )
            raise ConfigError(cause, fix="use a smaller max_new_tokens or a larger data.length")
        for name, is_set in (
            ("target_tokenizer", self.target_tokenizer is not None),
            ("label_smoothing", self.label_smoothing > 0),
            ("decoder", self.decoder != DecoderConfig()),
        ):
            if is_set:
                raise ConfigError(f"'{name}' is for head=decoder, and the head is prefix", fix="set head=decoder")

    @property
    @override
    def published_width(self) -> int:
        """1 with a decoder: its learning rate is meant for every width, since most of its weights are new."""
        return 1 if self.head == "decoder" else PUBLISHED_WIDTH

    @classmethod
    @override
    def base(cls, changes: Mapping[str, Any]) -> "GenerationConfig":
        """The settings of the head that `changes` name."""
        return DECODER if changes.get("head") == "decoder" else cls()

    def decoding(self) -> DecodingConfig:
        """The settings with which targets are generated."""
        return DecodingConfig(
            max_new_tokens=self.max_new_tokens,
            temperature=0.0,
            beams=self.beams,
            length_penalty=self.length_penalty,
        )


# Vaswani et al. 2017, with a shorter warm-up and smaller batches, for files of some ten thousand pairs.
DECODER = GenerationConfig(
    head="decoder",
    label_smoothing=0.1,
    beams=4,
    length_penalty=0.6,
    training=TrainingConfig(
        lr=1e-3,
        schedule="noam",
        warmup=0.1,
        betas=(0.9, 0.98),
        eps=1e-9,
        weight_decay=0.0,
        batch_size=128,
        epochs=30.0,
    ),
)
