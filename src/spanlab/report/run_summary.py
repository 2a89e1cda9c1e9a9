"""A run in a few figures: how far it is, how fast, and its losses at the start, now and at their best."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from spanlab.config import to_mapping
from spanlab.report.run_files import RunFiles
from spanlab.report.run_history import MACHINE, History, Numbers, Series

_LOWER_IS_BETTER = ("loss", "perplexity", "unigram")


@dataclass(frozen=True, kw_only=True)
class Course:
    """One metric from the start of a run to now; None where it was not told."""

    name: str
    train_first: float | None = None
    train_now: float | None = None
    """The mean of the last tenth of the steps, 50 at the most: single steps jump."""
    dev_first: float | None = None
    dev_now: float | None = None
    dev_best: float | None = None
    dev_best_step: int | None = None


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A saved state."""

    name: str
    bytes: int


@dataclass(frozen=True, kw_only=True)
class RunSummary:
    """The figures."""

    folder: str
    title: str
    """What was trained, such as `spanbert mini`."""
    state: str
    message: str | None
    step: int
    steps: int | None
    seconds: float | None
    tokens_per_second: float | None
    """The median of the steps, as are the two below."""
    peak_share: float | None
    memory_gb: float | None
    """The most that was told."""
    best_step: int | None
    """Of the model that was kept."""
    courses: tuple[Course, ...]
    checkpoints: tuple[Checkpoint, ...]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return to_mapping(self)


def summarise(run: RunFiles, history: History) -> RunSummary:
    """The figures of a run."""
    status = run.status
    names = dict.fromkeys([*history.names("train"), *history.names("dev")])
    memory = history.series("train", "memory_gb").values
    return RunSummary(
        folder=str(run.folder),
        title=title_of(run),
        state=str(status.get("state", "unknown")),
        message=status.get("message"),
        step=int(status.get("step") or history.last_step),
        steps=status.get("steps"),
        seconds=status.get("seconds"),
        tokens_per_second=_median(history.series("train", "tokens_per_second")),
        peak_share=_median(history.series("train", "peak_share")),
        memory_gb=float(memory.max()) if len(memory) else None,
        best_step=(status.get("best") or {}).get("step"),
        courses=tuple(_course(history, name) for name in names if name not in MACHINE),
        checkpoints=_checkpoints(run.folder / "checkpoints"),
    )


def title_of(run: RunFiles) -> str:
    """What was trained, by the config; the folder's name where it does not say."""
    config = run.config
    parts = [config.get("system") or config.get("task"), config.get("size")]
    return " ".join(str(part) for part in parts if part) or run.folder.resolve().name


def _course(history: History, name: str) -> Course:
    train, dev = history.series("train", name), history.series("dev", name)
    lower = name.partition(".")[0] in _LOWER_IS_BETTER
    best = int((dev.values.argmin if lower else dev.values.argmax)()) if len(dev) else None
    last_tenth = min(50, -(-len(train) // 10))
    return Course(
        name=name,
        train_first=_at(train, 0),
        train_now=float(train.values[-last_tenth:].mean()) if len(train) else None,
        dev_first=_at(dev, 0),
        dev_now=_at(dev, -1),
        dev_best=None if best is None else _at(dev, best),
        dev_best_step=None if best is None else int(dev.steps[best]),
    )


def _at(series: Series, number: int) -> float | None:
    return float(series.values[number]) if len(series) else None


def _median(series: Series) -> float | None:
    return float(np.median(series.values)) if len(series) else None


def _checkpoints(folder: Path) -> tuple[Checkpoint, ...]:
    there = sorted(path for path in folder.glob("*") if path.is_dir() and not path.name.startswith("."))
    return tuple(
        Checkpoint(name=path.name, bytes=sum(file.stat().st_size for file in path.rglob("*") if file.is_file()))
        for path in there
    )


_BARS = "▁▂▃▄▅▆▇█"


def sparkline(values: Numbers, width: int = 48) -> str:
    """Means of as many stretches as fit, from the lowest bar to the highest."""
    stretches = np.array_split(values, min(width, len(values)))
    means = np.array([stretch.mean() for stretch in stretches])
    low, high = means.min(), means.max()
    heights = (means - low) / (high - low) if high > low else np.zeros(len(means))
    return "".join(_BARS[round(height * (len(_BARS) - 1))] for height in heights.tolist())
