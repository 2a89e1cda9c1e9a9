"""A run tried for a moment: one step to warm up, one to measure, nothing kept; and what the whole of it would take."""

import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from spanlab.machine import peak_memory_gb
from spanlab.pretraining.build import build_work
from spanlab.training.distributed import current_process
from spanlab.training.malloc import keep_freed_memory
from spanlab.training.train_step import TrainStep
from spanlab.workflows.pretrain import PretrainingJob, open_corpora


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """What a run would take here."""

    parameters: int
    samples: int
    """Of the first length, held-out ones aside."""
    steps: int
    epochs: float
    batch_size: int
    tokens_per_step: int
    precision: str
    loss: float
    seconds_per_step: float
    tokens_per_second: float
    hours: float
    """For the whole run at this speed."""
    memory_gb: float
    """The most this process has held."""
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
            ("a step", f"{self.tokens_per_step:,} tokens, {self.seconds_per_step:.2f} s in {self.precision}"),
            ("speed", f"{self.tokens_per_second:,.0f} tokens a second"),
            ("the whole run", f"{self.hours:,.1f} hours at this speed"),
            ("memory", f"{self.memory_gb:.2f} GB"),
            ("a checkpoint", f"{self.checkpoint_gb:.2f} GB on disk"),
            ("first loss", f"{self.loss:.3f}"),
            *(("note", line) for line in self.notes),
        ]


def dry_run(job: PretrainingJob) -> Estimate:
    """Try two steps of a job."""
    keep_freed_memory()
    training = job.recipe.training
    process = current_process(training.device, training.precision)
    work, beginning = build_work(job.recipe, open_corpora(job.data), job.init)
    steps = training.total_steps(work.data.steps_per_epoch)
    with tempfile.TemporaryDirectory() as scratch:
        train_step = TrainStep(work, training, process, steps, Path(scratch))
        first = train_step.step(0, stop=False)
        began = time.perf_counter()
        second = train_step.step(min(1, steps - 1), stop=False)
        seconds = time.perf_counter() - began
    parameters = sum(parameter.numel() for parameter in work.criterion.parameters())
    return Estimate(
        parameters=parameters,
        samples=round(work.data.steps_per_epoch * training.batch_size),
        steps=steps,
        epochs=work.data.epoch(steps),
        batch_size=training.batch_size,
        tokens_per_step=second.tokens,
        precision=process.precision,
        loss=first.loss,
        seconds_per_step=seconds,
        tokens_per_second=second.tokens / seconds,
        hours=seconds * steps / 3600,
        memory_gb=peak_memory_gb(process.device.type),
        checkpoint_gb=parameters * 12 / 1e9,  # weights and two moments, in single precision
        notes=beginning.notes,
    )
