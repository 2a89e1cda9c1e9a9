"""ELMo (Peters et al. 2018): its sizes. It has a config class of its own, and transformers has no class for it."""

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from spanlab.encoder.architectures.base import Architecture
from spanlab.encoder.elmo.config import PUBLISHED_FILTERS, ElmoConfig
from spanlab.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from spanlab.encoder.model import Encoder

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


def _build(config: ElmoConfig) -> "Encoder":
    from spanlab.encoder.elmo.model import ElmoEncoder

    return ElmoEncoder(config)


ELMO = Architecture(name="elmo", presets={}, build=_build, settings=tuple(field.name for field in fields(ElmoConfig)))
