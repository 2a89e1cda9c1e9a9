"""One step: micro-batches in, updated weights out.

The counts of all micro-batches are added up over all processes first, and only then the model runs: every loss is
divided by what the whole step holds, so that neither accumulation nor the number of processes changes what is learnt.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, cast

import numpy as np
import torch
from torch.distributed.tensor import DTensor

from spanlab.errors import RunError
from spanlab.objectives.objective import ObjectiveLoss
from spanlab.training.config import TrainingConfig
from spanlab.training.distributed import ProcessContext, WholeModel, sending, spread
from spanlab.training.ema import ExponentialMovingAverage
from spanlab.training.optim import build_optimiser, set_learning_rate
from spanlab.training.schedules import learning_rate_factor
from spanlab.training.spec import Batch, Trainable, TrainingSpec

_SMOOTHING = 0.98


class LossSpikeDetector:
    """Compares each loss with the running mean of those before it."""

    def __init__(self, factor: float, recent: float | None = None) -> None:
        self.factor, self.recent = factor, recent

    def look(self, loss: float) -> tuple[str, ...]:
        """A note where the loss has jumped."""
        recent = self.recent
        self.recent = loss if recent is None else _SMOOTHING * recent + (1 - _SMOOTHING) * loss
        if recent is not None and loss > self.factor * recent > 0:
            return (f"loss spike: {loss:.3f}, {loss / recent:.1f} times its recent mean {recent:.3f}",)
        return ()


def check_finite(
    step: int, loss: float, norm: float, batches: Iterable[Mapping[str, Any]], folder: Path, *, process: int = 0
) -> None:
    """Stop a run whose loss or gradient is not a number, before its weights are touched."""
    if math.isfinite(loss) and math.isfinite(norm):
        return
    place = folder / (f"fault-step-{step}" + (f"-process-{process}" if process else ""))
    samples = save_batches(place, step, loss, norm, batches)
    shown = ", ".join(map(str, samples[:8])) + (", …" if len(samples) > 8 else "")
    raise RunError(
        f"step {step} gave a loss of {loss} and a gradient norm of {norm}; the weights are those of step {step - 1}. "
        f"Its batch is in {place} (samples {shown}). A lower training.lr, a longer warm-up or precision=fp32 may help; "
        "--resume goes on from the last checkpoint"
    )


def save_batches(folder: Path, step: int, loss: float, norm: float, batches: Iterable[Mapping[str, Any]]) -> list[int]:
    """Leave the batches of a step for inspection, as arrays; the indices of their samples."""
    folder.mkdir(parents=True, exist_ok=True)
    samples: list[int] = []
    for number, batch in enumerate(batches):
        arrays = {name: np.asarray(value) for name, value in batch.items()}
        np.savez(folder / f"batch-{number}.npz", **arrays)  # type: ignore[arg-type]
        samples += np.asarray(batch.get("indices", ())).tolist()
    found = {"step": step, "loss": str(loss), "grad_norm": str(norm), "samples": samples}
    (folder / "fault.json").write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    return samples


LossParts = Mapping[str, ObjectiveLoss]


def add_parts(batches: Iterable[LossParts]) -> dict[str, ObjectiveLoss]:
    """The losses of several batches as those of one; at least one batch is needed."""
    added: dict[str, ObjectiveLoss] = {}
    for parts in batches:
        for name, part in parts.items():
            added[name] = added[name] + part.detached() if name in added else part.detached()
    return added


def add_over_processes(parts: LossParts, process: ProcessContext) -> LossParts:
    """The losses of all processes as those of one."""
    if process.world_size == 1:
        return parts
    numbers = [number for part in parts.values() for number in _numbers(part)]
    added = iter(process.all_reduce_sum(numbers))
    return {
        name: ObjectiveLoss(
            total=torch.tensor(next(added), dtype=torch.float64),
            count=int(next(added)),
            tallies={tally: torch.tensor(int(next(added))) for tally in part.tallies},
        )
        for name, part in parts.items()
    }


def _numbers(part: ObjectiveLoss) -> list[float]:
    return [part.total.item(), part.count, *(tally.item() for tally in part.tallies.values())]


@dataclass(frozen=True, kw_only=True)
class StepResult:
    """What one step found, over all processes."""

    loss: float
    parts: LossParts
    lr: float
    grad_norm: float
    tokens: int
    asked_to_stop: bool
    """Whether any process was asked to: all of them then stop after the same step."""


class TrainStep(Generic[Batch]):
    """The model on its device, its optimiser, and everything else that a step moves."""

    def __init__(
        self,
        work: TrainingSpec[Batch],
        config: TrainingConfig,
        process: ProcessContext,
        steps: int,
        fault_folder: Path,
    ) -> None:
        self.work, self.config, self.process, self.steps = work, config, process, steps
        self.model = work.criterion.to(device=process.device, dtype=process.dtype)
        if config.compile:
            self.model.compile()
        self.whole = WholeModel(self.model, process, config.parallel)
        self.spread = spread(self.model, process, config.parallel, work.shard_layers, idle_weights=work.idle_weights)
        self.optimiser = build_optimiser(self.model, config)
        self.scaler = torch.amp.GradScaler(process.device.type, enabled=process.precision == "fp16")
        self.average = ExponentialMovingAverage(self.model, config.ema) if config.ema else None
        self._fault_folder = fault_folder

    @property
    def trainable(self) -> Trainable:
        """The model as the loop sees it."""
        return cast(Trainable, self.model)

    def step(self, number: int, *, stop: bool) -> StepResult:
        """Train on the samples of step `number`, from 0; `stop`: this process was asked to, and tells the others."""
        self.model.train()
        batches = self.work.data.step(number, part=self.process.rank, parts=self.process.world_size)
        counts, tokens, stops = self._add_up(batches, stop)
        lr = self.config.lr * learning_rate_factor(number, self.steps, self.config)
        set_learning_rate(self.optimiser, lr)
        loss, parts = self._backward(batches, counts)
        norm = self._clip()
        self._update(number, loss, norm, batches)
        return StepResult(loss=loss, parts=parts, lr=lr, grad_norm=norm, tokens=tokens, asked_to_stop=stops > 0)

    def _add_up(self, batches: Sequence[Batch], stop: bool) -> tuple[dict[str, int], int, int]:
        """Counts by loss, tokens, and wishes to stop, over all micro-batches and processes."""
        here: dict[str, float] = {}
        for batch in batches:
            for name, count in self.trainable.counts(batch).items():
                here[name] = here.get(name, 0) + count
        tokens = sum(self.work.data.tokens(batch) for batch in batches)
        *counts, all_tokens, stops = map(int, self.process.all_reduce_sum([*here.values(), tokens, stop]))
        return dict(zip(here, counts, strict=True)), all_tokens, stops

    def _backward(self, batches: Sequence[Batch], counts: Mapping[str, int]) -> tuple[float, LossParts]:
        """Gradients of the whole step; the loss and its parts over all processes."""
        value, all_parts = torch.zeros((), dtype=torch.float64), []
        for number, batch in enumerate(batches):
            tensors = self.work.data.to_device(batch, self.process.device)
            with sending(self.spread, last=number == len(batches) - 1):
                with self.process.autocast():
                    result = self.spread(tensors, counts)
                # Wrappers average over processes what is to be added.
                self.scaler.scale(result.value * self.process.world_size).backward()
            value += result.value.detach().cpu()
            all_parts.append(result.parts)
        (loss,) = self.process.all_reduce_sum([value.item()])
        return loss, add_over_processes(add_parts(all_parts), self.process)

    def _clip(self) -> float:
        """Shorten the gradient to the largest norm allowed; the norm it had."""
        self.scaler.unscale_(self.optimiser)
        parameters = [parameter for parameter in self.model.parameters() if parameter.grad is not None]
        norm = torch.nn.utils.clip_grad_norm_(parameters, self.config.clip or math.inf, foreach=True)
        return (norm.full_tensor() if isinstance(norm, DTensor) else norm).item()

    def _update(self, number: int, loss: float, norm: float, batches: Sequence[Batch]) -> None:
        # A scaler that finds infinite gradients skips the step and lowers its scale: that is no fault.
        if not self.scaler.is_enabled() or not math.isfinite(loss):
            described = (self.work.data.describe(batch) for batch in batches)
            check_finite(number + 1, loss, norm, described, self._fault_folder, process=self.process.rank)
        self.scaler.step(self.optimiser)
        self.scaler.update()
        self.optimiser.zero_grad(set_to_none=True)
        if self.average is not None:
            self.average.update(number)
