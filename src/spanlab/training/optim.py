"""Optimisers and parameter groups by the training config.

The state of every optimiser is tensors by parameter (`exp_avg`, `exp_avg_sq` and `step`; Adagrad `sum` and `step`) and
nothing else, so it can be saved to safetensors by parameter name and restored exactly.
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
ADAGRAD_INITIAL_SUM = 1.0
"""Initial value of Adagrad's sums of squares, as in ELMo's training."""
_EMBEDDINGS = {"embeddings", "embeddings_project", "word_embedding", "wte", "wpe"}


def parameter_groups(module: nn.Module, config: TrainingConfig) -> list[dict[str, Any]]:
    """The trainable parameters of `module`, each once, in groups for a torch optimiser.

    A group has `params` and, in the same order, their `names`; `lr_factor`; `weight_decay`; and `norm_or_bias`, which
    marks the parameters without weight decay and without LAMB's trust ratio.
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
    """The distance of each parameter from the top of its stack of layers, for layer-wise learning rate decay."""

    def __init__(self, names: Iterable[str]) -> None:
        self.heights: dict[str, int] = {}
        """Layers of each stack, by the prefix of its parameter names before `layers.`; ELECTRA has two stacks."""
        for name in names:
            if match := _LAYER.match(name):
                stack, index = match["stack"], int(match["index"])
                self.heights[stack] = max(self.heights.get(stack, 0), index + 1)

    def below_top(self, name: str) -> int:
        """0 above the layers, 1 for the last layer, the number of layers plus 1 for the embeddings."""
        if match := _LAYER.match(name):
            return self.heights[match["stack"]] - int(match["index"])
        parts = name.split(".")
        for stack, height in self.heights.items():
            if name.startswith(f"{stack}projection."):  # from embedding size to hidden size
                return height + 1
        if self.heights and not _EMBEDDINGS.isdisjoint(parts):
            nearest = max(self.heights, key=lambda stack: _common_prefix(stack.split("."), parts))
            return self.heights[nearest] + 1
        return 0


def _common_prefix(first: list[str], second: list[str]) -> int:
    """The length of the common prefix."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False)))


def _prefix_factor(name: str, factors: dict[str, float]) -> float:
    """The factor of the longest matching prefix, in whole components: `layers.1` does not match `layers.11.weight`."""
    matching = [prefix for prefix in factors if name == prefix or name.startswith(f"{prefix}.")]
    return factors[max(matching, key=len)] if matching else 1.0


def _require_matches(factors: dict[str, float], names: list[str]) -> None:
    parts = [name.split(".") for name in names]
    prefixes = {".".join(name[:n]) for name in parts for n in range(1, len(name) + 1)}
    for prefix in factors:
        if prefix not in prefixes:
            hint = did_you_mean(prefix, sorted(prefixes))
            raise ConfigError(
                f"lr_factors has '{prefix}', which is not a prefix of any parameter name{hint}",
                fix=f"names start with {', '.join(dict.fromkeys(name[0] for name in parts))}",
            )


def build_optimiser(module: nn.Module, config: TrainingConfig) -> Optimizer:
    """AdamW, BERT's Adam, LAMB or Adagrad on the trainable parameters of `module`."""
    groups = parameter_groups(module, config)
    optimiser: Optimizer
    if config.optimiser == "lamb":
        optimiser = Lamb(
            groups, lr=config.lr, betas=config.betas, eps=config.eps, bias_correction=config.bias_correction
        )
    elif config.optimiser == "adagrad":
        optimiser = Adagrad(groups, lr=config.lr, eps=config.eps, initial_accumulator_value=ADAGRAD_INITIAL_SUM)
    else:
        adam = AdamW if config.bias_correction else UncorrectedAdamW
        optimiser = adam(groups, lr=config.lr, betas=config.betas, eps=config.eps, fused=True)
    set_learning_rate(optimiser, config.lr)
    return optimiser


def set_learning_rate(optimiser: Optimizer, lr: float) -> None:
    """Give every group `lr` times its `lr_factor`."""
    for group in optimiser.param_groups:
        group["lr"] = lr * group["lr_factor"]


class UncorrectedAdamW(AdamW):
    """The Adam of BERT's own code: decoupled weight decay and no bias correction.

    Without the correction the first updates are about three times as large, which BERT's warm-up is tuned to. The
    correction divides by 1 - β^step; at an infinite step that is exactly 1, so torch's fused kernel can be used.
    """

    def __init__(
        self, groups: list[dict[str, Any]], *, lr: float, betas: tuple[float, float], eps: float, fused: Literal[True]
    ) -> None:
        super().__init__(groups, lr=lr, betas=betas, eps=eps, fused=fused)
        for weight in (weight for group in self.param_groups for weight in group["params"]):
            # Without state, AdamW would start with a step of 0.
            self.state[weight] = {
                "step": torch.tensor(math.inf, dtype=torch.float32, device=weight.device),
                "exp_avg": torch.zeros_like(weight),
                "exp_avg_sq": torch.zeros_like(weight),
            }
