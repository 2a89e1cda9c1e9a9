"""The settings of every fine-tuning run: the sections `data`, `tuning` and `training`, and a seed.

A task's Config is this with the task's own keys beside the sections (`multi_label`, `head`, …) and its published
defaults in them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from spanlab.config import Above, AtLeast, AtMost, Below, Bounded, Seed
from spanlab.text.tag_schemes import TagScheme
from spanlab.training.config import TrainingConfig

Pooling = Literal["first", "mean"]
"""A sequence as the state of [CLS] (of causal encoders: the last token), or as the mean over all tokens."""

PUBLISHED_WIDTH = 768
LongText = Literal["windows", "truncate", "error"]


@dataclass(frozen=True, kw_only=True)
class TaskDataConfig(Bounded):
    """The `data` section: how files are read and how text becomes sequences."""

    columns: tuple[str, ...] = ()
    """The columns of a file: `review:text` maps a column name to a field; without a header, and for `word` and `tag`
    of CoNLL columns, all columns from the left, `_` to skip one."""
    tag_scheme: Literal["auto"] | TagScheme = "auto"
    """The scheme of the tags in CoNLL columns; `auto`: told by the tags of the whole file."""
    length: Annotated[int, AtLeast(8), AtMost(1_000_000)] = 512
    """Maximum tokens of a sequence, special tokens included; at most the model's number of positions."""
    stride: Annotated[int, AtLeast(1), AtMost(1_000_000)] | None = None
    """Tokens from the start of a window to the start of the next; None: half of the window's text tokens."""
    long_text: LongText = "windows"
    """Text beyond `length`: cut into windows, truncated, or an error."""
    bad_rows: Literal["refuse", "drop"] = "refuse"
    """Examples with a problem: stop at the first, or drop and count them."""
    batch_tokens: Annotated[int, AtLeast(1), AtMost(100_000_000)] = 4096
    """Maximum tokens in memory at once: larger batches are split into micro-batches, with the same result. A CPU is
    not faster with more, and memory grows with it: 32 windows of 384 tokens take 7 GB in a small model."""
    group_by_length: bool = True
    """Draw the samples of a step from those of similar length."""
    dev_share: Annotated[float, AtLeast(0), Below(1)] = 0.0
    """The share of the training examples that is held out as dev, for a run without a dev file; drawn by the seed."""


@dataclass(frozen=True, kw_only=True)
class TuningConfig(Bounded):
    """The `tuning` section: which weights are trained, and data augmentation."""

    freeze: Annotated[int, AtLeast(0)] = 0
    """The number of lowest layers that are frozen, with the embeddings; 0: everything is trained."""
    lora: Annotated[int, AtLeast(0), AtMost(65_536)] = 0
    """The rank of LoRA adapters, trained in place of the encoder's matrices; 0: none. Merged on saving."""
    lora_alpha: Annotated[float, AtLeast(0)] = 16.0
    """The adapters' update is scaled by this over the rank."""
    augment: Annotated[int, AtLeast(0), AtMost(1000)] = 0
    """Copies of each training sample with some words masked and refilled by the model's own MLM head."""
    augment_share: Annotated[float, Above(0), Below(1)] = 0.15
    """The share of words refilled."""


@dataclass(frozen=True, kw_only=True)
class TaskAdapterConfig(Bounded):
    """Which adapters a task has; kept in `spanlab.json`."""

    lora: Annotated[int, AtLeast(0), AtMost(65_536)] = 0
    """The LoRA rank; 0: none."""
    lora_alpha: Annotated[float, AtLeast(-1e6), AtMost(1e6)] = 16.0
    pooler: bool = False
    embedding: bool = False
    """A vector that is added to every embedded token."""

    @property
    def any(self) -> bool:
        """Whether there is any adapter."""
        return bool(self.lora or self.pooler or self.embedding)


@dataclass(frozen=True, kw_only=True)
class TaskConfig(Bounded):
    """Settings of all tasks; the defaults are those of GLUE in SpanBERT's paper."""

    seed: Seed = 0
    """Of new weights, dropout, the order of samples and held-out examples."""
    data: TaskDataConfig = field(default_factory=TaskDataConfig)
    tuning: TuningConfig = field(default_factory=TuningConfig)
    training: TrainingConfig = field(default_factory=lambda: TrainingConfig(lr=2e-5, batch_size=32, epochs=10.0))

    @property
    def published_width(self) -> int:
        """The hidden size of the encoders that the published learning rate is meant for."""
        return PUBLISHED_WIDTH

    @classmethod
    def base(cls, changes: Mapping[str, Any]) -> "TaskConfig":
        """The settings that a user's changes apply to: the published ones, or a preset that the changes name."""
        return cls()
