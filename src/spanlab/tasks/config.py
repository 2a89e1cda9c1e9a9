"""What every fine-tuning run can be told: the sections `data`, `tuning` and `training`, and a seed.

A task's Config is this with the task's own keys beside the sections (`multi_label`, `head`, …) and its published
defaults in them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from spanlab.errors import ConfigError
from spanlab.training.config import TrainingConfig

LongText = Literal["windows", "truncate", "error"]


@dataclass(frozen=True, kw_only=True)
class TaskDataConfig:
    """The `data` section: how files are read and how text becomes sequences."""

    columns: tuple[str, ...] = ()
    """Which column of a table is which field: `review:text` by its header; without one, and for `word` and `tag` in a
    column file, all from the left, where `_` skips one."""
    length: int = 512
    """Tokens of a sequence, special ones included; a model with fewer positions takes what it can."""
    stride: int | None = None
    """Tokens from the start of a window to the start of the next; None: half of what a window has room for."""
    long_text: LongText = "windows"
    """What happens to text beyond `length`: windows over all of it, cut off, or refused."""
    bad_rows: Literal["refuse", "drop"] = "refuse"
    """Examples with a problem: stop at the first, or leave them out and count them."""
    batch_tokens: int = 4096
    """The most tokens computed at once: larger batches are cut into micro-batches, with the same result. A CPU is no
    faster with more, and attention's memory grows with it: 32 windows of 384 at once are 7 GB in a small model."""
    group_by_length: bool = True
    """Draw the samples of a step from those of similar length."""

    def __post_init__(self) -> None:
        if self.length < 8:
            raise ConfigError(f"'length' is {self.length}; it must be at least 8")
        if self.stride is not None and self.stride < 1:
            raise ConfigError(f"'stride' is {self.stride}; it must be at least 1")
        if self.batch_tokens < 1:
            raise ConfigError(f"'batch_tokens' is {self.batch_tokens}; it must be at least 1")


@dataclass(frozen=True, kw_only=True)
class TuningConfig:
    """The `tuning` section: which weights learn, and from what besides the given examples."""

    freeze: int = 0
    """How many layers, from the lowest, stay as they are, with the embeddings; 0: everything learns."""
    lora: int = 0
    """The rank of low-rank adapters that learn in place of the encoder's matrices; 0: none. Merged on saving."""
    lora_alpha: float = 16.0
    """The adapters' change is scaled by this over the rank."""
    augment: int = 0
    """Copies of each training sample with some words masked and refilled by the model's own MLM head."""
    augment_share: float = 0.15
    """The share of words refilled."""

    def __post_init__(self) -> None:
        for name in ("freeze", "lora", "augment"):
            if getattr(self, name) < 0:
                raise ConfigError(f"'{name}' is {getattr(self, name)}; it must not be negative")
        if not 0 < self.augment_share < 1:
            raise ConfigError(f"'augment_share' is {self.augment_share}; it must lie between 0 and 1")


@dataclass(frozen=True, kw_only=True)
class TaskConfig:
    """What all tasks share; the defaults are those of GLUE in SpanBERT's paper."""

    seed: int = 0
    data: TaskDataConfig = field(default_factory=TaskDataConfig)
    tuning: TuningConfig = field(default_factory=TuningConfig)
    training: TrainingConfig = field(default_factory=lambda: TrainingConfig(lr=2e-5, batch_size=32, epochs=10.0))

    @classmethod
    def base(cls, changes: Mapping[str, Any]) -> "TaskConfig":
        """The settings that a user's changes are laid over: the published ones, or a preset that the changes name."""
        return cls()
