"""The `training` section of a recipe or a fine-tuning config: everything the loop can be told."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from spanlab.errors import ConfigError

Precision = Literal["auto", "fp32", "bf16", "fp16", "fp64"]
Device = Literal["auto", "cpu", "cuda", "mps"]
ScheduleName = Literal["linear", "cosine", "constant", "warmup-stable-decay", "polynomial"]


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """How long, how fast and with what a model is trained."""

    steps: int | None = None
    """Optimiser steps; None takes `epochs`."""
    epochs: float | None = None
    """Passes over the training samples; one of `steps` and `epochs` must be given."""
    batch_size: int = 32
    """Samples a step, over all processes and micro-batches."""
    accumulate: int = 1
    """Micro-batches a step on each process: their gradients add up, and memory is that of one."""
    batch_warmup: float = 0.0
    """The share of steps over which the batch grows linearly to its size."""

    optimiser: Literal["adamw", "lamb", "adagrad"] = "adamw"
    lr: float = 1e-4
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    bias_correction: bool = True
    """False is BERT's own Adam."""
    weight_decay: float = 0.01
    decay_norms_and_biases: bool = False
    lr_factors: dict[str, float] = field(default_factory=dict)
    """A factor on the learning rate for parameters whose name begins so, such as {"objectives": 10}."""
    layer_decay: float = 1.0
    """The learning rate of each layer is that of the next one times this; embeddings count as the lowest."""
    clip: float = 1.0
    """The largest norm of the whole gradient; 0 does not clip."""

    schedule: ScheduleName = "linear"
    warmup: float = 0.1
    """Steps over which the learning rate rises; below 1, the share of all steps."""
    final_lr: float = 0.0
    """What the schedule ends at, as a share of `lr`."""
    power: float = 1.0
    """Of the polynomial schedule."""
    decay_share: float = 0.1
    """Of the warmup-stable-decay schedule: the share of steps at the end in which the rate falls."""
    decay_from_start: bool = False
    """The decay's clock starts at step 0 instead of at the end of the warm-up, as in BERT's own code."""

    precision: Precision = "auto"
    """auto: bf16 where it is faster than fp32."""
    device: Device = "auto"
    threads: int = 0
    """CPU threads of each process; 0 leaves it to torch, and a resumed run goes on with those it was begun with."""
    parallel: Literal["ddp", "fsdp"] = "ddp"
    """How several processes share the work: a copy of the model each, or its shards (FSDP2)."""
    compile: bool = False
    """torch.compile the model: a minute at the start, faster steps on a GPU."""
    ema: float = 0.0
    """The decay of a moving average of the weights, which is then what is evaluated and exported; 0 is off."""

    eval_every: int = 0
    """Steps between evaluations; 0: twenty in the run. A run with held-out data always ends with one."""
    save_every: int = 0
    """Steps between checkpoints; 0: as often as evaluations."""
    keep: int = 2
    """Checkpoints kept; older ones are removed."""
    time_limit: float | None = None
    """Minutes after which the run saves its state and ends, to be resumed."""
    patience: int | None = None
    """Evaluations without a better score after which the run ends; None goes on to the last step."""
    spike_factor: float = 3.0
    """A loss this many times its recent mean is reported."""
    track: tuple[Literal["tensorboard", "wandb", "mlflow", "trackio"], ...] = ()
    """Trackers beside metrics.jsonl."""

    def __post_init__(self) -> None:
        self._require(("batch_size", "accumulate", "keep"), lambda value: value >= 1, "at least 1")
        self._require(("lr", "eps"), lambda value: value > 0, "above 0")
        not_negative = ("weight_decay", "clip", "warmup", "eval_every", "save_every", "threads")
        self._require(not_negative, lambda value: value >= 0, "0 or more")
        shares = ("final_lr", "decay_share", "ema", "batch_warmup")
        self._require(shares, lambda value: 0 <= value <= 1, "between 0 and 1")
        self._require(("layer_decay",), lambda value: 0 < value <= 1, "above 0 and at most 1")
        self._require(("steps", "patience"), lambda value: value is None or value >= 1, "at least 1")
        self._require(("epochs", "time_limit"), lambda value: value is None or value > 0, "above 0")
        self._require(("betas",), lambda value: all(0 <= beta < 1 for beta in value), "two numbers from 0 to below 1")

    def _require(self, names: tuple[str, ...], holds: Callable[[Any], bool], wanted: str) -> None:
        for name in names:
            if not holds(getattr(self, name)):
                raise ConfigError(f"'training.{name}' is {getattr(self, name)}; it must be {wanted}")

    def total_steps(self, steps_per_epoch: float) -> int:
        """All steps of the run."""
        if self.steps is not None:
            return self.steps
        if self.epochs is None:
            raise ConfigError("neither training.steps nor training.epochs is given", fix="give one of them")
        return max(1, math.ceil(self.epochs * steps_per_epoch - 1e-9))
