"""The config of a new encoder: a recipe and what is known of the vocabulary in, the shape of the encoder out.

It is the preset of the backbone at the recipe's size, adapted to the data, with the changes of the recipe's `encoder`
section. Nothing is built and torch is not imported, so that a recipe can be checked anywhere.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from spanlab.config import Source, from_mapping, to_mapping
from spanlab.encoder import ElmoConfig, EncoderConfig, elmo_preset, preset
from spanlab.errors import ConfigError
from spanlab.pretraining.recipe import Recipe

Shape = TypeVar("Shape", bound=EncoderConfig | ElmoConfig)


def new_encoder_config(
    recipe: Recipe, *, vocab_size: int | None = None, pad_id: int | None = None, source: Source | None = None
) -> EncoderConfig | ElmoConfig:
    """The config of the encoder that a run of the recipe starts with.

    Args:
        recipe: its backbone, size and `encoder` section count, and its samples.
        vocab_size: of the corpus's tokenizer; None: not known yet, and taken to be that of the published system.
        pad_id: the padding token of that tokenizer.
        source: the file of the `encoder` section, for errors.
    """
    known = {} if vocab_size is None else {"vocab_size": vocab_size}
    if (recipe.backbone or recipe.system) == "elmo":
        return change_config(elmo_preset(recipe.size, **known), recipe.encoder, source)
    published = preset(recipe.backbone or recipe.system, recipe.size, **known)
    fitted: dict[str, Any] = {
        "max_positions": recipe.data.longest,
        "pooler": recipe.classifies_pairs,  # nothing else trains it
    }
    if vocab_size is not None:
        fitted["pad_id"] = pad_id
    if published.positions == "relative":
        fitted |= memory_settings(recipe)
    if published.position_offset and pad_id is not None:
        fitted["position_offset"] = pad_id + 1
    config = change_config(replace(published, **fitted), recipe.encoder, source)
    if vocab_size is not None and config.vocab_size < vocab_size:
        cause = f"encoder.vocab_size is {config.vocab_size}, but the corpus's tokenizer has {vocab_size} tokens"
        raise ConfigError(cause, fix="leave encoder.vocab_size out: it follows the tokenizer")
    check_length(config, recipe.data.longest)
    return config


def memory_settings(recipe: Recipe) -> dict[str, Any]:
    """XLNet's memory, which the recipe sets with the streams."""
    return {"memory": recipe.data.memory, "reuse": recipe.data.reuse}


def change_config(config: Shape, changes: Mapping[str, Any], source: Source | None = None) -> Shape:
    """The config with changes to single fields, checked; `source` locates them in errors."""
    try:
        return from_mapping(type(config), {**to_mapping(config), **changes}, source)
    except ConfigError as error:
        cause = f"in the 'encoder' section: {error.cause}"
        raise ConfigError(cause, path=error.path, line=error.line, fix=error.fix) from None


def check_length(config: EncoderConfig, length: int) -> None:
    """Refuse samples longer than the position table."""
    if length > config.max_positions and config.positions == "learned":
        cause = f"samples of {length} tokens are longer than the model's {config.max_positions} positions"
        raise ConfigError(cause, fix=f"set data.length={config.max_positions}")
