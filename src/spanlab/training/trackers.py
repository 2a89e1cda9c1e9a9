"""Experiment trackers in addition to `metrics.jsonl`: TensorBoard, Weights & Biases, MLflow and trackio.

A tracker's package is imported when the tracker is opened. A resumed run continues under the ids that the trackers
gave it, which are kept in `trackers.json` of the run folder.
"""

import os
import secrets
import sys
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from typing_extensions import override

from spanlab.atomic_io import write_json
from spanlab.errors import ConfigError, MissingExtraError, did_you_mean
from spanlab.strict_parsing import read_json
from spanlab.training.records import Record

if TYPE_CHECKING:
    from mlflow.entities import Metric
    from torch.utils.tensorboard import SummaryWriter

_IDS = "trackers.json"
_MLFLOW_SECONDS = 10.0
"""The longest time between two batches of metrics."""
_MLFLOW_METRICS = 1000
_MLFLOW_PARAMS = 100
"""The largest batches that an MLflow server accepts."""


class Tracker(ABC):
    """A consumer of records."""

    @abstractmethod
    def log(self, record: Record) -> None:
        """Log the metrics of a record."""

    @abstractmethod
    def close(self) -> None:
        """Flush and close."""


@dataclass(frozen=True, kw_only=True)
class TrackedRun:
    """Folder, name and config of the tracked run, and the ids that trackers gave it."""

    folder: Path
    name: str
    config: Mapping[str, Any]

    def id_of(self, tracker: str) -> str | None:
        """The id that a tracker gave this run in an earlier session."""
        return self._ids().get(tracker)

    def save_id(self, tracker: str, run_id: str) -> None:
        """Keep the id that a tracker gave this run."""
        write_json(self.folder / _IDS, {**self._ids(), tracker: run_id})

    def flat_config(self) -> dict[str, Any]:
        """The config with dotted keys, as in `key=value` overrides."""
        return dict(_flatten(self.config, ""))

    def _ids(self) -> dict[str, str]:
        try:
            ids = read_json(self.folder / _IDS)
        except (FileNotFoundError, ValueError):  # never tracked, or a damaged file, which is not worth a failure
            return {}
        return ids if isinstance(ids, dict) else {}


def _flatten(mapping: Mapping[str, Any], prefix: str) -> list[tuple[str, Any]]:
    flat: list[tuple[str, Any]] = []
    for key, value in mapping.items():
        nested = isinstance(value, Mapping) and value
        flat += _flatten(value, f"{prefix}{key}.") if nested else [(f"{prefix}{key}", value)]
    return flat


def _metrics(record: Record) -> dict[str, float]:
    """The metrics of a record by `split/name`, which trackers group into panels."""
    return {f"{record.split}/{name}": float(value) for name, value in record.metrics.items()}


class TensorBoard(Tracker):
    """Writes event files to `tensorboard/` of the run folder; a resumed run adds one more file."""

    def __init__(self, run: TrackedRun) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._folder = run.folder / "tensorboard"
        self._config = yaml.safe_dump(dict(run.config), sort_keys=False)
        self._resumed = self._folder.is_dir()
        self._new_writer = SummaryWriter
        self._writer: SummaryWriter | None = None

    @override
    def log(self, record: Record) -> None:
        if self._writer is None:
            self._writer = self._open(record.step)
        for name, value in _metrics(record).items():
            self._writer.add_scalar(name, value, record.step)

    @override
    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()

    def _open(self, first_step: int) -> "SummaryWriter":
        # Purges the steps that a killed run wrote beyond the checkpoint it is resumed from.
        writer = self._new_writer(str(self._folder), purge_step=first_step if self._resumed else None)
        writer.add_text("config", f"```yaml\n{self._config}```")
        return writer


class WeightsAndBiases(Tracker):
    """Logs to one W&B run, with its files in `wandb/` of the run folder.

    WANDB_PROJECT (default `spanlab`), WANDB_ENTITY and WANDB_MODE apply.
    """

    def __init__(self, run: TrackedRun) -> None:
        import wandb

        run_id = run.id_of("wandb")
        try:
            self._run = wandb.init(
                project=os.environ.get("WANDB_PROJECT", "spanlab"),
                name=run.name,
                dir=str(run.folder),
                config=dict(run.config),
                id=run_id,
                resume="allow" if run_id else None,
                settings=wandb.Settings(console="off"),
            )
        except wandb.errors.Error as error:
            reason = str(error).splitlines()[0].rstrip(".")
            raise ConfigError(f"W&B: {reason}", fix="log in with `wandb login`, or set WANDB_MODE=offline") from None
        run.save_id("wandb", self._run.id)
        # Our own step metric: W&B's counter drops the steps that a resumed run repeats.
        self._run.define_metric("step")
        self._run.define_metric("*", step_metric="step")

    @override
    def log(self, record: Record) -> None:
        self._run.log({**_metrics(record), "step": record.step, "epoch": record.epoch})

    @override
    def close(self) -> None:
        self._run.finish()


