"""The parts of a quickstart: what is begun from, what is fine-tuned for, where each thing lies, how time is shared out.

Beginnings are the rows of the table that comes out, tasks its columns. Every number a run is trained with stands here.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from spanlab.errors import ConfigError

if TYPE_CHECKING:
    from spanlab.pretraining.recipe import Size


_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}
LEAST_BUDGET = 10.0


@dataclass(frozen=True, kw_only=True)
class QuickstartSettings:
    """Where it works, on what text, for how long."""

    out: Path = Path("quickstart")
    text: tuple[str, ...] = ()
    """Plain text files to pre-train on; none: the Python language reference."""
    budget: float = 360.0
    """Seconds for all of it, about; what one step does not use the later ones get."""
    size: "Size" = "tiny"
    """Of the model that is pre-trained; in minutes a larger one sees too little text to gain from it."""
    vocabulary: int = 6000
    """Pieces of its tokenizer."""
    steps: int | None = None
    """Training steps of every run; None: as many as the budget has room for on this machine."""
    minilm: bool = True
    """Whether the packaged MiniLM takes part."""

    def __post_init__(self) -> None:
        if self.budget < LEAST_BUDGET:
            cause = f"a budget of {self.budget:g} s is too short to learn anything"
            raise ConfigError(cause, fix=f"give at least {LEAST_BUDGET:g}s, or 6m")


def parse_budget(text: str) -> float:
    """The seconds of `90s`, `6m` or `1.5h`."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smh])\s*", text)
    if match is None:
        raise ConfigError(f"'{text}' is no length of time", fix="write 90s, 6m or 1.5h")
    return float(match[1]) * _UNITS[match[2]]


TEXT, TOKENIZER, CORPUS, UNTRAINED, PRETRAINED = "text", "tokenizer", "corpus", "untrained", "pretrained"
MINILM_CORPUS, MINILM = "minilm-corpus", "minilm"
SCORES, REPORT = "scores.json", "report.html"
BEGINNINGS = (UNTRAINED, PRETRAINED, MINILM)
TITLES: Mapping[str, str] = MappingProxyType(
    {
        UNTRAINED: "new weights",
        PRETRAINED: "pre-trained here",
        MINILM: "MiniLM, continued",
    }
)
EVALUATIONS = 4
"""How often a run is scored on dev, and its state saved."""
LANGUAGE = "en"
"""Of the passages: the packaged MiniLM reads English alone."""


@dataclass(frozen=True, kw_only=True)
class QuickstartTask:
    """One of the tasks, and how it is trained."""

    name: str
    """Its folder of labelled files, and a part of its runs' names."""
    task: str
    title: str
    metrics: tuple[str, ...]
    """Of the table, the main one first."""
    batch_size: int
    lr: float
    """Of the small models; with and without pre-training the same."""
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
        # What suits a narrow body and little text: rotary positions, normalisation first, larger initial weights.
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
PRETRAINING_STEPS: Mapping[str, Any] = MappingProxyType(
    {"batch_size": 4, "lr": 1e-3, "betas": (0.9, 0.98), "weight_decay": 0.01, "warmup": 0.1}
)
CONTINUING: Mapping[str, Any] = MappingProxyType({"data": {"length": 128, "held_out": 0.03}})
CONTINUING_STEPS: Mapping[str, Any] = MappingProxyType({"batch_size": 8, "lr": 2e-4, "warmup": 0.1})

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
"""Of the time that is left once the corpus stands, by run and in the order of the runs."""
SCORING_SHARE = 0.08
"""Of the whole budget: what the test scores and the page take at the end."""


def run_name(beginning: str, task: QuickstartTask) -> str:
    """The folder of a fine-tuning run."""
    return f"{beginning}-{task.name}"


def seconds_for(run: str, to_come: Sequence[str], left: float) -> float:
    """What a run may take of the seconds that are left for all runs to come, itself among them."""
    return max(0.0, left) * SHARES[run] / sum(SHARES[name] for name in to_come)


def everything() -> tuple[str, ...]:
    """The names of all that a quickstart writes beside its journal."""
    folders = (TEXT, TOKENIZER, CORPUS, UNTRAINED, MINILM_CORPUS, *(task.name for task in TASKS))
    return (*folders, *SHARES, SCORES, REPORT)
