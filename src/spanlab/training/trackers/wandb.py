"""Weights & Biases: its files in `wandb/` of the run folder, its settings from the environment as everywhere."""

import os

from spanlab.errors import ConfigError
from spanlab.training.records import Record
from spanlab.training.trackers.tracker import TrackedRun, numbers


class WeightsAndBiases:
    """Logs to one W&B run; WANDB_PROJECT, WANDB_ENTITY and WANDB_MODE say where, the project is else `spanlab`."""

    def __init__(self, run: TrackedRun) -> None:
        import wandb

        known = run.identity("wandb")
        try:
            self._run = wandb.init(
                project=os.environ.get("WANDB_PROJECT", "spanlab"),
                name=run.name,
                dir=str(run.folder),
                config=dict(run.config),
                id=known,
                resume="allow" if known else None,
                settings=wandb.Settings(console="off"),
            )
        except wandb.errors.Error as error:
            reason = str(error).splitlines()[0].rstrip(".")
            raise ConfigError(f"W&B: {reason}", fix="log in with `wandb login`, or set WANDB_MODE=offline") from None
        run.remember("wandb", self._run.id)
        # Steps are a number of ours: W&B's own counter drops what a resumed run does a second time.
        self._run.define_metric("step")
        self._run.define_metric("*", step_metric="step")

    def log(self, record: Record) -> None:
        """One row a record."""
        self._run.log({**numbers(record), "step": record.step, "epoch": record.epoch})

    def close(self) -> None:
        """Wait until all is written."""
        self._run.finish()
