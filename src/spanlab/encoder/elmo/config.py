"""The config of an ELMo: characters, convolutions, LSTM layers."""

from dataclasses import dataclass, replace
from typing import ClassVar

from spanlab.encoder.config import EncoderConfig
from spanlab.errors import ConfigError

PUBLISHED_FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))


@dataclass(frozen=True, kw_only=True)
class ElmoConfig:
    """Everything that decides which tensors an ELMo holds and what it computes with them; published by default."""

    architecture: ClassVar[str] = "elmo"
    vocab_size: int = 793471
    max_characters: int = 50
    """Characters of a word, its begin and end marks included; longer words are truncated."""
    character_width: int = 16
    filters: tuple[tuple[int, int], ...] = PUBLISHED_FILTERS
    """Widths of convolutions in characters, and how many filters each has."""
    highways: int = 2
    layers: int = 2
    cells: int = 4096
    """LSTM cells of a layer in each direction."""
    projection: int = 512
    """P, the width of each direction; hidden states concatenate the two, so they are twice as wide."""
    clip: float | None = 3.0
    """The bound on cells and projections; null for none."""
    dropout: float = 0.1
    max_positions: int = 512
    """The length of the windows that tasks cut long texts into; the network itself sets no limit."""

    def __post_init__(self) -> None:
        for name in ("vocab_size", "character_width", "layers", "cells", "projection", "max_positions"):
            if getattr(self, name) < 1:
                raise ConfigError(f"'{name}' is {getattr(self, name)}; it must be at least 1")
        if not self.filters or any(span < 1 or count < 1 for span, count in self.filters):
            raise ConfigError("'filters' must be pairs of a width and a number, each at least 1")
        widest = max(span for span, _ in self.filters)
        if self.max_characters < max(3, widest):
            raise ConfigError(f"'max_characters' is {self.max_characters}, less than the widest filter ({widest}) or 3")
        if self.highways < 0:
            raise ConfigError(f"'highways' is {self.highways}; it must be 0 or more")
        if self.clip is not None and not self.clip > 0:
            raise ConfigError(f"'clip' is {self.clip}; it must be above 0, or null")
        if not 0.0 <= self.dropout < 1.0:
            raise ConfigError(f"'dropout' is {self.dropout}; it must be at least 0 and below 1")

    @property
    def width(self) -> int:
        """D, the width of the hidden states."""
        return 2 * self.projection

    def without_dropout(self) -> "ElmoConfig":
        """The same shape with dropout off."""
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
