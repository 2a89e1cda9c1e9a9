"""The cost of an encoder: parameters by part, memory, and arithmetic per token."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import nn

from spanlab.encoder.config import EncoderConfig

if TYPE_CHECKING:
    from spanlab.encoder.model import Encoder


@dataclass(frozen=True)
class Cost:
    """Counts of one encoder."""

    parameters: dict[str, int]
    """By part; shared weights are counted once."""
    total: int
    bytes_fp32: int
    flops_per_token: int
    """Multiplications and additions of a forward pass, at the longest sequence; training takes three times that."""


def count_cost(encoder: "Encoder", heads: dict[str, nn.Module] | None = None) -> Cost:
    """The cost of an encoder and its heads."""
    parts = {**dict(encoder.named_children()), **{f"{name} head": head for name, head in (heads or {}).items()}}
    sizes = {name: sum(p.numel() for p in part.parameters()) for name, part in parts.items()}
    parameters = {name: size for name, size in sizes.items() if size}
    total = sum(parameters.values())
    return Cost(parameters, total, 4 * total, encoder.flops_per_token(encoder.config.max_positions))


def flops_per_token(config: EncoderConfig, length: int) -> int:
    """Multiplications and additions of one token in a Transformer's forward pass over a sequence of `length` tokens."""
    up = config.inner_width * (2 if config.feed_forward == "glu" else 1)
    matrices = config.width * (4 * config.width + up + config.inner_width)
    seen = [min(length, config.local_window or length) if config.is_local(n) else length for n in range(config.layers)]
    attention = 2 * config.width * sum(seen) * config.inner_layers
    projection = 0 if config.table_width == config.width else config.table_width * config.width
    return 2 * (config.layers * config.inner_layers * matrices + attention + projection)
