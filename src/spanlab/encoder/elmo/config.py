"""The shape of an ELMo: characters, convolutions, LSTM layers; and its ladder of sizes."""

from dataclasses import dataclass, replace
from typing import Any

from spanlab.encoder.config import EncoderConfig
from spanlab.errors import ConfigError, did_you_mean

PUBLISHED_FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))


@dataclass(frozen=True, kw_only=True)
class ElmoConfig:
    """Everything that decides which tensors an ELMo holds and what it computes with them; published by default."""

    vocab_size: int = 793471
    max_characters: int = 50
    """Characters of a word, its begin and end marks included; longer words are cut."""
    character_width: int = 16
    filters: tuple[tuple[int, int], ...] = PUBLISHED_FILTERS
    """Widths of convolutions in characters, and how many filters each has."""
    highways: int = 2
    layers: int = 2
    cells: int = 4096
    """LSTM cells of a layer in each direction."""
    projection: int = 512
    """P, what each direction hands on; hidden states hold both side by side, so they are twice as wide."""
    clip: float | None = 3.0
    """The bound on cells and projections; null for none."""
    dropout: float = 0.1
    max_positions: int = 512
    """How long the windows are that tasks cut long texts into; the network itself sets no limit."""

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

    def face(self) -> EncoderConfig:
        """What tasks and objectives ask of any encoder's config."""
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


ELMO_SIZES: dict[str, tuple[int, int]] = {
    "tiny": (64, 8),
    "mini": (128, 4),
    "small": (256, 2),
    "base": (512, 1),
    "large": (1024, 1),
}
"""The projection of each size, and what the published numbers of filters are divided by; cells are eight times the
projection, and there are two layers. mini, small and base have the LSTMs published as small, medium and original."""


def elmo_preset(size: str = "base", **changes: Any) -> ElmoConfig:  # noqa: ANN401 (fields of ElmoConfig)
    """The config of a named size, with `changes` to single fields."""
    if size not in ELMO_SIZES:
        raise ConfigError(f"unknown size '{size}'{did_you_mean(size, ELMO_SIZES)}; known are {', '.join(ELMO_SIZES)}")
    projection, divisor = ELMO_SIZES[size]
    filters = tuple((span, count // divisor) for span, count in PUBLISHED_FILTERS)
    return ElmoConfig(**{"projection": projection, "cells": 8 * projection, "filters": filters, **changes})
