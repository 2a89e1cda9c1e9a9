"""The memory that a recipe needs at the least, by arithmetic, so that an impossible run is refused before it is built.

The estimate is a lower bound: weights, gradients and the optimiser's two moments in 32 bits, and of each layer the one
hidden state that even gradient checkpointing keeps. What it refuses could not have run.
"""

from spanlab.encoder import ElmoConfig, EncoderConfig
from spanlab.errors import ConfigError
from spanlab.machine import memory_gb
from spanlab.pretraining.recipe import Recipe

_STATE_BYTES = 16  # of a parameter: its weight, its gradient, two moments
_VALUE_BYTES = 2  # of a hidden state in bf16
_TOKEN_BYTES = 24  # of an input token: its id, its positions in corpus and block


def check_memory(recipe: Recipe, config: EncoderConfig | ElmoConfig) -> None:
    """Raise if training a new encoder of this config cannot fit this machine's memory."""
    from torch import distributed

    processes = distributed.get_world_size() if distributed.is_initialized() else 1
    refuse_too_large(recipe, config, _device_memory_gb(recipe), processes=processes)


def refuse_too_large(
    recipe: Recipe, config: EncoderConfig | ElmoConfig, available: float | None, *, processes: int = 1
) -> None:
    """Raise if training a new encoder of this config needs more than `available` GB; None: not known."""
    sharded = processes if recipe.training.parallel == "fsdp" else 1
    state = parameters(config) * _STATE_BYTES / sharded / 1e9
    tokens = recipe.training.batch_size * recipe.data.longest / recipe.training.accumulate / processes
    batch = tokens * (_TOKEN_BYTES + _VALUE_BYTES * config.width * config.layers) / 1e9
    if available is not None and state + batch > available:
        parts = f"{_gb(state)} for {parameters(config):,} parameters, {_gb(batch)} for a batch"
        cause = f"training needs at least {_gb(state + batch)} of memory ({parts}), and there are {_gb(available)}"
        smaller_batch = "raise training.accumulate, or lower training.batch_size or data.length"
        raise ConfigError(
            cause, fix="lower size, encoder.width or encoder.layers" if state > available else smaller_batch
        )


def parameters(config: EncoderConfig | ElmoConfig) -> int:
    """The parameters of an encoder without norms, biases and heads."""
    if isinstance(config, ElmoConfig):
        filters = sum(count for _, count in config.filters)
        cells = 2 * config.layers * 9 * config.cells * config.projection
        return cells + config.vocab_size * config.projection + filters * config.projection
    tables = (config.vocab_size + (config.max_positions if config.positions == "learned" else 0)) * config.table_width
    block = 4 * config.width**2 + (3 if config.feed_forward == "glu" else 2) * config.width * config.inner_width
    return tables + config.groups * config.inner_layers * block


def _device_memory_gb(recipe: Recipe) -> float | None:
    """The memory of the device that trains; None where it is not known."""
    import torch

    if recipe.training.device in {"auto", "cuda"} and torch.cuda.is_available():
        return float(torch.cuda.get_device_properties(0).total_memory) / 1e9
    return memory_gb()[0]


def _gb(amount: float) -> str:
    return f"{amount / 1000:,.1f} TB" if amount >= 1000 else f"{amount:.3g} GB"
