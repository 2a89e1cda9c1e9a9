"""Prediction on a Ray cluster: the portions of a long input computed by several workers, results as from one.

A portion is what one process would compute at once, and every worker has the whole model, so batches and numbers are
those of a local run; results come in the order of the rows, with a bounded number of portions under way. An input of
one portion is computed by one worker: Ray is for files of many thousands of lines.
"""

import os
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from spanlab.errors import InputError, MissingExtraError, SpanlabError
from spanlab.inference.load import load
from spanlab.inference.predictor import BATCH_TOKENS, portions, readable_row
from spanlab.ray_cluster import ray_cluster
from spanlab.tasks.formats.row import Row
from spanlab.tasks.result import Result
from spanlab.training.config import Device


@dataclass(frozen=True, kw_only=True)
class RayPrediction:
    """The job of every worker."""

    model: str
    """A folder that every machine of the cluster sees, or a Hugging Face id."""
    task: str | None = None
    batch_tokens: int = BATCH_TOKENS
    device: Device = "auto"


def predict_on_ray(
    wanted: RayPrediction, rows: Iterable[Row | InputError], *, first: int = 0, workers: int | None = None
) -> Iterator[Result]:
    """Results for the rows of a file, as `Predictor.predict_rows` gives them; `workers` None is one a CPU."""
    if find_spec("ray") is None:
        raise MissingExtraError("ray", "--engine ray")
    return _predict(wanted, rows, first, workers)


def _predict(
    wanted: RayPrediction, rows: Iterable[Row | InputError], first: int, workers: int | None
) -> Iterator[Result]:
    with ray_cluster(workers) as ray:
        most = workers or int(ray.cluster_resources()["CPU"])
        worker = ray.remote(num_cpus=1, num_gpus=1 if wanted.device == "cuda" else 0)(_Worker)
        crew: list[Any] = []  # started one by one, so that a short input does not load the model more often than needed
        waiting: deque[Any] = deque()
        fault: list[InputError] = []
        for number, portion in enumerate(_before_a_fault(rows, fault)):
            if len(crew) < most:
                crew.append(worker.remote(wanted))
            waiting.append(crew[number % most].predict.remote(portion, first))
            first += len(portion)
            if len(waiting) > 2 * most:
                yield from _result(ray, waiting.popleft())
        while waiting:
            yield from _result(ray, waiting.popleft())
        for error in fault:
            raise error


def _before_a_fault(rows: Iterable[Row | InputError], fault: list[InputError]) -> Iterator[list[Row]]:
    """The portions before a row that cannot be read; its error is kept, to be raised after their results."""
    try:
        yield from portions(map(readable_row, rows))
    except InputError as error:
        fault.append(error)


def _result(ray: Any, handle: Any) -> list[Result]:  # noqa: ANN401 (the module, and an object reference)
    try:
        results: list[Result] = ray.get(handle)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, SpanlabError):
            raise error.cause from None
        raise
    return results


class _Worker:
    """A process of the cluster with the model loaded."""

    def __init__(self, wanted: RayPrediction) -> None:
        os.environ["TOKENIZERS_PARALLELISM"] = "false"
        self._wanted = wanted
        self._predictor = load(wanted.model, device=wanted.device)

    def predict(self, rows: list[Row], first: int) -> list[Result]:
        """The results of one portion."""
        wanted = self._wanted
        return list(self._predictor.predict_rows(rows, task=wanted.task, batch_tokens=wanted.batch_tokens, first=first))
