"""The plan of a quickstart: initial weights, tasks, names of outputs, hyperparameters and shares of time.

Initial weights are the rows of the resulting table, tasks its columns.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from spanlab.errors import ConfigError

if TYPE_CHECKING:
    from spanlab.pretraining.recipe import Size


MIN_BUDGET = 10.0


@dataclass(frozen=True, kw_only=True)
class QuickstartSettings:
    """Folder, text and time budget of a quickstart."""

    out: Path = Path("quickstart")
    text: tuple[str, ...] = ()
    """Plain text files to pre-train on; none: Python's language reference."""
    budget: float = 360.0
    """Approximate total seconds; time that a step does not use goes to later ones."""
    size: "Size" = "tiny"
    """Size of the pre-trained model; in minutes a larger one sees too little text to benefit."""
    vocabulary: int = 6000
    """Vocabulary size of the tokenizer."""
    steps: int | None = None
    """Training steps of every run; None: as many as fit the budget on this machine."""
    minilm: bool = True
    """Whether to include the packaged MiniLM."""

    def __post_init__(self) -> None:
        if self.budget < MIN_BUDGET:
            cause = f"a budget of {self.budget:g} s is too short"
            raise ConfigError(cause, fix=f"use at least {MIN_BUDGET:g}s, such as 6m")


TEXT, TOKENIZER, CORPUS, UNTRAINED, PRETRAINED = "text", "tokenizer", "corpus", "untrained", "pretrained"
MINILM_CORPUS, MINILM = "minilm-corpus", "minilm"
SCORES, REPORT = "scores.json", "report.html"
INITIAL_WEIGHTS = (UNTRAINED, PRETRAINED, MINILM)
TITLES: Mapping[str, str] = MappingProxyType(
    {
        UNTRAINED: "random",
        PRETRAINED: "pre-trained here",
        MINILM: "MiniLM, continued",
    }
)
EVALUATIONS = 4
"""Evaluations on dev, and checkpoints, of a run."""
LANGUAGE = "en"
"""The language of the passages; the packaged MiniLM is English."""


@dataclass(frozen=True, kw_only=True)
class QuickstartTask:
    """A task and its hyperparameters."""

    name: str
    """The folder of its labelled files, and part of the names of its runs."""
    task: str
    title: str
    metrics: tuple[str, ...]
    """Columns of the table, the main metric first."""
    batch_size: int
    lr: float
    """Learning rate of the small models, with and without pre-training."""
    minilm_lr: float


TASKS = (
    QuickstartTask(
        name="entities",
        task="ner",
        title="entities",
        metrics=("f1",),
        batch_size=4,
        lr=1e-3,
        minilm_lr=2e-4,
    ),
    QuickstartTask(
        name="questions",
        task="qa",
        title="questions",
        metrics=("f1", "exact_match"),
        batch_size=8,
        lr=5e-4,
        minilm_lr=2e-4,
    ),
)

PRETRAINING: Mapping[str, Any] = MappingProxyType(
    {
        # For a small hidden size and little text: rotary positions, pre-norm, larger initial weights.
        "encoder": {
            "positions": "rotary",
            "norm_place": "pre",
            "final_norm": True,
            "init_std": 0.05,
            "dropout": 0.0,
            "attention_dropout": 0.0,
        },
        "data": {"length": 256, "held_out": 0.03},
    }
)
"""Keys of the recipe, without its `training` section."""
PRETRAINING_OPTIMISER: Mapping[str, Any] = MappingProxyType(
    {"batch_size": 4, "lr": 1e-3, "betas": (0.9, 0.98), "weight_decay": 0.01, "warmup": 0.1}
)
"""The `training` section."""
CONTINUED: Mapping[str, Any] = MappingProxyType({"data": {"length": 128, "held_out": 0.03}})
"""The same two for the continued pre-training of MiniLM."""
CONTINUED_OPTIMISER: Mapping[str, Any] = MappingProxyType({"batch_size": 8, "lr": 2e-4, "warmup": 0.1})

SHARES: Mapping[str, float] = MappingProxyType(
    {
        PRETRAINED: 0.30,
        f"{UNTRAINED}-entities": 0.08,
        f"{UNTRAINED}-questions": 0.05,
        f"{PRETRAINED}-entities": 0.08,
        f"{PRETRAINED}-questions": 0.05,
        MINILM: 0.09,
        f"{MINILM}-entities": 0.15,
        f"{MINILM}-questions": 0.20,
    }
)
"""Shares of the time that remains after the corpus, by run, in the order of the runs."""
SCORING_SHARE = 0.08
"""Share of the budget for the test scores and the report."""


def run_name(initial_weights: str, task: QuickstartTask) -> str:
    """The folder of a fine-tuning run."""
    return f"{initial_weights}-{task.name}"


def seconds_for(run: str, remaining_runs: Sequence[str], seconds: float) -> float:
    """The share of a run in the `seconds` left for it and the runs after it; `remaining_runs` includes it."""
    return max(0.0, seconds) * SHARES[run] / sum(SHARES[name] for name in remaining_runs)


def all_outputs() -> tuple[str, ...]:
    """The names of everything that a quickstart writes, except for its journal."""
    folders = (TEXT, TOKENIZER, CORPUS, UNTRAINED, MINILM_CORPUS, *(task.name for task in TASKS))
    return (*folders, *SHARES, SCORES, REPORT)
