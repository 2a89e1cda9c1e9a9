"""The plan of a quickstart: settings, names of outputs, hyperparameters, shares of time, and which runs count.

The initial weights of the new task are the rows of the resulting table.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from spanlab.errors import ConfigError

MIN_BUDGET = 10.0


@dataclass(frozen=True, kw_only=True)
class QuickstartSettings:
    """Folder, text and time budget of a quickstart."""

    out: Path = Path("quickstart")
    text: tuple[str, ...] = ()
    """Plain text files to read and to continue pre-training on; none: those that come with SpanLab and Python."""
    budget: float = 360.0
    """Approximate total seconds; time that a step does not use goes to later ones."""
    steps: int | None = None
    """Training steps of every run; None: as many as it needs and the budget allows on this machine."""
    reader: str | None = "reader"
    """The model of the first part: a name in `spanlab models` or a model folder; None for none."""
    minilm: bool = True
    """Whether to include MiniLM."""

    def __post_init__(self) -> None:
        if self.budget < MIN_BUDGET:
            cause = f"a budget of {self.budget:g} s is too short"
            raise ConfigError(cause, fix=f"use at least {MIN_BUDGET:g}s, such as 6m")


SPANBERT_NAME = "spanbert-mini-en"
READING, TEXT, CORPUS, CONTINUED, CONTINUATION = "reading.json", "text", "corpus", "continued", "continuation.json"
ENTITIES, RANDOM, SPANBERT, MINILM = "entities", "random", "spanbert", "minilm"
SCORES, REPORT = "scores.json", "report.html"
TITLES: Mapping[str, str] = MappingProxyType({RANDOM: "random, same shape", SPANBERT: SPANBERT_NAME, MINILM: "MiniLM"})
"""Of the initial weights."""
EVALUATIONS, CHECKPOINTS = 8, 2
"""Of a run."""

CONTINUING: Mapping[str, Any] = MappingProxyType(
    {
        "size": "mini",
        "data": {"length": 128, "held_out": 0.05},
        "training": {"batch_size": 16, "lr": 5e-4, "warmup": 0.1, "schedule": "linear"},
    }
)
"""Changes to SpanBERT's recipe for continued pre-training."""
MOST_EPOCHS = 10
"""Of continued pre-training; more would only learn the text by heart."""
BATCH_SIZE = 8
"""Of fine-tuning: a hundred passages in larger batches would be too few steps. Other settings are chosen by width."""
TARGET_STEPS: Mapping[str, int] = MappingProxyType({RANDOM: 160, SPANBERT: 160, MINILM: 100})
"""Steps of fine-tuning after which F1 on dev has levelled off, by initial weights."""

SHARES: Mapping[str, float] = MappingProxyType(
    {CONTINUED: 0.24, f"{ENTITIES}-{RANDOM}": 0.2, f"{ENTITIES}-{SPANBERT}": 0.2, f"{ENTITIES}-{MINILM}": 0.36}
)
"""Shares of the time that remains after the corpus, by run, in the order of the runs."""
SCORING_SHARE = 0.06
"""Share of the budget for the test scores and the report."""

FEWEST_STEPS = 20
"""A continued pre-training of fewer steps says nothing."""
FLOOR, STEEP = 15.0, 8.0
"""Points of F1 on dev: what a fine-tuning must have exceeded, and the most it may have gained over its last quarter."""


def too_short(curve: Sequence[tuple[int, float]]) -> str:
    """Why the score of a run says nothing, by its (step, F1) on dev: it had too few steps; "" if it had enough.

    A run has learned too little if it never exceeded `FLOOR`, or gained more than `STEEP` over its last quarter.
    """
    last_step, last = curve[-1]
    best = max(score for _, score in curve)
    if best <= FLOOR:
        return f"its {last_step:,} steps were too few: F1 on dev never exceeded {FLOOR:g}"
    earlier = [score for step, score in curve if step <= 0.75 * last_step]
    gain = last - (earlier[-1] if earlier else 0.0)
    if gain > STEEP:
        return f"its {last_step:,} steps were too few: F1 on dev still rose by {gain:.1f} over the last quarter of them"
    return ""


def run_name(initial_weights: str) -> str:
    """The folder of a fine-tuning run."""
    return f"{ENTITIES}-{initial_weights}"


def seconds_for(run: str, remaining_runs: Sequence[str], seconds: float) -> float:
    """The share of a run in the `seconds` left for it and the runs after it; `remaining_runs` includes it."""
    return max(0.0, seconds) * SHARES[run] / sum(SHARES[name] for name in remaining_runs)


def all_outputs() -> tuple[str, ...]:
    """The names of everything that a quickstart writes, except for its journal."""
    return (READING, TEXT, CORPUS, CONTINUATION, ENTITIES, RANDOM, *SHARES, SCORES, REPORT)
