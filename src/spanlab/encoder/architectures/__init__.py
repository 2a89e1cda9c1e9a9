"""The architectures, one file each, and what is built from their table: presets and encoders.

A new architecture is a file that fills in an `Architecture`, a row in `ARCHITECTURES`, and whatever it computes that no
other does.
"""

from typing import TYPE_CHECKING, Any

from spanlab.encoder.architectures.albert import ALBERT
from spanlab.encoder.architectures.base import TASK_HEADS, Architecture, HuggingFaceLayout, WeightRule
from spanlab.encoder.architectures.bert import BERT
from spanlab.encoder.architectures.electra import ELECTRA
from spanlab.encoder.architectures.elmo import ELMO, ELMO_SIZES, elmo_preset
from spanlab.encoder.architectures.gpt import GPT2, OPENAI_GPT
from spanlab.encoder.architectures.modernbert import MODERNBERT
from spanlab.encoder.architectures.roberta import ROBERTA
from spanlab.encoder.architectures.transformer import TRANSFORMER
from spanlab.encoder.architectures.xlnet import XLNET
from spanlab.encoder.config import SIZES, EncoderConfig
from spanlab.encoder.elmo.config import ElmoConfig
from spanlab.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from spanlab.encoder.model import Encoder

__all__ = [
    "ARCHITECTURES",
    "ELMO_SIZES",
    "SYSTEMS",
    "TASK_HEADS",
    "Architecture",
    "HuggingFaceLayout",
    "WeightRule",
    "architecture_of",
    "build_encoder",
    "elmo_preset",
    "preset",
]

ARCHITECTURES: dict[str, Architecture] = {
    architecture.name: architecture
    for architecture in (BERT, ROBERTA, ALBERT, ELECTRA, MODERNBERT, OPENAI_GPT, GPT2, TRANSFORMER, XLNET, ELMO)
}

SYSTEMS: dict[str, dict[str, Any]] = {
    system: {"architecture": architecture.name, **settings}
    for architecture in ARCHITECTURES.values()
    for system, settings in architecture.presets.items()
}
"""By name: the published settings of each system beside its size."""


def preset(system: str, size: str = "base", **changes: Any) -> EncoderConfig:  # noqa: ANN401 (fields of EncoderConfig)
    """The config of a named system at a named size, with `changes` to single fields."""
    if system not in SYSTEMS:
        raise ConfigError(f"unknown system '{system}'{did_you_mean(system, SYSTEMS)}; known are {', '.join(SYSTEMS)}")
    if size not in SIZES:
        raise ConfigError(f"unknown size '{size}'{did_you_mean(size, SIZES)}; known are {', '.join(SIZES)}")
    layers, width = SIZES[size]
    settings = SYSTEMS[system]
    gated = settings.get("feed_forward") == "glu"  # three matrices instead of two, for about as many parameters
    inner_width = -(-8 * width // 3 // 64) * 64 if gated else 4 * width
    shape = {"layers": layers, "width": width, "heads": width // 64, "inner_width": inner_width}
    published = ARCHITECTURES[settings["architecture"]].sizes.get(size, {})
    return EncoderConfig(**{**shape, **settings, **published, **changes})


def architecture_of(config: EncoderConfig | ElmoConfig) -> Architecture:
    """The architecture that a config names."""
    name = config.architecture
    if name not in ARCHITECTURES:
        known = ", ".join(ARCHITECTURES)
        raise ConfigError(f"unknown architecture '{name}'{did_you_mean(name, ARCHITECTURES)}; known are {known}")
    return ARCHITECTURES[name]


def build_encoder(config: EncoderConfig | ElmoConfig) -> "Encoder":
    """A new encoder of any architecture, with random weights."""
    return architecture_of(config).build(config)
