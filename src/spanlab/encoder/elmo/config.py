"""The config of an ELMo: characters, convolutions, LSTM layers."""

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from spanlab.config import Above, AtLeast, AtMost, Below, Bounded
from spanlab.encoder.config import EncoderConfig
from spanlab.errors import ConfigError

PUBLISHED_FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))


@dataclass(frozen=True, kw_only=True)
class ElmoConfig(Bounded):
    """Everything that decides which tensors an ELMo holds and what it computes with them; published by default."""

    architecture: ClassVar[str] = "elmo"
    vocab_size: Annotated[int, AtLeast(1), AtMost(10_000_000)] = 793471
    """Words of the output; as many as the tokenizer has."""
    max_characters: Annotated[int, AtLeast(3), AtMost(10_000)] = 50
    """Characters of a word, its begin and end marks included; longer words are truncated."""
    character_width: Annotated[int, AtLeast(1), AtMost(65_536)] = 16
    """The width of the embeddings of characters."""
    filters: tuple[tuple[int, Annotated[int, AtMost(65_536)]], ...] = PUBLISHED_FILTERS
    """Widths of convolutions in characters, and how many filters each has."""
    highways: Annotated[int, AtLeast(0), AtMost(1_000)] = 2
    """Highway layers after the convolutions."""
    layers: Annotated[int, AtLeast(1), AtMost(1_000)] = 2
    """Layers of LSTMs in each direction."""
    cells: Annotated[int, AtLeast(1), AtMost(1_000_000)] = 4096
    """LSTM cells of a layer in each direction."""
    projection: Annotated[int, AtLeast(1), AtMost(32_768)] = 512
    """P, the width of each direction; hidden states concatenate the two, so they are twice as wide."""
    clip: Annotated[float, Above(0)] | None = 3.0
    """The bound on cells and projections; null for none."""
    dropout: Annotated[float, AtLeast(0), Below(1)] = 0.1
    """On the inputs and outputs of LSTMs."""
    max_positions: Annotated[int, AtLeast(1), AtMost(10_000_000)] = 512
    """The length of the windows that tasks cut long texts into; the network itself sets no limit."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.filters or any(span < 1 or count < 1 for span, count in self.filters):
            raise ConfigError("'filters' must be pairs of a width and a count, each at least 1")
        widest = max(span for span, _ in self.filters)
        if self.max_characters < widest:
            raise ConfigError(f"'max_characters' is {self.max_characters}, less than the widest filter ({widest})")

    @property
    def width(self) -> int:
        """D, the width of the hidden states."""
        return 2 * self.projection

    def without_dropout(self) -> "ElmoConfig":
        """The same config with dropout off."""
        return replace(self, dropout=0.0)

    def encoder_config(self) -> EncoderConfig:
        """The same as an `EncoderConfig`, as far as tasks and objectives read it."""
        return EncoderConfig(
            architecture="elmo",
            vocab_size=self.vocab_size,
            width=self.width,
            layers=self.layers,
            heads=1,
            inner_width=self.cells,
            embedding_width=self.projection,
            positions="none",
            max_positions=self.max_positions,
            segments=0,
            pooler=False,
            dropout=self.dropout,
            pad_id=None,
        )
