"""How many steps fit into some seconds: a few steps of a run and one evaluation are tried, nothing of them is kept."""

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from spanlab.quickstart.plan import EVALUATIONS
from spanlab.training.config import TrainingConfig
from spanlab.training.distributed import current_process
from spanlab.training.spec import TrainingSpec
from spanlab.training.train_step import TrainStep

_TRIED_SECONDS, _TRIED_STEPS = 2.0, 6
LEAST_STEPS = 4


@dataclass(frozen=True, kw_only=True)
class Throughput:
    """What a run costs on this machine, now."""

    step_seconds: float
    evaluation_seconds: float

    def steps_in(self, seconds: float) -> int:
        """The steps that fit beside the evaluations; a few in any case."""
        return max(LEAST_STEPS, int((seconds - EVALUATIONS * self.evaluation_seconds) / self.step_seconds))


def measure_throughput(work: TrainingSpec[Any], config: TrainingConfig) -> Throughput:
    """Try the first steps; the first of all, which allocates, is not counted."""
    process = current_process(config.device, config.precision)
    with tempfile.TemporaryDirectory() as scratch:
        train_step = TrainStep(work, config, process, _TRIED_STEPS + 1, Path(scratch))
        train_step.step(0, stop=False)
        began, tried = time.perf_counter(), 0
        while tried < _TRIED_STEPS and time.perf_counter() - began < _TRIED_SECONDS:
            tried += 1
            train_step.step(tried, stop=False)
        step_seconds = (time.perf_counter() - began) / tried
    began = time.perf_counter()
    if work.evaluate is not None:
        train_step.model.eval()
        with torch.no_grad():
            work.evaluate(process)
    return Throughput(step_seconds=step_seconds, evaluation_seconds=time.perf_counter() - began)
