"""Prediction on a Ray cluster: rows enter, portions of them are computed by several workers, results leave in order.

Portions are those of a local run and every worker has the whole model, so batches and results are the same as from one
process. The number of portions in flight is bounded. An input of one portion is computed by one worker: Ray pays off
for files of many thousands of lines.
"""

import os
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from spanlab.errors import InputError, MissingExtraError, SpanlabError
from spanlab.inference.load import load
from spanlab.inference.predictor import BATCH_TOKENS, PredictedPortion, portions, readable_row
from spanlab.machine import available_cores
from spanlab.ray_cluster import ray_cluster
from spanlab.tasks.formats.row import Row
from spanlab.tasks.result import Result
from spanlab.training.config import Device, InferencePrecision


@dataclass(frozen=True, kw_only=True)
class RayPrediction:
    """What every worker computes."""

    model: str
    """A folder that every machine of the cluster sees, a name in `spanlab models` or a Hugging Face id."""
    task: str | None = None
    batch_tokens: int = BATCH_TOKENS
    device: Device = "auto"
    precision: InferencePrecision | None = None


def predict_on_ray(
    job: RayPrediction, rows: Iterable[Row | InputError], *, first: int = 0, workers: int | None = None
) -> Iterator[PredictedPortion]:
    """The portions of a file's rows with their results of one task, in order; `workers` None is one per CPU."""
    if find_spec("ray") is None:
        raise MissingExtraError("ray", "--engine ray")
    return _predict(job, rows, first, workers)


def _predict(
    job: RayPrediction, rows: Iterable[Row | InputError], first: int, workers: int | None
) -> Iterator[PredictedPortion]:
    with ray_cluster(workers or available_cores()) as ray:
        max_workers = workers or int(ray.cluster_resources()["CPU"])
        actor_class = ray.remote(num_cpus=1, num_gpus=1 if job.device == "cuda" else 0)(_Worker)
        actors: list[Any] = []  # started one by one, so that a short input does not load the model more than needed
        pending: deque[tuple[list[Row], Any]] = deque()
        errors: list[InputError] = []
        for index, portion in enumerate(_portions_before_error(rows, errors)):
            if len(actors) < max_workers:
                actors.append(actor_class.remote(job))
            pending.append((portion, actors[index % max_workers].predict.remote(portion, first)))
            first += len(portion)
            if len(pending) > 2 * max_workers:
                yield _get_results(ray, *pending.popleft())
        while pending:
            yield _get_results(ray, *pending.popleft())
        for error in errors:
            raise error


def _portions_before_error(rows: Iterable[Row | InputError], errors: list[InputError]) -> Iterator[list[Row]]:
    """The portions before a row that cannot be read; its error is kept, to be raised after their results."""
    try:
        yield from portions(map(readable_row, rows))
    except InputError as error:
        errors.append(error)


def _get_results(
    ray: Any,  # noqa: ANN401 (the module)
    rows: list[Row],
    handle: Any,  # noqa: ANN401 (an object reference)
) -> PredictedPortion:
    try:
        results: list[Result] = ray.get(handle)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, SpanlabError):
            raise error.cause from None
        raise
    return PredictedPortion(rows=rows, results=results)


class _Worker:
    """A Ray actor with the model loaded."""

    def __init__(self, job: RayPrediction) -> None:
        os.environ["TOKENIZERS_PARALLELISM"] = "false"
        self._job = job
        self._predictor = load(job.model, device=job.device, precision=job.precision)

    def predict(self, rows: list[Row], first: int) -> list[Result]:
        """The results of one portion."""
        job = self._job
        return list(self._predictor.predict_rows(rows, task=job.task, batch_tokens=job.batch_tokens, first=first))
