"""The learning rate of every step, as a share of `lr`: a pure function, so a resumed run needs no state for it.

Two clocks. The warm-up counts the step itself: of W warm-up steps the first has 1 / W and the last has 1, so that no
update is spent on a rate of zero. The decay counts the steps before it: the first step after the warm-up has 1, and
`final_lr` is what a step after the last would have, so a decay to zero does not waste the last update either. In terms
of `transformers` schedules, which begin with a step at rate zero, step s is their s + 1 while the rate rises and
their s once it falls.

`noam`, of Vaswani et al. 2017, is min(s / W, (W / s)^0.5) with s counted from 1: their rate is this with an `lr` of
(width · W)^-0.5.
"""

import math

from spanlab.training.config import TrainingConfig


def learning_rate_factor(step: int, total: int, config: TrainingConfig) -> float:
    """The factor on `lr` in step `step` (from 0) of `total`."""
    warmup = round(config.warmup if config.warmup >= 1 else config.warmup * total)
    if step < warmup:
        return (step + 1) / warmup
    remaining = _remaining(step, total, warmup, config)
    return config.final_lr + (1 - config.final_lr) * remaining


def _remaining(step: int, total: int, warmup: int, config: TrainingConfig) -> float:
    """The schedule after the warm-up, falling from 1 to 0."""
    if config.schedule == "constant":
        return 1.0
    if config.schedule == "noam":
        return math.sqrt(max(1, warmup) / (step + 1))
    if config.schedule == "warmup-stable-decay":
        start = max(warmup, total - round(config.decay_share * total))
        return 1 - _progress(step, start, total)
    progress = _progress(step, 0 if config.decay_from_start else warmup, total)
    if config.schedule == "cosine":
        return (1 + math.cos(math.pi * progress)) / 2
    return math.pow(1 - progress, config.power if config.schedule == "polynomial" else 1.0)


def _progress(step: int, start: int, total: int) -> float:
    """The share of the steps from `start` to `total` that are done before this one."""
    return min(1.0, max(0, step - start) / max(1, total - start))
