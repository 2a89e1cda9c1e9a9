"""The loop: steps, evaluations and checkpoints of one run, as a stream of records that others print, plot and track.

The library itself never prints. What happens at which step is a function of the settings alone, so a run that was
stopped and resumed does what an undisturbed one does, bit for bit.
"""

import math
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Generic, Literal

import torch
from torch import nn

from spanlab.machine import matrix_rate, peak_memory_gb
from spanlab.training.checkpoint import Parts, Progress, restore_snapshot, seed_process, take_snapshot
from spanlab.training.config import TrainingConfig
from spanlab.training.distributed import ProcessContext, put_shards_back
from spanlab.training.interrupts import Interrupts
from spanlab.training.malloc import FreedMemory
from spanlab.training.records import Record
from spanlab.training.run_folder import RunFolder
from spanlab.training.spec import Batch, TrainingSpec
from spanlab.training.train_step import LossSpikeDetector, StepResult, TrainStep

Outcome = Literal["running", "finished", "patience", "time limit", "interrupted", "terminated"]
EVALUATIONS = 20
"""How often a run is evaluated when nothing else is asked for."""


class Training(Generic[Batch]):
    """One run, from its beginning or from its newest checkpoint."""

    def __init__(
        self,
        work: TrainingSpec[Batch],
        config: TrainingConfig,
        run: RunFolder,
        process: ProcessContext,
        *,
        seed: int = 0,
    ) -> None:
        self._memory = FreedMemory()
        if config.threads:
            torch.set_num_threads(config.threads)
        self.work, self.config, self.run, self.process = work, config, run, process
        self.steps = config.total_steps(work.data.steps_per_epoch)
        self.progress = Progress()
        self.outcome: Outcome = "running"
        self._eval_every = config.eval_every or max(1, self.steps // EVALUATIONS)
        self._save_every = config.save_every or self._eval_every
        self._stepper = TrainStep(work, config, process, self.steps, run.path)
        self._parts = Parts(
            model=self._stepper.model,
            optimiser=self._stepper.optimiser,
            average=self._stepper.average,
            process=process,
            seed=seed,
        )
        self._spikes = LossSpikeDetector(config.spike_factor)
        self._peak_rate = matrix_rate(process.device.type, process.precision) if work.flops_per_token else 0.0
        self._interrupts = Interrupts()
        self._began = self._resumed = time.perf_counter()
        seed_process(process, seed)

    def resume(self) -> tuple[str, ...]:
        """Go on from the newest whole checkpoint, if there is one; what a person should know about it."""
        checkpoints = self.run.checkpoints
        snapshot = checkpoints.newest()
        notes = tuple(f"{reason}; going back to an earlier one" for reason in checkpoints.damaged.values())
        if snapshot is None:
            return (*notes, "there is no checkpoint yet: starting from the first step")
        restore_snapshot(self._parts, snapshot)
        self.progress = snapshot.progress
        self._spikes.recent = snapshot.progress.recent_loss
        self._began -= self.progress.seconds
        if self._stepper.scaler.is_enabled() and self.progress.loss_scale is not None:
            state = self._stepper.scaler.state_dict() | {"scale": self.progress.loss_scale}
            self._stepper.scaler.load_state_dict(state)
        return (*notes, f"resumed after step {self.progress.step}")

    def records(self) -> Iterator[Record]:
        """Train; each record comes when its step, or the evaluation after it, is done."""
        with self._interrupts:
            if self._evaluation_due():  # the run was stopped between a step and its evaluation
                yield self._evaluate()
            while not self._over():
                result, record = self._step()
                yield record
                if result.asked_to_stop:  # at once: an evaluation that is due now comes first after --resume
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
        """Write a checkpoint; as long as no model was chosen on held-out data, also the model as it is now."""
        scale = self._stepper.scaler.get_scale() if self._stepper.scaler.is_enabled() else None
        self.progress = replace(self.progress, seconds=time.perf_counter() - self._began, loss_scale=scale)
        snapshot = take_snapshot(self._parts, self.progress)
        if self.progress.best is None:
            self._export()
        if self.process.is_main:
            self.run.checkpoints.write(snapshot, keep=self.config.keep)
            self.run.write_status("running", self.progress, self.steps)
        self.process.barrier()

    def whole_model(self) -> nn.Module | None:
        """The model with all its weights, on the first process alone; all processes must ask for it together."""
        return self._stepper.whole.get()

    def _over(self) -> bool:
        patience = self.config.patience
        return self.progress.step >= self.steps or (patience is not None and self.progress.worse >= patience)

    def _final_outcome(self) -> Outcome:
        if self._over() and not self._evaluation_due():
            return "finished" if self.progress.step >= self.steps else "patience"
        if self._interrupts.received == signal.SIGINT:
            return "interrupted"
        return "time limit" if self._out_of_time() else "terminated"

    def _out_of_time(self) -> bool:
        limit = self.config.time_limit
        return limit is not None and time.perf_counter() - self._resumed >= 60 * limit

    def _evaluation_due(self) -> bool:
        step = self.progress.step
        at_its_time = step > 0 and (step % self._eval_every == 0 or step >= self.steps)
        return self.work.evaluate is not None and at_its_time and self.progress.evaluated != step

    def _save_due(self) -> bool:
        return self.progress.step % self._save_every == 0 or self._over()

    def _step(self) -> tuple[StepResult, Record]:
        began = time.perf_counter()
        wish = self._interrupts.received is not None or self._out_of_time()
        result = self._stepper.step(self.progress.step, stop=wish)
        speed = result.tokens / (time.perf_counter() - began)
        self._memory.after_step()
        notes = self._spikes.look(result.loss)
        self.progress = replace(self.progress, step=self.progress.step + 1, recent_loss=self._spikes.recent)
        metrics = {
            "loss": result.loss,
            **self._stepper.trainable.metrics(result.parts),
            "lr": result.lr,
            "grad_norm": result.grad_norm,
            "tokens_per_second": speed,
            "memory_gb": peak_memory_gb(self.process.device.type),
        }
        if self.work.flops_per_token and self._peak_rate:
            metrics["peak_share"] = speed * self.work.flops_per_token / (self._peak_rate * self.process.world_size)
        return result, self._record("train", metrics, notes)

    def _evaluate(self) -> Record:
        """Score the model on held-out data, and keep it if it is the best so far."""
        assert self.work.evaluate is not None
        self._stepper.model.eval()
        with torch.no_grad(), self._averaged():
            scores = self.work.evaluate(self.process)
        put_shards_back(self._stepper.model)
        score, best = scores[self.work.primary], self.progress.best
        higher = self.work.higher_is_better
        better = not math.isnan(score) and (best is None or (score > best if higher else score < best))
        self.progress = replace(self.progress, evaluated=self.progress.step, worse=self.progress.worse + 1)
        if better:
            self.progress = replace(self.progress, best=score, best_step=self.progress.step, worse=0)
            self._export()
        return self._record("dev", scores, ("the best so far",) if better else ())

    def _export(self) -> None:
        with self._averaged():
            model = self.whole_model()
            if model is not None:
                self.run.put_model(lambda folder: self.work.export(model, folder))
            self.process.barrier()

    def _averaged(self) -> ExitStack:
        """Inside, the weights are their moving average, where one is kept."""
        stack = ExitStack()
        if self._stepper.average is not None:
            stack.enter_context(self._stepper.average.swapped())
        return stack

    def _record(self, split: Literal["train", "dev"], metrics: dict[str, float], notes: tuple[str, ...]) -> Record:
        step = self.progress.step
        return Record(step=step, epoch=self.work.data.epoch(step), split=split, metrics=metrics, notes=notes)