class MLflow(Tracker):
    """Logs to one MLflow run on the server of MLFLOW_TRACKING_URI, or in `mlflow.db` of the run folder.

    Metrics are sent in batches: one write to a database takes some 20 ms, which is longer than a small step.
    """

    def __init__(self, run: TrackedRun) -> None:
        from mlflow import MlflowClient
        from mlflow.exceptions import MlflowException

        uri = os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{(run.folder / 'mlflow.db').resolve()}"
        self._client = MlflowClient(uri)
        try:
            self._run_id = self._resume(run.id_of("mlflow")) or self._create(run)
        except MlflowException as error:
            reason = str(error).splitlines()[0].rstrip(".")
            raise ConfigError(f"MLflow: {reason}", fix="check the server of MLFLOW_TRACKING_URI") from None
        run.save_id("mlflow", self._run_id)
        self._pending: list[Metric] = []
        self._sent_at = time.monotonic()

    def _resume(self, run_id: str | None) -> str | None:
        """Mark the run as running again; None if the server does not have it."""
        from mlflow.exceptions import MlflowException

        if run_id is None:
            return None
        try:
            self._client.update_run(run_id, status="RUNNING")
        except MlflowException as error:
            if error.error_code == "RESOURCE_DOES_NOT_EXIST":
                return None
            raise
        return run_id

    def _create(self, run: TrackedRun) -> str:
        from mlflow.entities import Param

        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "spanlab")
        experiment = self._client.get_experiment_by_name(name)
        experiment_id = experiment.experiment_id if experiment else self._client.create_experiment(name)
        run_id: str = self._client.create_run(experiment_id, run_name=run.name).info.run_id
        params = [Param(key, str(value)[:500]) for key, value in run.flat_config().items()]
        for start in range(0, len(params), _MLFLOW_PARAMS):
            self._client.log_batch(run_id, params=params[start : start + _MLFLOW_PARAMS])
        return run_id

    @override
    def log(self, record: Record) -> None:
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        self._pending += [Metric(name, value, now, record.step) for name, value in _metrics(record).items()]
        full = len(self._pending) > _MLFLOW_METRICS // 2
        if full or record.split == "dev" or time.monotonic() - self._sent_at > _MLFLOW_SECONDS:
            self._send()

    @override
    def close(self) -> None:
        self._send()
        if not self._pending:
            self._client.set_terminated(self._run_id)

    def _send(self) -> None:
        from mlflow.exceptions import MlflowException

        self._sent_at = time.monotonic()
        try:
            while self._pending:
                self._client.log_batch(self._run_id, metrics=self._pending[:_MLFLOW_METRICS])
                del self._pending[:_MLFLOW_METRICS]
        except MlflowException as error:  # tried again with the next batch
            warnings.warn(f"MLflow rejected {len(self._pending)} metrics: {error}", stacklevel=2)


class Trackio(Tracker):
    """Logs to one trackio run, in the project TRACKIO_PROJECT or `spanlab` of trackio's own database (TRACKIO_DIR)."""

    def __init__(self, run: TrackedRun) -> None:
        import trackio

        # trackio identifies a run by its name; two run folders may have the same.
        name = run.id_of("trackio") or f"{run.name}-{secrets.token_hex(3)}"
        self._finish = trackio.finish  # the run's own `finish` leaves it to be finished again, with output, at exit
        with redirect_stdout(sys.stderr):  # stdout is for results, and trackio prints a greeting
            self._run = trackio.init(
                project=os.environ.get("TRACKIO_PROJECT", "spanlab"),
                name=name,
                config=run.flat_config(),
                resume="allow",
            )
        run.save_id("trackio", name)

    @override
    def log(self, record: Record) -> None:
        self._run.log({**_metrics(record), "epoch": record.epoch}, step=record.step)

    @override
    def close(self) -> None:
        with redirect_stdout(sys.stderr):
            self._finish()


_TRACKERS: dict[str, Callable[[TrackedRun], Tracker]] = {
    "tensorboard": TensorBoard,
    "wandb": WeightsAndBiases,
    "mlflow": MLflow,
    "trackio": Trackio,
}


def open_trackers(names: Iterable[str], folder: Path, run_name: str, config: Mapping[str, Any]) -> list[Tracker]:
    """Open trackers by name; a missing package is a `MissingExtraError`."""
    run = TrackedRun(folder=Path(folder), name=run_name, config=config)
    trackers: list[Tracker] = []
    try:
        for name in names:
            trackers.append(_open(name, run))
    except BaseException:
        for tracker in trackers:
            tracker.close()
        raise
    return trackers


def _open(name: str, run: TrackedRun) -> Tracker:
    if name not in _TRACKERS:
        known = ", ".join(_TRACKERS)
        raise ConfigError(f"unknown tracker '{name}'{did_you_mean(name, _TRACKERS)}; known trackers: {known}")
    try:
        return _TRACKERS[name](run)
    except ImportError:
        raise MissingExtraError("track", f"tracking with {name}") from None
