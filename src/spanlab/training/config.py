"""The `training` section of a recipe or a fine-tuning config."""

import math
from dataclasses import dataclass, field
from typing import Annotated, Literal

from spanlab.config import Above, AtLeast, AtMost, Below, Bounded
from spanlab.errors import ConfigError

Precision = Literal["auto", "fp32", "bf16", "fp16", "fp64"]
InferencePrecision = Literal["auto", "fp32", "bf16", "int8", "fp16", "fp64"]
"""Of a model that predicts; training has no int8."""
Device = Literal["auto", "cpu", "cuda", "mps"]
ScheduleName = Literal["linear", "cosine", "constant", "warmup-stable-decay", "polynomial", "noam"]
_Beta = Annotated[float, AtLeast(0), Below(1)]


@dataclass(frozen=True, kw_only=True)
class TrainingConfig(Bounded):
    """Length, optimiser, schedule, precision, evaluation and checkpoints of a run."""

    steps: Annotated[int, AtLeast(1), AtMost(1_000_000_000)] | None = None
    """Optimiser steps; None: by `epochs`."""
    epochs: Annotated[float, Above(0), AtMost(1_000_000)] | None = None
    """Passes over the training samples; one of `steps` and `epochs` must be given."""
    batch_size: Annotated[int, AtLeast(1), AtMost(1_000_000)] = 32
    """Samples a step, over all processes and micro-batches."""
    accumulate: Annotated[int, AtLeast(1), AtMost(1_000_000)] = 1
    """Micro-batches a step on each process (gradient accumulation); memory is that of one."""
    batch_warmup: Annotated[float, AtLeast(0), AtMost(1)] = 0.0
    """The share of steps over which the batch grows linearly to its size."""

    optimiser: Literal["adamw", "lamb", "adagrad"] = "adamw"
    """AdamW; LAMB, for very large batches (ALBERT); Adagrad (ELMo)."""
    lr: Annotated[float, Above(0), AtMost(1000)] = 1e-4
    """The highest learning rate, after the warm-up."""
    betas: tuple[_Beta, _Beta] = (0.9, 0.999)
    """Decay of the means of gradients and of their squares."""
    eps: Annotated[float, Above(0), AtMost(1)] = 1e-8
    """The number added to the root of the squares' mean."""
    bias_correction: bool = True
    """False is BERT's own Adam."""
    weight_decay: Annotated[float, AtLeast(0), AtMost(1000)] = 0.01
    """Decoupled weight decay: the share of a weight, times the learning rate, that each step takes off."""
    decay_norms_and_biases: bool = False
    """Whether norms and biases decay, too."""
    lr_factors: dict[str, Annotated[float, AtLeast(0), AtMost(1_000_000)]] = field(default_factory=dict)
    """Factors on the learning rate by prefix of the parameter name, such as {"objectives": 10}."""
    layer_decay: Annotated[float, Above(0), AtMost(1)] = 1.0
    """The learning rate of a layer is that of the layer above times this; embeddings count as the lowest layer."""
    clip: Annotated[float, AtLeast(0)] = 1.0
    """Maximum norm of the gradient; 0: no clipping."""

    schedule: ScheduleName = "linear"
    """How the learning rate falls after the warm-up; noam: with the inverse square root of the step."""
    warmup: Annotated[float, AtLeast(0)] = 0.1
    """Steps over which the learning rate rises; below 1, the share of all steps."""
    final_lr: Annotated[float, AtLeast(0), AtMost(1)] = 0.0
    """The final learning rate, as a share of `lr`."""
    power: Annotated[float, AtLeast(0), AtMost(100)] = 1.0
    """schedule=polynomial: the exponent."""
    decay_share: Annotated[float, AtLeast(0), AtMost(1)] = 0.1
    """schedule=warmup-stable-decay: the share of steps at the end over which the learning rate falls."""
    decay_from_start: bool = False
    """The decay is counted from step 0 instead of the end of the warm-up, as in BERT's own code."""

    precision: Precision = "auto"
    """auto: bf16 where it is faster than fp32."""
    device: Device = "auto"
    """auto: a GPU where there is one."""
    threads: Annotated[int, AtLeast(0), AtMost(4096)] = 0
    """CPU threads of each process; 0: torch's choice, and a resumed run keeps the number it started with."""
    parallel: Literal["ddp", "fsdp"] = "ddp"
    """With several processes: a replica of the model each (DDP), or a shard (FSDP2)."""
    compile: bool = False
    """torch.compile the model: a minute at the start, faster steps on a GPU."""
    ema: Annotated[float, AtLeast(0), AtMost(1)] = 0.0
    """Decay of a moving average of the weights, which is evaluated and exported in their place; 0: off."""

    eval_every: Annotated[int, AtLeast(0)] = 0
    """Steps between evaluations; 0: twenty in the run, or as many as take a fifth of its time. A run with held-out
    data always ends with one."""
    save_every: Annotated[int, AtLeast(0)] = 0
    """Steps between checkpoints; 0: as `eval_every`, or twenty in the run."""
    keep: Annotated[int, AtLeast(1)] = 2
    """Checkpoints kept; older ones are removed."""
    time_limit: Annotated[float, Above(0)] | None = None
    """Minutes after which the run writes a checkpoint and ends, to be resumed."""
    patience: Annotated[int, AtLeast(1)] | None = None
    """Evaluations without improvement after which the run ends; None: never."""
    spike_factor: Annotated[float, Above(0)] = 3.0
    """A loss above this many times its recent mean is reported."""
    track: tuple[Literal["tensorboard", "wandb", "mlflow", "trackio"], ...] = ()
    """Trackers in addition to metrics.jsonl."""

    def total_steps(self, steps_per_epoch: float) -> int:
        """The number of steps of the run."""
        if self.steps is not None:
            return self.steps
        if self.epochs is None:
            raise ConfigError("neither training.steps nor training.epochs is given", fix="give one of them")
        return max(1, math.ceil(self.epochs * steps_per_epoch - 1e-9))
