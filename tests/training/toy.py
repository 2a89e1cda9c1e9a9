"""The least that the loop trains: a line through points, with dropout, so that everything takes no time."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from spanlab.objectives.objective import CriterionLoss, ObjectiveLoss
from spanlab.training.config import TrainingConfig
from spanlab.training.distributed import ProcessContext
from spanlab.training.loop import Training
from spanlab.training.run_folder import RunFolder
from spanlab.training.spec import TrainingSpec

Points = NDArray[np.float32]
"""(points, 5): four coordinates and what they should give."""
HERE = ProcessContext(device=torch.device("cpu"), precision="fp32")


class ToyData:
    """Eight points a step, drawn from the step's number; `spoilt` is given those of each step to change."""

    steps_per_epoch = 10.0

    def __init__(
        self, accumulate: int = 1, spoilt: Callable[[int, Points], None] = lambda number, points: None
    ) -> None:
        self._accumulate, self._spoilt = accumulate, spoilt

    def step(self, step: int, *, rank: int, world_size: int) -> Sequence[Points]:
        draw = np.random.default_rng(step)
        points = draw.normal(size=(8, 5)).astype(np.float32)
        points[:, 4] = points[:, :4].sum(axis=1)
        self._spoilt(step, points)
        return np.array_split(points, self._accumulate * world_size)[
            rank * self._accumulate : (rank + 1) * self._accumulate
        ]

    def epoch(self, step: int) -> float:
        return step / self.steps_per_epoch

    def tokens(self, batch: Points) -> int:
        return len(batch)

    def to_device(self, batch: Points, device: torch.device) -> Tensor:
        return torch.from_numpy(batch).to(device)

    def describe(self, batch: Points) -> Mapping[str, Any]:
        return {"points": batch, "indices": np.arange(len(batch))}


class ToyModel(nn.Module):
    """Squared error of a line."""

    def __init__(self, dropout: float = 0.2) -> None:
        super().__init__()
        self.line, self.dropout = nn.Linear(4, 1), nn.Dropout(dropout)

    def counts(self, batch: Points) -> dict[str, int]:
        return {"error": len(batch)}

    def forward(self, points: Tensor, counts: Mapping[str, int] | None = None) -> CriterionLoss:
        points = points.to(self.line.weight.dtype)
        guess = self.line(self.dropout(points[:, :4])).squeeze(1)
        total = ((guess - points[:, 4]) ** 2).sum()
        part = ObjectiveLoss(total=total, count=len(points), tallies={"correct": torch.tensor(0)})
        return CriterionLoss(value=total / (counts or {"error": len(points)})["error"], parts={"error": part})

    def metrics(self, parts: Mapping[str, ObjectiveLoss]) -> dict[str, float]:
        return {"loss.error": parts["error"].total.item() / parts["error"].count}


def export(model: nn.Module, folder: Path) -> None:
    save_file({name: tensor.contiguous() for name, tensor in model.state_dict().items()}, folder / "weights")


def exported(run: RunFolder) -> dict[str, Tensor]:
    return load_file(run.model / "weights")


def toy_training(
    folder: Path,
    *,
    data: ToyData | None = None,
    evaluate: Callable[[ProcessContext], dict[str, float]] | None = None,
    higher_is_better: bool = False,
    evaluation_cost: float = 0.0,
    model: Callable[[], ToyModel] = ToyModel,
    process: ProcessContext = HERE,
    **settings: Any,
) -> Training[Points]:
    """A run in a folder; the same beginning each time."""
    torch.manual_seed(3)
    spec = TrainingSpec(
        criterion=model(),
        data=data or ToyData(),
        export=export,
        evaluate=evaluate,
        higher_is_better=higher_is_better,
        evaluation_cost=evaluation_cost,
    )
    config = TrainingConfig(**{"steps": 12, "lr": 0.05, "eval_every": 3, "save_every": 2, **settings})
    run = RunFolder(folder)
    if not run.path.exists():
        run.begin({})
    return Training(spec, config, run, process, seed=5)


def weights(training: Training[Points]) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in training.spec.criterion.state_dict().items()}


def equal(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(one[name].equal(other[name]) for name in one)
