"""MLflow: the server of MLFLOW_TRACKING_URI, or `mlflow.db` in the run folder."""

import os
import time
import warnings
from typing import TYPE_CHECKING

from spanlab.errors import ConfigError
from spanlab.training.records import Record
from spanlab.training.trackers.tracker import TrackedRun, numbers

if TYPE_CHECKING:
    from mlflow.entities import Metric

_SECONDS = 10.0
_METRICS = 1000
"""What an MLflow server takes at once."""


class MLflow:
    """Logs to one MLflow run, in batches: a write takes a database some 20 ms, which is longer than a small step."""

    def __init__(self, run: TrackedRun) -> None:
        from mlflow import MlflowClient
        from mlflow.exceptions import MlflowException

        place = os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{(run.folder / 'mlflow.db').resolve()}"
        self._client = MlflowClient(place)
        try:
            self._run_id = self._go_on(run.identity("mlflow")) or self._create(run)
        except MlflowException as error:
            reason = str(error).splitlines()[0].rstrip(".")
            raise ConfigError(f"MLflow: {reason}", fix="see to the server of MLFLOW_TRACKING_URI") from None
        run.remember("mlflow", self._run_id)
        self._waiting: list[Metric] = []
        self._sent_at = time.monotonic()

    def _go_on(self, known: str | None) -> str | None:
        """The run of this id, running again, if this server has it."""
        from mlflow.exceptions import MlflowException

        if known is None:
            return None
        try:
            self._client.update_run(known, status="RUNNING")
        except MlflowException as error:
            if error.error_code == "RESOURCE_DOES_NOT_EXIST":
                return None
            raise
        return known

    def _create(self, run: TrackedRun) -> str:
        from mlflow.entities import Param

        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "spanlab")
        experiment = self._client.get_experiment_by_name(name)
        experiment_id = experiment.experiment_id if experiment else self._client.create_experiment(name)
        run_id: str = self._client.create_run(experiment_id, run_name=run.name).info.run_id
        params = [Param(key, str(value)[:500]) for key, value in run.flat_config().items()]
        for start in range(0, len(params), 100):  # as many as a server takes at once
            self._client.log_batch(run_id, params=params[start : start + 100])
        return run_id

    def log(self, record: Record) -> None:
        """Keep the numbers for the next batch."""
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        self._waiting += [Metric(name, value, now, record.step) for name, value in numbers(record).items()]
        full = len(self._waiting) > _METRICS // 2
        if full or record.split == "dev" or time.monotonic() - self._sent_at > _SECONDS:
            self._send()

    def close(self) -> None:
        """Send the last batch and mark the run as ended."""
        self._send()
        if not self._waiting:
            self._client.set_terminated(self._run_id)

    def _send(self) -> None:
        from mlflow.exceptions import MlflowException

        self._sent_at = time.monotonic()
        try:
            while self._waiting:
                self._client.log_batch(self._run_id, metrics=self._waiting[:_METRICS])
                del self._waiting[:_METRICS]
        except MlflowException as error:  # tried again with the next batch
            warnings.warn(f"MLflow did not take {len(self._waiting)} numbers: {error}", stacklevel=2)
