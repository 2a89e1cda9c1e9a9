"""From the names in a config to open trackers."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from spanlab.errors import ConfigError, MissingExtraError, did_you_mean
from spanlab.training.trackers.mlflow import MLflow
from spanlab.training.trackers.tensorboard import TensorBoard
from spanlab.training.trackers.tracker import TrackedRun, Tracker
from spanlab.training.trackers.trackio import Trackio
from spanlab.training.trackers.wandb import WeightsAndBiases

_TRACKERS: dict[str, Callable[[TrackedRun], Tracker]] = {
    "tensorboard": TensorBoard,
    "wandb": WeightsAndBiases,
    "mlflow": MLflow,
    "trackio": Trackio,
}


def open_trackers(
    names: Iterable[str], run_folder: Path, run_name: str, config_mapping: Mapping[str, Any]
) -> list[Tracker]:
    """The trackers by these names, open; one whose package is missing is a `MissingExtraError`."""
    run = TrackedRun(folder=Path(run_folder), name=run_name, config=config_mapping)
    opened: list[Tracker] = []
    try:
        for name in names:
            opened.append(_open(name, run))
    except BaseException:
        for tracker in opened:
            tracker.close()
        raise
    return opened


def _open(name: str, run: TrackedRun) -> Tracker:
    if name not in _TRACKERS:
        raise ConfigError(f"unknown tracker '{name}'{did_you_mean(name, _TRACKERS)}; known are {', '.join(_TRACKERS)}")
    try:
        return _TRACKERS[name](run)
    except ImportError:
        raise MissingExtraError("track", f"tracking with {name}") from None
