"""Estimate of the time and memory of a run, from a warm-up step and a few measured steps; nothing is kept."""

import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from spanlab.finetuning.defaults import written
from spanlab.machine import peak_memory_gb
from spanlab.pretraining.build import build_training_spec
from spanlab.report.number_format import duration
from spanlab.training.config import TrainingConfig
from spanlab.training.distributed import current_process
from spanlab.training.malloc import keep_freed_memory
from spanlab.training.spec import TrainingSpec, evaluation_interval
from spanlab.training.train_step import TrainStep
from spanlab.workflows.finetune import FinetuningJob
from spanlab.workflows.pretrain import PretrainingJob, open_corpora

_FINETUNING_STEPS = 4
"""Measured steps of fine-tuning, whose batches differ in length."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Estimated size, time and memory of a run on this machine."""

    parameters: int
    samples: int
    """Training samples, of the first sequence length."""
    steps: int
    epochs: float
    batch_size: int
    tokens_per_step: int
    precision: str
    loss: float
    seconds_per_step: float
    tokens_per_second: float
    hours: float
    """Estimated for all steps, at this speed."""
    memory_gb: float
    """Peak memory of this process."""
    checkpoint_gb: float
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    def rows(self) -> list[tuple[str, str]]:
        """For a table: name and value."""
        return [
            ("parameters", f"{self.parameters:,}"),
            ("samples", f"{self.samples:,}"),
            ("steps", f"{self.steps:,} of {self.batch_size:,} samples: {self.epochs:.1f} epochs"),
            ("step", f"{self.tokens_per_step:,} tokens, {self.seconds_per_step:.2f} s in {self.precision}"),
            ("speed", f"{self.tokens_per_second:,.0f} tokens/s"),
            ("total time", f"{self.hours:,.1f} hours at this speed"),
            ("memory", f"{self.memory_gb:.2f} GB"),
            ("checkpoint", f"{self.checkpoint_gb:.2f} GB on disk"),
            ("first loss", f"{self.loss:.3f}"),
            *(("note", line) for line in self.notes),
        ]


@dataclass(frozen=True, kw_only=True)
class MeasuredSteps:
    """A few steps of a run on this machine."""

    loss: float
    """Of the first step."""
    seconds: float
    """Mean of a step."""
    tokens: int
    """Mean of a step."""
    precision: str
    memory_gb: float


def measure_steps(spec: TrainingSpec[Any], training: TrainingConfig, *, count: int) -> MeasuredSteps:
    """Train one step, which allocates memory, then time `count` others, spread over the run; nothing is kept."""
    keep_freed_memory()
    process = current_process(training.device, training.precision)
    steps = training.total_steps(spec.data.steps_per_epoch)
    with tempfile.TemporaryDirectory() as scratch:
        train_step = TrainStep(spec, training, process, steps, Path(scratch))
        first = train_step.step(0, stop=False)
        start, tokens = time.perf_counter(), 0
        for index in range(1, count + 1):
            tokens += train_step.step(index * (steps - 1) // count, stop=False).tokens
        seconds = time.perf_counter() - start
    return MeasuredSteps(
        loss=first.loss,
        seconds=seconds / count,
        tokens=tokens // count,
        precision=process.precision,
        memory_gb=peak_memory_gb(process.device.type),
    )


@dataclass(frozen=True, kw_only=True)
class FinetuningEstimate:
    """Data and estimated time of a fine-tuning run on this machine."""

    tasks: Mapping[str, Mapping[str, Any]]
    """By name: `train` and `dev`, the number of examples, and `labels`."""
    steps: int
    epochs: float
    lr: float
    evaluations: int
    precision: str
    loss: float
    seconds_per_step: float
    tokens_per_second: float
    hours: float
    """Estimated for all steps and evaluations, at this speed."""
    memory_gb: float
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    def rows(self) -> list[tuple[str, str]]:
        """For a table: name and value."""
        rows: list[tuple[str, str]] = []
        for name, data in self.tasks.items():
            prefix = f"{name} " if len(self.tasks) > 1 else ""
            dev = "none" if data["dev"] is None else f"{data['dev']:,} examples"
            rows += [(f"{prefix}train", f"{data['train']:,} examples"), (f"{prefix}dev", dev)]
            rows.append((f"{prefix}labels", ", ".join(data["labels"]) or "none"))
        return [
            *rows,
            ("steps", f"{self.steps:,}, and {self.evaluations} evaluations"),
            ("epochs", f"{self.epochs:.3g}"),
            ("learning rate", written(self.lr)),
            ("step", f"{self.seconds_per_step:.2f} s in {self.precision}, {self.tokens_per_second:,.0f} tokens/s"),
            ("total time", f"{duration(3600 * self.hours)} at this speed"),
            ("memory", f"{self.memory_gb:.2f} GB"),
            ("first loss", f"{self.loss:.3f}"),
        ]


def finetuning_dry_run(job: FinetuningJob) -> FinetuningEstimate:
    """Read and check everything, run a few steps and extrapolate; evaluations by the tokens they read."""
    run = job.prepare()
    training, spec = run.training, run.spec
    steps = training.total_steps(spec.data.steps_per_epoch)
    interval = training.eval_every or evaluation_interval(steps, spec.evaluation_cost)
    evaluations = 0 if spec.evaluate is None else -(-steps // interval)
    measured = measure_steps(spec, training, count=_FINETUNING_STEPS)
    return FinetuningEstimate(
        tasks={
            data.name: {
                "train": len(data.train),
                "dev": None if data.dev is None else len(data.dev),
                "labels": list(data.task.fitted.labels),
            }
            for data in run.tasks
        },
        steps=steps,
        epochs=spec.data.epoch(steps),
        lr=training.lr,
        evaluations=evaluations,
        precision=measured.precision,
        loss=measured.loss,
        seconds_per_step=measured.seconds,
        tokens_per_second=measured.tokens / measured.seconds,
        hours=measured.seconds * (steps + evaluations * run.evaluation_cost()) / 3600,
        memory_gb=measured.memory_gb,
        notes=tuple(run.notes()),
    )


def dry_run(job: PretrainingJob) -> Estimate:
    """Run two steps of a job and extrapolate."""
    training = job.recipe.training
    spec, initial_model = build_training_spec(job.recipe, open_corpora(job.data), job.init)
    steps = training.total_steps(spec.data.steps_per_epoch)
    measured = measure_steps(spec, training, count=1)
    parameters = sum(parameter.numel() for parameter in spec.criterion.parameters())
    return Estimate(
        parameters=parameters,
        samples=round(spec.data.steps_per_epoch * training.batch_size),
        steps=steps,
        epochs=spec.data.epoch(steps),
        batch_size=training.batch_size,
        tokens_per_step=measured.tokens,
        precision=measured.precision,
        loss=measured.loss,
        seconds_per_step=measured.seconds,
        tokens_per_second=measured.tokens / measured.seconds,
        hours=measured.seconds * steps / 3600,
        memory_gb=measured.memory_gb,
        checkpoint_gb=parameters * 12 / 1e9,  # weights and two moments in fp32
        notes=initial_model.notes,
    )
