"""The `training` section of a recipe or a fine-tuning config: everything the loop can be told."""

from dataclasses import dataclass, field
from typing import Literal

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

    optimiser: Literal["adamw", "lamb"] = "adamw"
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
    """CPU threads of each process; 0 leaves it to torch."""
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
        for name in ("batch_size", "accumulate", "keep"):
            if getattr(self, name) < 1:
                raise ConfigError(f"'{name}' is {getattr(self, name)}; it must be at least 1")
        for name in ("lr", "eps"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"'{name}' is {getattr(self, name)}; it must be above 0")
        for name in ("weight_decay", "clip", "warmup", "eval_every", "save_every", "threads"):
            if getattr(self, name) < 0:
                raise ConfigError(f"'{name}' is {getattr(self, name)}; it must not be negative")
        for name in ("final_lr", "decay_share", "ema", "batch_warmup"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"'{name}' is {getattr(self, name)}; it must lie between 0 and 1")
        if self.steps is not None and self.steps < 1:
            raise ConfigError(f"'steps' is {self.steps}; it must be at least 1")
        if self.epochs is not None and not self.epochs > 0:
            raise ConfigError(f"'epochs' is {self.epochs}; it must be above 0")
        if not 0 < self.layer_decay <= 1:
            raise ConfigError(f"'layer_decay' is {self.layer_decay}; it must be above 0 and at most 1")
        if not all(0 <= beta < 1 for beta in self.betas):
            raise ConfigError(f"'betas' are {self.betas}; each must be at least 0 and below 1")
