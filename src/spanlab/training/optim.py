"""The optimiser of a run, by its config.

Every optimiser keeps tensors for each parameter (`exp_avg`, `exp_avg_sq` and `step`; Adagrad `sum` and `step`) and
nothing else: state that can be written to safetensors by parameter name and read back to the bit.
"""

import math
from typing import Any, Literal

import torch
from torch import nn
from torch.optim import Adagrad, AdamW, Optimizer

from spanlab.training.config import TrainingConfig
from spanlab.training.lamb import Lamb
from spanlab.training.parameter_groups import parameter_groups

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
