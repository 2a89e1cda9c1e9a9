"""The optimiser of a run, by its config.

Every optimiser keeps tensors for each parameter (`exp_avg`, `exp_avg_sq` and `step`; Adagrad `sum` and `step`) and
nothing else: state that can be written to safetensors by parameter name and read back to the bit.
"""

import math
import re
from collections.abc import Iterable
from itertools import takewhile
from typing import Any, Literal

import torch
from torch import nn
from torch.optim import Adagrad, AdamW, Optimizer

from spanlab.errors import ConfigError, did_you_mean
from spanlab.training.config import TrainingConfig
from spanlab.training.lamb import Lamb

_LAYER = re.compile(r"^(?P<stack>(?:.*\.)??)(?:layers?|h)\.(?P<index>\d+)\.")
_EMBEDDINGS = {"embeddings", "embeddings_project", "word_embedding", "wte", "wpe"}


def parameter_groups(module: nn.Module, config: TrainingConfig) -> list[dict[str, Any]]:
    """The trainable parameters of `module`, each once, in groups for a torch optimiser.

    A group holds `params` and, in the same order, their `names`; `lr_factor`; `weight_decay`; and `norm_or_bias`,
    whether these are the parameters that optimisers leave out of decay and of layer-wise adaptation.
    """
    names = [name for name, _ in module.named_parameters()]
    _require_matches(config.lr_factors, names)
    depths = _Depths(names)
    norms = [part for part in module.modules() if isinstance(part, nn.LayerNorm | nn.RMSNorm)]
    in_norms = {id(parameter) for norm in norms for parameter in norm.parameters()}
    groups: dict[tuple[float, bool], dict[str, Any]] = {}
    for name, parameter in module.named_parameters():
        if not parameter.requires_grad:
            continue
        norm_or_bias = id(parameter) in in_norms or parameter.ndim <= 1 or name.endswith("bias")
        factor = _prefix_factor(name, config.lr_factors) * config.layer_decay ** depths.below_top(name)
        group = groups.setdefault((factor, norm_or_bias), {"params": [], "names": []})
        group["params"].append(parameter)
        group["names"].append(name)
    for (factor, norm_or_bias), group in groups.items():
        decays = config.decay_norms_and_biases or not norm_or_bias
        group |= {
            "lr_factor": factor,
            "weight_decay": config.weight_decay if decays else 0.0,
            "norm_or_bias": norm_or_bias,
        }
    return list(groups.values())


class _Depths:
    """How far below the top of its stack of layers each parameter lies."""

    def __init__(self, names: Iterable[str]) -> None:
        self.heights: dict[str, int] = {}
        """Layers of each stack, by what its parameters' names have before `layers.`: ELECTRA has two stacks."""
        for name in names:
            if match := _LAYER.match(name):
                stack, index = match["stack"], int(match["index"])
                self.heights[stack] = max(self.heights.get(stack, 0), index + 1)

    def below_top(self, name: str) -> int:
        """0 for what lies above the layers, 1 for the last layer, one more than the layers for the embeddings."""
        if match := _LAYER.match(name):
            return self.heights[match["stack"]] - int(match["index"])
        parts = name.split(".")
        beside = [stack for stack in self.heights if name.startswith(f"{stack}projection.")]
        if beside:  # from the width of the tables to that of the layers
            return self.heights[beside[0]] + 1
        if self.heights and not _EMBEDDINGS.isdisjoint(parts):
            nearest = max(self.heights, key=lambda stack: _shared(stack.split("."), parts))
            return self.heights[nearest] + 1
        return 0


def _shared(one: list[str], other: list[str]) -> int:
    """With how many equal parts the two begin."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _prefix_factor(name: str, factors: dict[str, float]) -> float:
    matching = [prefix for prefix in factors if _begins(name, prefix)]
    return factors[max(matching, key=len)] if matching else 1.0


def _begins(name: str, prefix: str) -> bool:
    """Whether the name begins with these parts: `layers.1` is no beginning of `layers.11.weight`."""
    return name == prefix or name.startswith(f"{prefix}.")


def _require_matches(factors: dict[str, float], names: list[str]) -> None:
    parts = [name.split(".") for name in names]
    beginnings = {".".join(name[:n]) for name in parts for n in range(1, len(name) + 1)}
    for prefix in factors:
        if prefix not in beginnings:
            hint = did_you_mean(prefix, sorted(beginnings))
            raise ConfigError(
                f"lr_factors has '{prefix}', and no parameter's name begins so{hint}",
                fix=f"names begin with {', '.join(dict.fromkeys(name[0] for name in parts))}",
            )


ADAGRAD_BEGINS_AT = 1.0
"""What Adagrad's sums of squares begin with: as ELMo was trained."""


def build_optimiser(module: nn.Module, config: TrainingConfig) -> Optimizer:
    """AdamW, BERT's Adam, LAMB or Adagrad on the trainable parameters of `module`; each group knows its `lr_factor`."""
    groups = parameter_groups(module, config)
    optimiser: Optimizer
    if config.optimiser == "lamb":
        optimiser = Lamb(
            groups, lr=config.lr, betas=config.betas, eps=config.eps, bias_correction=config.bias_correction
        )
    elif config.optimiser == "adagrad":
        optimiser = Adagrad(groups, lr=config.lr, eps=config.eps, initial_accumulator_value=ADAGRAD_BEGINS_AT)
    else:
        kind = AdamW if config.bias_correction else UncorrectedAdamW
        optimiser = kind(groups, lr=config.lr, betas=config.betas, eps=config.eps, fused=True)
    set_learning_rate(optimiser, config.lr)
    return optimiser


def set_learning_rate(optimiser: Optimizer, lr: float) -> None:
    """Give every group `lr` times its `lr_factor`."""
    for group in optimiser.param_groups:
        group["lr"] = lr * group["lr_factor"]


class UncorrectedAdamW(AdamW):
    """The Adam of BERT's own code: decoupled decay, and moments that are not corrected for beginning at zero.

    Without the correction the first updates are about three times as large, which BERT's warm-up is tuned to. The
    correction divides by 1 - β^step; at an infinite step that is exactly 1, so torch's fused kernel does the work.
    """

    def __init__(
        self, groups: list[dict[str, Any]], *, lr: float, betas: tuple[float, float], eps: float, fused: Literal[True]
    ) -> None:
        super().__init__(groups, lr=lr, betas=betas, eps=eps, fused=fused)
        for weight in (weight for group in self.param_groups for weight in group["params"]):
            # Where it finds no state, AdamW begins with a step of 0.
            self.state[weight] = {
                "step": torch.tensor(math.inf, dtype=torch.float32, device=weight.device),
                "exp_avg": torch.zeros_like(weight),
                "exp_avg_sq": torch.zeros_like(weight),
            }
