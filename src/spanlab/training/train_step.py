"""One training step: micro-batches in, updated weights out.

The counts of all micro-batches are summed over all processes before the model runs: every loss is normalised by the
counts of the whole step, so neither gradient accumulation nor the number of processes changes the result.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, cast

import numpy as np
import torch
from torch.distributed.tensor import DTensor

from spanlab.atomic_io import disk_problem, open_atomically, write_json
from spanlab.errors import RunError
from spanlab.objectives.objective import ObjectiveLoss
from spanlab.training.config import TrainingConfig
from spanlab.training.distributed import ProcessContext
from spanlab.training.ema import ExponentialMovingAverage
from spanlab.training.optim import build_optimiser, set_learning_rate
from spanlab.training.schedules import learning_rate_factor
from spanlab.training.sharding import UnshardedModel, sync_gradients, wrap_model
from spanlab.training.spec import Batch, Trainable, TrainingSpec

LossParts = Mapping[str, ObjectiveLoss]
"""Losses by objective."""
_SMOOTHING = 0.98
"""Decay of the running mean that losses are compared with."""


@dataclass(frozen=True, kw_only=True)
class StepResult:
    """Loss, learning rate and gradient norm of one step, over all processes."""

    loss: float
    parts: LossParts
    lr: float
    grad_norm: float
    tokens: int
    stop_requested: bool
    """Whether any process was asked to stop: all of them then stop after the same step."""


class TrainStep(Generic[Batch]):
    """The model on its device with its optimiser, loss scaler and moving average; `step` updates them."""

    def __init__(
        self,
        spec: TrainingSpec[Batch],
        config: TrainingConfig,
        process: ProcessContext,
        steps: int,
        fault_folder: Path,
    ) -> None:
        """`steps`: all steps of the run; `fault_folder`: where the batches of a failed step are written."""
        self.spec, self.config, self.process, self.steps = spec, config, process, steps
        self.model = spec.criterion.to(device=process.device, dtype=process.dtype)
        if config.compile:
            self.model.compile()
        self.unsharded = UnshardedModel(self.model, process, config.parallel)
        self._wrapped = wrap_model(
            self.model,
            process,
            config.parallel,
            spec.shard_layers,
            find_unused_parameters=spec.find_unused_parameters,
        )
        self.optimiser = build_optimiser(self.model, config)
        self.scaler = torch.amp.GradScaler(process.device.type, enabled=process.precision == "fp16")
        self.average = ExponentialMovingAverage(self.model, config.ema) if config.ema else None
        self._fault_folder = fault_folder

    @property
    def trainable(self) -> Trainable:
        """The model, typed by the interface of the loop."""
        return cast(Trainable, self.model)

    def step(self, step: int, *, stop: bool) -> StepResult:
        """Train on the batches of step `step`, from 0; `stop`: this process was asked to stop."""
        self.model.train()
        batches = self.spec.data.step(step, rank=self.process.rank, world_size=self.process.world_size)
        counts, tokens, stops = self._sum_counts(batches, stop)
        lr = self.config.lr * learning_rate_factor(step, self.steps, self.config)
        set_learning_rate(self.optimiser, lr)
        loss, parts = self._backward(batches, counts)
        norm = self._clip_gradients()
        self._update_weights(step, loss, norm, batches)
        return StepResult(loss=loss, parts=parts, lr=lr, grad_norm=norm, tokens=tokens, stop_requested=stops > 0)

    def _sum_counts(self, batches: Sequence[Batch], stop: bool) -> tuple[dict[str, int], int, int]:
        """Counts by loss, tokens, and the number of processes asked to stop, over all micro-batches and processes."""
        local: dict[str, float] = {}
        for batch in batches:
            for name, count in self.trainable.counts(batch).items():
                local[name] = local.get(name, 0) + count
        tokens = sum(self.spec.data.tokens(batch) for batch in batches)
        *counts, all_tokens, stops = map(int, self.process.all_reduce_sum([*local.values(), tokens, stop]))
        return dict(zip(local, counts, strict=True)), all_tokens, stops

    def _backward(self, batches: Sequence[Batch], counts: Mapping[str, int]) -> tuple[float, LossParts]:
        """Accumulate the gradients of the step; returns the loss and its parts over all processes."""
        value, all_parts = torch.zeros((), dtype=torch.float64), []
        for index, batch in enumerate(batches):
            tensors = self.spec.data.to_device(batch, self.process.device)
            with sync_gradients(self._wrapped, last=index == len(batches) - 1):
                with self.process.autocast():
                    result = self._wrapped(tensors, counts)
                # DDP and FSDP2 average gradients over processes; they must be summed.
                self.scaler.scale(result.value * self.process.world_size).backward()
            value += result.value.detach().cpu()
            all_parts.append(result.parts)
        (loss,) = self.process.all_reduce_sum([value.item()])
        return loss, all_reduce_parts(sum_parts(all_parts), self.process)

    def _clip_gradients(self) -> float:
        """Clip the gradient to the norm `config.clip`; returns its norm before."""
        self.scaler.unscale_(self.optimiser)
        parameters = [parameter for parameter in self.model.parameters() if parameter.grad is not None]
        norm = torch.nn.utils.clip_grad_norm_(parameters, self.config.clip or math.inf, foreach=True)
        return (norm.full_tensor() if isinstance(norm, DTensor) else norm).item()

    def _update_weights(self, step: int, loss: float, norm: float, batches: Sequence[Batch]) -> None:
        # A loss scaler that finds infinite gradients skips the step and lowers its scale: that is no error.
        if not self.scaler.is_enabled() or not math.isfinite(loss):
            described = (self.spec.data.describe(batch) for batch in batches)
            check_finite(step + 1, loss, norm, described, self._fault_folder, rank=self.process.rank)
        self.scaler.step(self.optimiser)
        self.scaler.update()
        self.optimiser.zero_grad(set_to_none=True)
        if self.average is not None:
            self.average.update(step)


def sum_parts(batches: Iterable[LossParts]) -> dict[str, ObjectiveLoss]:
    """The losses of one or more batches, summed by objective."""
    total: dict[str, ObjectiveLoss] = {}
    for parts in batches:
        for name, part in parts.items():
            total[name] = total[name] + part.detached() if name in total else part.detached()
    return total


def all_reduce_parts(parts: LossParts, process: ProcessContext) -> LossParts:
    """The losses of all processes, summed by objective."""
    if process.world_size == 1:
        return parts
    local: list[float] = []
    for part in parts.values():
        local += [part.total.item(), part.count, *(tally.item() for tally in part.tallies.values())]
    total = iter(process.all_reduce_sum(local))
    return {
        name: ObjectiveLoss(
            total=torch.tensor(next(total), dtype=torch.float64),
            count=int(next(total)),
            tallies={tally: torch.tensor(int(next(total))) for tally in part.tallies},
        )
        for name, part in parts.items()
    }


class LossSpikeDetector:
    """Compares each loss with the running mean of the losses before it."""

    def __init__(self, factor: float, recent: float | None = None) -> None:
        self.factor, self.recent = factor, recent

    def update(self, loss: float) -> tuple[str, ...]:
        """Include a loss in the mean; returns a note if it is more than `factor` times the mean before."""
        recent = self.recent
        self.recent = loss if recent is None else _SMOOTHING * recent + (1 - _SMOOTHING) * loss
        if recent is not None and loss > self.factor * recent > 0:
            return (f"loss spike: {loss:.3f}, {loss / recent:.1f} times its recent mean {recent:.3f}",)
        return ()


def check_finite(
    step: int, loss: float, norm: float, batches: Iterable[Mapping[str, Any]], folder: Path, *, rank: int = 0
) -> None:
    """Stop a run whose loss or gradient norm is not finite, before the weights are updated."""
    if math.isfinite(loss) and math.isfinite(norm):
        return
    path = folder / (f"fault-step-{step}" + (f"-process-{rank}" if rank else ""))
    try:
        samples = save_batches(path, step, loss, norm, batches)
        listed = ", ".join(map(str, samples[:8])) + (", …" if len(samples) > 8 else "")
        place = f"is in {path} (samples {listed})"
    except OSError as error:
        place = f"could not be written ({disk_problem(error) or error.strerror})"
    raise RunError(
        f"step {step} gave a loss of {loss} and a gradient norm of {norm}; the weights are those of step {step - 1}. "
        f"Its batch {place}. Try a lower training.lr, a longer warm-up or precision=fp32; "
        "--resume continues from the last checkpoint"
    )


def save_batches(
    folder: Path, step: int, loss: float, norm: float, batches: Iterable[Mapping[str, Any]]
) -> list[int | str]:
    """Write the batches of a step for inspection, as arrays; returns their samples: indices, or places in a file."""
    folder.mkdir(parents=True, exist_ok=True)
    samples: list[int | str] = []
    for index, batch in enumerate(batches):
        arrays = {name: np.asarray(value) for name, value in batch.items()}
        with open_atomically(folder / f"batch-{index}.npz") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
        samples += np.asarray(batch.get("sources", batch.get("indices", ()))).tolist()
    fault = {"step": step, "loss": str(loss), "grad_norm": str(norm), "samples": samples}
    write_json(folder / "fault.json", fault)
    return samples
