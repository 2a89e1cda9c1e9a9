"""The budget of every pre-training of a study: time, tokens or FLOPs, as a number of steps.

A job and a budget enter; the number of steps leaves. Tokens and FLOPs are counted on the batches of the run itself, so
that every machine gives the same number; time is measured here, once for each recipe, and kept with the study.
"""

import math
import re
from dataclasses import dataclass
from typing import Any, Literal

from spanlab.errors import ConfigError, InputError
from spanlab.pretraining.build import build_training_spec
from spanlab.training.spec import StepData
from spanlab.workflows.budget import pretraining_within
from spanlab.workflows.pretrain import PretrainingJob, open_corpora

Unit = Literal["seconds", "tokens", "FLOPs"]
_TIME = {"s": 1.0, "m": 60.0, "h": 3600.0}
_PREFIXES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "B": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_PATTERN = re.compile(
    r"\s*(?P<amount>\d{1,18}(?:\.\d{1,9})?(?:[eE]\+?\d{1,2})?)\s*(?:(?P<time>[smh])|(?P<prefix>[kMGBTPE]?)\s*"
    r"(?P<unit>tokens?|flops))\s*",
    re.IGNORECASE,
)
_SAMPLED_STEPS = 32


@dataclass(frozen=True, kw_only=True)
class Budget:
    """An amount of seconds, tokens or FLOPs."""

    amount: float
    unit: Unit

    @classmethod
    def parse(cls, text: str) -> "Budget":
        """From `10m`, `20M tokens` or `3e15 FLOPs`."""
        match = _PATTERN.fullmatch(text)
        # Upper and lower case tell 10m, minutes, from 10M, which needs a unit.
        prefix = match["prefix"] or "" if match else ""
        prefix = prefix.lower() if prefix == "K" else prefix.upper() if prefix != "k" else prefix
        if match is None or (match["time"] and not match["time"].islower()):
            raise ConfigError(f"'{text}' is not a budget", fix="write 10m, 1.5h, 20M tokens or 3e15 FLOPs")
        amount = float(match["amount"])
        if match["time"]:
            return cls(amount=amount * _TIME[match["time"]], unit="seconds")
        unit: Unit = "tokens" if match["unit"].lower().startswith("token") else "FLOPs"
        return cls(amount=amount * _PREFIXES[prefix], unit=unit)

    def steps(self, job: PretrainingJob) -> int:
        """The number of steps of a run within the budget; raises if it is less than one."""
        if self.unit == "seconds":
            steps = pretraining_within(job, self.amount).recipe.training.steps
            assert steps is not None
            return steps
        spec, _ = build_training_spec(job.recipe, open_corpora(job.data), job.init)
        per_step = tokens_per_step(spec.data, job.recipe.training.total_steps(spec.data.steps_per_epoch))
        if self.unit == "FLOPs":
            if spec.flops_per_token is None:
                raise InputError("the FLOPs of this model are not known", fix="give a budget of tokens or of time")
            per_step *= spec.flops_per_token
        steps = math.floor(self.amount / per_step)
        if steps < 1:
            cause = f"the budget of {self.amount:.3g} {self.unit} is too small: a step takes {per_step:.3g}"
            raise ConfigError(cause, fix=f"allow at least {per_step:.1e} {self.unit}, better a thousand times as many")
        return steps


def tokens_per_step(data: StepData[Any], steps: int) -> float:
    """The mean number of tokens of a step, from steps spread over the run."""
    sampled = sorted({index * steps // _SAMPLED_STEPS for index in range(_SAMPLED_STEPS)})
    tokens = [data.tokens(batch) for step in sampled for batch in data.step(step, rank=0, world_size=1)]
    return sum(tokens) / len(sampled)
