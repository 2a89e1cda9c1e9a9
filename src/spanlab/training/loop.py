"""The training loop: steps, evaluations and checkpoints of one run, as a stream of records.

The loop never prints; consoles, files and trackers consume the records. What happens at which step depends on the
config alone, so a run that is stopped and resumed equals an uninterrupted one, bit for bit.
"""

import math
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import Generic, Literal

import torch
from torch import nn

from spanlab.atomic_io import disk_problem
from spanlab.errors import InputError
from spanlab.machine import PeakRate, peak_memory_gb
from spanlab.training.checkpoint import Progress, TrainingState, restore_snapshot, seed_process, take_snapshot
from spanlab.training.config import TrainingConfig
from spanlab.training.distributed import ProcessContext
from spanlab.training.interrupts import Interrupts
from spanlab.training.malloc import MallocTrimmer
from spanlab.training.records import Record
from spanlab.training.run_folder import RunFolder
from spanlab.training.sharding import reshard
from spanlab.training.spec import Batch, TrainingSpec, evaluation_interval
from spanlab.training.train_step import LossSpikeDetector, StepResult, TrainStep

Outcome = Literal["running", "finished", "patience", "time limit", "interrupted", "terminated"]


class Training(Generic[Batch]):
    """One run, from the start or from its newest checkpoint."""

    def __init__(
        self,
        spec: TrainingSpec[Batch],
        config: TrainingConfig,
        run: RunFolder,
        process: ProcessContext,
        *,
        seed: int = 0,
    ) -> None:
        self._malloc = MallocTrimmer()
        if config.threads:
            torch.set_num_threads(config.threads)
        self.spec, self.config, self.run, self.process = spec, config, run, process
        self.steps = config.total_steps(spec.data.steps_per_epoch)
        self.progress = Progress()
        self.outcome: Outcome = "running"
        self._eval_every = config.eval_every or evaluation_interval(self.steps, spec.evaluation_cost)
        self._save_every = config.save_every or config.eval_every or evaluation_interval(self.steps, 0)
        self._train_step = TrainStep(spec, config, process, self.steps, run.path)
        self._state = TrainingState(
            model=self._train_step.model,
            optimiser=self._train_step.optimiser,
            average=self._train_step.average,
            process=process,
            seed=seed,
        )
        self._spikes = LossSpikeDetector(config.spike_factor)
        self._peak = PeakRate(process.device.type, process.precision) if spec.flops_per_token else None
        self.interrupts = Interrupts()
        self._run_start = self._session_start = time.perf_counter()
        seed_process(process, seed)

    def resume(self) -> tuple[str, ...]:
        """Restore the newest intact checkpoint, if there is one; returns notes for the user."""
        checkpoints = self.run.checkpoints
        snapshot = checkpoints.newest()
        notes = tuple(f"{reason}; skipped" for reason in checkpoints.damaged.values())
        if snapshot is None and notes:
            cause = f"no intact checkpoint found: {', '.join(checkpoints.damaged.values())}"
            raise InputError(cause, path=checkpoints.folder, fix="start over with --overwrite")
        if snapshot is None:
            return ("stopped before its first checkpoint; starting from the first step",)
        restore_snapshot(self._state, snapshot)
        self.progress = snapshot.progress
        self._spikes.recent = snapshot.progress.recent_loss
        self._run_start -= self.progress.seconds
        if self._train_step.scaler.is_enabled() and self.progress.loss_scale is not None:
            state = self._train_step.scaler.state_dict() | {"scale": self.progress.loss_scale}
            self._train_step.scaler.load_state_dict(state)
        return (*notes, f"resumed after step {self.progress.step}")

    def records(self) -> Iterator[Record]:
        """Train; yields a record after every step and every evaluation."""
        with self.interrupts:
            if self._evaluation_due():  # the run was stopped between a step and its evaluation
                yield self._evaluate()
            while not self._over():
                result, record = self._step()
                yield record
                if result.stop_requested:  # without an evaluation that is due: it comes first after --resume
                    self.save()
                    break
                if self._evaluation_due():
                    yield self._evaluate()
                if self._save_due():
                    self.save()
        self.outcome = self._final_outcome()
        if self.process.is_main:
            self.run.write_status(self.outcome, self.progress, self.steps)

    def save(self) -> None:
        """Write a checkpoint and, unless a best model was selected on held-out data, export the current model."""
        scale = self._train_step.scaler.get_scale() if self._train_step.scaler.is_enabled() else None
        self.progress = replace(self.progress, seconds=time.perf_counter() - self._run_start, loss_scale=scale)
        snapshot = take_snapshot(self._state, self.progress)
        if self.progress.best is None:
            self._export()
        if self.process.is_main:
            self.run.checkpoints.write(snapshot, keep=self.config.keep)
            self.run.write_status("running", self.progress, self.steps)
        self.process.barrier()

    def fail(self, error: BaseException) -> None:
        """Record in the status of the run why it did not end by itself; the disk may be full."""
        interrupted = isinstance(error, KeyboardInterrupt)
        problem = disk_problem(error) if isinstance(error, OSError) else None
        message = None if interrupted else problem or str(error) or type(error).__name__
        with suppress(OSError):
            self.run.write_status("interrupted" if interrupted else "failed", self.progress, self.steps, message)

    def unsharded_model(self) -> nn.Module | None:
        """The model with all its weights on the main process, None elsewhere. Collective: call on all processes."""
        return self._train_step.unsharded.get()

    def _over(self) -> bool:
        patience = self.config.patience
        return self.progress.step >= self.steps or (patience is not None and self.progress.worse >= patience)

    def _final_outcome(self) -> Outcome:
        if self._over() and not self._evaluation_due():
            return "finished" if self.progress.step >= self.steps else "patience"
        if self.interrupts.received == signal.SIGINT:
            return "interrupted"
        return "time limit" if self._out_of_time() else "terminated"

    def _out_of_time(self) -> bool:
        limit = self.config.time_limit
        return limit is not None and time.perf_counter() - self._session_start >= 60 * limit

    def _evaluation_due(self) -> bool:
        step = self.progress.step
        scheduled = step > 0 and (step % self._eval_every == 0 or step >= self.steps)
        return self.spec.evaluate is not None and scheduled and self.progress.evaluated != step

    def _save_due(self) -> bool:
        return self.progress.step % self._save_every == 0 or self._over()

    def _step(self) -> tuple[StepResult, Record]:
        start = time.perf_counter()
        stop = self.interrupts.received is not None or self._out_of_time()
        result = self._train_step.step(self.progress.step, stop=stop)
        tokens_per_second = result.tokens / (time.perf_counter() - start)
        self._malloc.after_step()
        notes = self._spikes.update(result.loss)
        self.progress = replace(self.progress, step=self.progress.step + 1, recent_loss=self._spikes.recent)
        metrics = {
            "loss": result.loss,
            **self._train_step.trainable.metrics(result.parts),
            "lr": result.lr,
            "grad_norm": result.grad_norm,
            "tokens_per_second": tokens_per_second,
            "memory_gb": peak_memory_gb(self.process.device.type),
        }
        if self.spec.flops_per_token and self._peak is not None:
            rate = tokens_per_second * self.spec.flops_per_token / self.process.world_size
            share = self._peak.share(rate)
            metrics |= {} if share is None else {"peak_share": share}
        return result, self._record("train", metrics, notes)

    def _evaluate(self) -> Record:
        """Score the model on held-out data, and export it if it is the best so far."""
        assert self.spec.evaluate is not None
        self._train_step.model.eval()
        with torch.no_grad(), self._averaged():
            scores = self.spec.evaluate(self.process)
        reshard(self._train_step.model)
        score, best = scores[self.spec.primary], self.progress.best
        improved = best is None or (score > best if self.spec.higher_is_better else score < best)
        improved = improved and not math.isnan(score)
        self.progress = replace(self.progress, evaluated=self.progress.step, worse=self.progress.worse + 1)
        if improved:
            self.progress = replace(self.progress, best=score, best_step=self.progress.step, worse=0)
            self._export()
        return self._record("dev", scores, ("the best so far",) if improved else ())

    def _export(self) -> None:
        with self._averaged():
            model = self.unsharded_model()
            if model is not None:
                self.run.put_model(lambda folder: self.spec.export(model, folder))
            self.process.barrier()

    def _averaged(self) -> ExitStack:
        """Context in which the weights are their moving average, with `training.ema`."""
        stack = ExitStack()
        if self._train_step.average is not None:
            stack.enter_context(self._train_step.average.swapped())
        return stack

    def _record(self, split: Literal["train", "dev"], metrics: dict[str, float], notes: tuple[str, ...]) -> Record:
        step = self.progress.step
        return Record(step=step, epoch=self.spec.data.epoch(step), split=split, metrics=metrics, notes=notes)
