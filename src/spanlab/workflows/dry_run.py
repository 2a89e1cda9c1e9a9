"""Estimate of the time and memory of a run, from one warm-up step and one measured step; nothing is kept."""

import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from spanlab.machine import peak_memory_gb
from spanlab.pretraining.build import build_training_spec
from spanlab.training.distributed import current_process
from spanlab.training.malloc import keep_freed_memory
from spanlab.training.train_step import TrainStep
from spanlab.workflows.pretrain import PretrainingJob, open_corpora


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


def dry_run(job: PretrainingJob) -> Estimate:
    """Run two steps of a job and extrapolate."""
    keep_freed_memory()
    training = job.recipe.training
    process = current_process(training.device, training.precision)
    spec, initial_model = build_training_spec(job.recipe, open_corpora(job.data), job.init)
    steps = training.total_steps(spec.data.steps_per_epoch)
    with tempfile.TemporaryDirectory() as scratch:
        train_step = TrainStep(spec, training, process, steps, Path(scratch))
        first = train_step.step(0, stop=False)
        start = time.perf_counter()
        second = train_step.step(min(1, steps - 1), stop=False)
        seconds = time.perf_counter() - start
    parameters = sum(parameter.numel() for parameter in spec.criterion.parameters())
    return Estimate(
        parameters=parameters,
        samples=round(spec.data.steps_per_epoch * training.batch_size),
        steps=steps,
        epochs=spec.data.epoch(steps),
        batch_size=training.batch_size,
        tokens_per_step=second.tokens,
        precision=process.precision,
        loss=first.loss,
        seconds_per_step=seconds,
        tokens_per_second=second.tokens / seconds,
        hours=seconds * steps / 3600,
        memory_gb=peak_memory_gb(process.device.type),
        checkpoint_gb=parameters * 12 / 1e9,  # weights and two moments in fp32
        notes=initial_model.notes,
    )
