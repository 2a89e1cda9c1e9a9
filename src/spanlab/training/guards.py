"""What watches over a run: numbers that are no numbers stop it, a loss that jumps is reported."""

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from spanlab.errors import RunError

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
