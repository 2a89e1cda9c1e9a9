"""Run folders as a training loop leaves them, with numbers that look like those of a real run."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import yaml

CONFIG: dict[str, Any] = {
    "system": "spanbert",
    "size": "mini",
    "seed": 0,
    "data": {"blocks": "documents", "length": 128},
    "masking": {"law": "span", "ratio": 0.15, "geometric_p": 0.2, "max_length": 10},
    "objectives": {"mlm": 1.0, "sbo": 1.0},
    "training": {"steps": 4000, "batch_size": 32, "lr": 0.002, "warmup": 0.1, "schedule": "linear"},
}


def records(steps: int, *, every: int = 200, seed: int = 0) -> list[dict[str, Any]]:
    """One record a training step, an evaluation now and then, one spike."""
    draws = np.random.default_rng(seed)
    told: list[dict[str, Any]] = []
    for step in range(1, steps + 1):
        done = step / steps
        mlm, sbo = (
            low + high * math.exp(-6 * done) + 0.6 * math.exp(-90 * done) for low, high in ((4.6, 2.9), (5.3, 2.4))
        )
        spike = 3.5 if step == steps // 3 else 0.0
        record = {"step": step, "epoch": round(2.5 * done, 6), "split": "train"}
        noisy = {"mlm": mlm + draws.normal(0, 0.16) + spike, "sbo": sbo + draws.normal(0, 0.19)}
        record |= {"loss": sum(noisy.values()), **{f"loss.{name}": value for name, value in noisy.items()}}
        record |= {
            "lr": 0.002 * min(done / 0.1, (1 - done) / 0.9),
            "grad_norm": abs(draws.normal(0.9, 0.2)) + 4 * spike,
        }
        record |= {
            "tokens_per_second": draws.normal(9800, 420),
            "peak_share": draws.normal(0.61, 0.02),
            "memory_gb": 1.9,
        }
        if spike:
            record["notes"] = ["the loss is 3.2 times its recent mean"]
        told.append(record)
        if step % every == 0 or step == steps:
            held_out = {"loss.mlm": mlm + 0.05, "loss.sbo": sbo + 0.09}
            scores = {
                "accuracy.mlm": 0.32 * done**0.5,
                "accuracy.sbo": 0.22 * done**0.5,
                "perplexity.mlm": math.exp(mlm),
            }
            total = {"loss": sum(held_out.values())}
            told.append({"step": step, "epoch": round(2.5 * done, 6), "split": "dev", **total, **held_out, **scores})
    return told


def write_run(
    folder: Path, *, steps: int = 400, fillings: dict[str, Any] | None = None, state: str = "finished"
) -> Path:
    """A whole run folder."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {**CONFIG, "training": {**CONFIG["training"], "steps": steps}}
    (folder / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    told = records(steps, every=max(1, steps // 20))
    (folder / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in told))
    environment = {"spanlab": "0.1", "torch": "2.13.0", "devices": ["cpu"], "threads": 2, "gflops": {"fp32": 331.0}}
    (folder / "environment.json").write_text(json.dumps(environment))
    best = {"score": told[-1]["loss"], "step": steps}
    status = {"state": state, "step": steps, "steps": steps, "seconds": 1264.2, "best": best}
    (folder / "status.json").write_text(json.dumps(status))
    if fillings is not None:
        (folder / "fillings.json").write_text(json.dumps(fillings))
    for step in (steps // 2, steps):
        checkpoint = folder / "checkpoints" / f"step-{step:08d}"
        checkpoint.mkdir(parents=True, exist_ok=True)
        (checkpoint / "weights.safetensors").write_bytes(bytes(1500))
        (checkpoint / "state.json").write_text("{}")
    return folder
