"""Which layers of encoders share their weights, and what that saves: encoders side by side as an SVG.

What enters are named configs; what leaves shows each as a tower of layers, one colour a set of weights, with the number
of its parameters counted on the encoder itself.
"""

from collections.abc import Mapping

import torch

from spanlab.encoder import Encoder, EncoderConfig
from spanlab.encoder.flops import count_cost
from spanlab.report.svg import BLUE, FAINT, GREEN, PALE, RED, YELLOW, box, picture, words

_COLOURS = (BLUE, GREEN, RED, YELLOW, "#7a4fa3", "#3a8f8f")
_WIDTH, _LAYER, _TOP, _TABLE = 250.0, 22.0, 64.0, 44.0


def draw_sharing(configs: Mapping[str, EncoderConfig]) -> str:
    """The encoders side by side, under their names."""
    highest = max(config.layers for config in configs.values())
    parts = [
        part for number, (name, config) in enumerate(configs.items()) for part in _tower(number, name, config, highest)
    ]
    return picture(
        _WIDTH * len(configs), _TOP + highest * _LAYER + _TABLE + 20, parts, title="Layers and their weights"
    )


def _tower(number: int, name: str, config: EncoderConfig, highest: int) -> list[str]:
    with torch.device("meta"):
        cost = count_cost(Encoder(config), config)
    left, floor = _WIDTH * number + 24, _TOP + highest * _LAYER
    parts = [
        words(left, 24, name, size=15),
        words(left, 44, f"{cost.total / 1e6:,.1f} M parameters", size=12, colour=FAINT),
        *_layers(left, floor, config),
        box(left, floor + 4, _WIDTH - 48, _TABLE - 8, fill=PALE),
    ]
    projected = "" if config.table_width == config.width else f" → {config.width}"
    told = f"{config.vocab_size:,} × {config.table_width}{projected}"
    return [*parts, words(left + (_WIDTH - 48) / 2, floor + 27, told, size=12, anchor="middle")]


def _layers(left: float, floor: float, config: EncoderConfig) -> list[str]:
    parts = []
    for layer in range(config.layers):
        group = layer * config.groups // config.layers
        y = floor - (layer + 1) * _LAYER
        parts.append(box(left, y, _WIDTH - 48, _LAYER - 3, fill=_COLOURS[group % len(_COLOURS)]))
        told = f"layer {layer + 1}: weights {group + 1}"
        parts.append(words(left + 10, y + 14, told, size=11, colour="#ffffff"))
    return parts
