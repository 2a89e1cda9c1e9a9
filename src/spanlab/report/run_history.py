"""A run folder for reports: its files, its metrics over the steps, and its summary.

What enters is the folder of a run that is under way, was killed or has finished; what leaves are `RunFiles`, a
`History` of series and a `RunSummary`. Only `config.yaml` or `metrics.jsonl` must exist; whatever is missing is empty.
`status.json` is {state, step, steps, seconds, best: {score, step}, message}, `environment.json` a flat mapping, and
`fillings.json` {before, after}, each a list of `FillResult.to_dict()`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from spanlab.config import Source, from_mapping, to_mapping
from spanlab.errors import InputError
from spanlab.inference.fill_result import FillResult
from spanlab.strict_parsing import parse_json, parse_yaml
from spanlab.training.records import read_metrics
from spanlab.training.status import RunStatus, read_status

Mappings = Mapping[str, Any]
Numbers = NDArray[np.float64]
Split = Literal["train", "dev"]
MACHINE = ("lr", "grad_norm", "tokens_per_second", "peak_share", "memory_gb")
"""Metrics of the optimiser and the machine; all others are about the model."""
_NO_METRIC = ("step", "epoch", "split", "notes")
_LOWER_IS_BETTER = ("loss", "perplexity", "unigram")
_BARS = "▁▂▃▄▅▆▇█"


_LARGEST = 1e100
"""Larger values are those of a damaged file; the arithmetic of an axis would overflow."""


@dataclass(frozen=True, kw_only=True)
class RunFiles:
    """The files of a run, in memory."""

    folder: Path
    config_text: str = ""
    config: Mappings = field(default_factory=dict)
    records: tuple[Mappings, ...] = ()
    """The lines of `metrics.jsonl`, in order."""
    environment: Mappings = field(default_factory=dict)
    fillings: Mapping[str, tuple[FillResult, ...]] = field(default_factory=dict)
    """`before` and `after` training."""
    status: RunStatus = field(default_factory=RunStatus)


def read_run(folder: str | Path) -> RunFiles:
    """Read a run folder."""
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError("no such run folder", path=folder, fix="use the --out folder of spanlab pretrain or finetune")
    if not any((folder / name).is_file() for name in ("config.yaml", "metrics.jsonl")):
        cause = "not a run folder: it has neither config.yaml nor metrics.jsonl"
        raise InputError(cause, path=folder, fix="use the --out folder of spanlab pretrain or finetune")
    config_text = _read(folder / "config.yaml")
    fillings, metrics = folder / "fillings.json", folder / "metrics.jsonl"
    return RunFiles(
        folder=folder,
        config_text=config_text,
        config=_parse_config(folder / "config.yaml", config_text),
        records=tuple(read_metrics(metrics)) if metrics.is_file() else (),
        environment=_read_mapping(folder / "environment.json"),
        fillings={time: _read_fillings(results, fillings) for time, results in _read_mapping(fillings).items()},
        status=read_status(folder / "status.json"),
    )


def _read_fillings(results: Any, path: Path) -> tuple[FillResult, ...]:  # noqa: ANN401 (anything JSON holds)
    if not isinstance(results, list):
        raise InputError("not the fillings of a run", path=path, fix="delete the file")
    fillings = tuple(from_mapping(FillResult, result, Source(path=str(path))) for result in results)
    if not all(run.fillings.get("mlm") and all(run.fillings.values()) for result in fillings for run in result.runs):
        raise InputError("a run of masks has no filling", path=path, fix="delete the file")
    return fillings


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8 text (byte {error.start})", path=path) from None


def _parse_config(path: Path, text: str) -> Mappings:
    config = parse_yaml(text, path=path)[0] or {}
    if not isinstance(config, dict):
        raise InputError("not the config of a run", path=path, fix="restore the file that the run wrote")
    return config


def _read_mapping(path: Path) -> Mappings:
    text = _read(path)
    mapping = _parse_object(text)
    if mapping is None and text.strip():
        raise InputError("not a JSON object", path=path, fix="delete the file")
    return mapping or {}


def _parse_object(text: str) -> dict[str, Any] | None:
    """A JSON object, or None for anything else."""
    try:
        parsed = parse_json(text)
    except InputError:
        return None
    return parsed if isinstance(parsed, dict) else None


@dataclass(frozen=True)
class Series:
    """A metric over the steps; finite values only."""

    steps: Numbers
    values: Numbers

    def __len__(self) -> int:
        return len(self.steps)


@dataclass(frozen=True)
class Note:
    """A message of the run and the step it belongs to."""

    step: int
    text: str


class History:
    """The metrics of a run so far, by split and name."""

    def __init__(self, records: Sequence[Mapping[str, Any]]) -> None:
        # A run that went back to a checkpoint repeats some steps: the later record counts.
        latest = {(record["split"], record["step"]): record for record in records}
        self._records = sorted(latest.values(), key=lambda record: int(record["step"]))
        self._series: dict[tuple[Split, str], Series] = {}
        self.notes = tuple(
            Note(int(record["step"]), str(text)) for record in records for text in record.get("notes") or ()
        )

    def names(self, split: Split) -> list[str]:
        """The metrics of a split, in the order of their first appearance."""
        names = (name for record in self._records if record["split"] == split for name in record)
        return [name for name in dict.fromkeys(names) if name not in _NO_METRIC]

    def series(self, split: Split, name: str) -> Series:
        """A metric over the steps; empty if it was never recorded."""
        if (split, name) not in self._series:
            of_split = (record for record in self._records if record["split"] == split)
            points = [(record["step"], record[name]) for record in of_split if _is_number(record.get(name))]
            steps, values = np.array(points, np.float64).reshape(-1, 2).T
            finite = np.abs(values) < _LARGEST  # which nan is not, either
            self._series[split, name] = Series(steps[finite], values[finite])
        return self._series[split, name]

    @property
    def last_step(self) -> int:
        """The number of steps done."""
        return int(self._records[-1]["step"]) if self._records else 0


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


@dataclass(frozen=True, kw_only=True)
class Course:
    """One metric from the start of a run to now; None where it was not recorded."""

    name: str
    train_first: float | None = None
    train_now: float | None = None
    """The mean of the last tenth of the steps, at most 50: single steps are noisy."""
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
    """A run at a glance: progress, speed, and its metrics at the start, now and at their best."""

    folder: str
    title: str
    """What was trained, such as `spanbert mini`."""
    state: str
    message: str | None
    step: int
    steps: int | None
    seconds: float | None
    tokens_per_second: float | None
    """The median over the steps."""
    peak_share: float | None
    """The median over the steps."""
    memory_gb: float | None
    """The maximum over the steps."""
    best_step: int | None
    """The step of the model that was kept."""
    courses: tuple[Course, ...]
    checkpoints: tuple[Checkpoint, ...]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return to_mapping(self)


def summarise(run: RunFiles, history: History) -> RunSummary:
    """The summary of a run."""
    status = run.status
    names = dict.fromkeys([*history.names("train"), *history.names("dev")])
    memory = history.series("train", "memory_gb").values
    return RunSummary(
        folder=str(run.folder),
        title=title_of(run),
        state=status.state,
        message=status.message,
        step=status.step or history.last_step,
        steps=status.steps,
        seconds=status.seconds,
        tokens_per_second=_median(history.series("train", "tokens_per_second")),
        peak_share=_median(history.series("train", "peak_share")),
        memory_gb=float(memory.max()) if len(memory) else None,
        best_step=None if status.best is None else status.best.step,
        courses=tuple(_course(history, name) for name in names if name not in MACHINE),
        checkpoints=_checkpoints(run.folder / "checkpoints"),
    )


def title_of(run: RunFiles) -> str:
    """What was trained, from the config, or else the name of the folder."""
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
        train_first=_value(train, 0),
        train_now=float(train.values[-last_tenth:].mean()) if len(train) else None,
        dev_first=_value(dev, 0),
        dev_now=_value(dev, -1),
        dev_best=None if best is None else _value(dev, best),
        dev_best_step=None if best is None else int(dev.steps[best]),
    )


def _value(series: Series, index: int) -> float | None:
    return float(series.values[index]) if len(series) else None


def _median(series: Series) -> float | None:
    return float(np.median(series.values)) if len(series) else None


def _checkpoints(folder: Path) -> tuple[Checkpoint, ...]:
    paths = sorted(path for path in folder.glob("*") if path.is_dir() and not path.name.startswith("."))
    return tuple(
        Checkpoint(name=path.name, bytes=sum(file.stat().st_size for file in path.rglob("*") if file.is_file()))
        for path in paths
    )


def sparkline(values: Numbers, width: int = 48) -> str:
    """The values as a line of small bars: means over at most `width` equal parts, scaled from minimum to maximum."""
    means = np.array([part.mean() for part in np.array_split(values, min(width, len(values)))])
    low, high = means.min(), means.max()
    heights = (means - low) / (high - low) if high > low else np.zeros(len(means))
    return "".join(_BARS[round(height * (len(_BARS) - 1))] for height in heights.tolist())
