"""What an encoder costs: parameters by part, memory, and arithmetic per token."""

from dataclasses import dataclass

from torch import nn

from spanlab.encoder.config import EncoderConfig
from spanlab.encoder.elmo.config import ElmoConfig
from spanlab.encoder.elmo.model import Elmo


@dataclass(frozen=True)
class Cost:
    """Counts of one encoder."""

    parameters: dict[str, int]
    """By part; shared weights are counted once."""
    total: int
    bytes_fp32: int
    flops_per_token: int
    """Multiplications and additions of a forward pass, at the longest sequence; training takes three times that."""


def count_cost(encoder: nn.Module, config: EncoderConfig, heads: dict[str, nn.Module] | None = None) -> Cost:
    """The cost of an encoder and its heads."""
    parts = {name: child for name, child in encoder.named_children() if any(True for _ in child.parameters())}
    parts |= {f"{name} head": head for name, head in (heads or {}).items() if any(True for _ in head.parameters())}
    parameters = {name: sum(p.numel() for p in part.parameters()) for name, part in parts.items()}
    total = sum(parameters.values())
    if isinstance(encoder, Elmo):
        return Cost(parameters, total, 4 * total, elmo_flops_per_token(encoder.shape))
    return Cost(parameters, total, 4 * total, flops_per_token(config, config.max_positions))


def flops_per_token(config: EncoderConfig, length: int) -> int:
    """Multiplications and additions one token costs in a forward pass over a sequence of `length` tokens."""
    up = config.inner_width * (2 if config.feed_forward == "glu" else 1)
    matrices = config.width * (4 * config.width + up + config.inner_width)
    attention = 2 * length * config.width
    projection = 0 if config.table_width == config.width else config.table_width * config.width
    return 2 * (config.layers * config.inner_layers * (matrices + attention) + projection)


def elmo_flops_per_token(shape: ElmoConfig) -> int:
    """As `flops_per_token`, of an ELMo's LSTMs; its character network runs once a distinct word and is not counted."""
    matrices = 4 * shape.cells * 2 * shape.projection + shape.cells * shape.projection
    return 2 * 2 * shape.layers * matrices
