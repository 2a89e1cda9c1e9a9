"""Learning rate and epochs of a run whose user gives none: by the width of the encoder and the number of examples.

Published settings are those of encoders with a hidden size of 768 or 1024 on thousands of examples.

    lr           the published one; below a hidden size of 768, times (768 / width)^2.5; where the encoder's own
                 matrices are frozen (LoRA, an added task), 5 times as high; at most 36 times the published one
    lr_factors   of a faster head: the published one by the square root of the factor above, at least 1
    epochs       the published ones, or as many as it takes for `FEWEST_STEPS` steps, at most `MOST_EPOCHS`
    warmup       the published share of the steps, whatever their number

The measurements behind it are in docs/log.md, "Fine-tuning: rates by width".
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from spanlab.tasks.config import PUBLISHED_WIDTH
from spanlab.training.config import TrainingConfig

_EXPONENT, _FROZEN, _FASTEST = 2.5, 5.0, 36.0
"""The factor on the published learning rate by width, if the encoder is frozen, and at most."""
FEWEST_STEPS = 300
MOST_EPOCHS = 30.0
PUBLISHED_RATES = (5e-6, 1e-5, 2e-5, 3e-5, 5e-5)
"""The grid that SpanBERT's paper searched, with an encoder of `PUBLISHED_WIDTH`."""
HEADS = "heads"
"""The prefix of the parameter names of heads."""
CHOSEN = ("lr", "lr_factors", "epochs")
"""The training settings that are chosen here."""
_FAR = 3.0
"""A learning rate that differs from the default by more than this factor may be why nothing was learnt."""


@dataclass(frozen=True, kw_only=True)
class Unset:
    """The training settings that the user leaves to this module."""

    lr: bool = False
    lr_factors: bool = False
    epochs: bool = False


NOTHING_UNSET = Unset()
_ALL_UNSET = Unset(lr=True, lr_factors=True, epochs=True)


def unset_settings(changes: Mapping[str, Any]) -> Unset:
    """What a user's changes to the published settings leave open."""
    given = changes.get("training")
    given = given if isinstance(given, Mapping) else {}  # what else it is, reading the settings refuses
    return Unset(
        lr="lr" not in given,
        lr_factors="lr" not in given and "lr_factors" not in given,  # a given rate keeps the published factors
        epochs="epochs" not in given and given.get("steps") is None,
    )


@dataclass(frozen=True, kw_only=True)
class RunScale:
    """What the settings follow from."""

    width: int
    """The hidden size of the encoder."""
    examples: int
    """Training examples, of all tasks."""
    published_width: int = PUBLISHED_WIDTH
    """The hidden size that the published learning rate is meant for."""
    frozen: bool = False
    """Whether only heads and adapters are trained."""

    @property
    def rate_factor(self) -> float:
        """How many times the published learning rate suits this run; 1 to train encoders of the published width."""
        faster = _by_width(self.width) * (_FROZEN if self.frozen else 1.0)
        return max(1.0, min(_FASTEST, faster) / _by_width(self.published_width))

    def choose(self, training: TrainingConfig, unset: Unset) -> TrainingConfig:
        """The settings, with those that are open, which must have their published values, chosen."""
        return replace(
            training,
            lr=self._rate(training.lr) if unset.lr else training.lr,
            lr_factors=self.slower(training.lr_factors) if unset.lr_factors else training.lr_factors,
            epochs=self._epochs(training) if unset.epochs else training.epochs,
        )

    def slower(self, lr_factors: Mapping[str, float]) -> dict[str, float]:
        """The factors of faster parts, such as new heads, on the chosen rate instead of the published one."""
        # A head reads the encoder's width, so its rate rises with it, if less; learned loss weights keep theirs.
        return {
            name: min(factor, max(1.0, factor / self.rate_factor ** (0.5 if name.startswith(HEADS) else 1.0)))
            for name, factor in lr_factors.items()
        }

    def sweep_rates(self) -> tuple[float, ...]:
        """The learning rates that a sweep tries: the published grid, moved to the width."""
        return tuple(map(self._rate, PUBLISHED_RATES))

    def explain(self, training: TrainingConfig, chosen: Unset) -> str | None:
        """One line on how the settings were chosen; None if the user gave them all."""
        parts = {}
        if chosen.lr:
            frozen = " and a frozen encoder" if self.frozen else ""
            parts["training.lr"] = f"learning rate {written(training.lr)} for width {self.width}{frozen}"
        if chosen.epochs:
            parts["training.epochs"] = f"{training.epochs:g} epochs for {self.examples:,} examples"
        return f"{', '.join(parts.values())}; set {', '.join(parts)} to change" if parts else None

    def advise(self, training: TrainingConfig, published: TrainingConfig) -> str:
        """What to change in a run that has learnt nothing; never to a value that it has already."""
        usual = self.choose(replace(published, batch_size=training.batch_size), _ALL_UNSET)
        if max(training.lr / usual.lr, usual.lr / training.lr) > _FAR:
            rate = f"the default training.lr of {written(usual.lr)} (now {written(training.lr)})"
        else:
            rate = f"other learning rates by --sweep (now {written(training.lr)})"
        if training.steps is not None:
            length = f"more training.steps (now {training.steps:,})"
        else:
            length = f"more training.epochs (now {training.epochs:g})"
        return f"{rate}, {length}, or more examples"

    def _rate(self, published: float) -> float:
        """To two significant digits, unless it is the published one itself."""
        return published if self.rate_factor == 1 else float(f"{published * self.rate_factor:.2g}")

    def _epochs(self, training: TrainingConfig) -> float | None:
        if training.epochs is None:
            return None
        needed = round(FEWEST_STEPS * training.batch_size / max(1, self.examples))
        return max(training.epochs, min(float(needed), MOST_EPOCHS))


def _by_width(width: int) -> float:
    return math.pow(max(1.0, PUBLISHED_WIDTH / width), _EXPONENT)


def written(lr: float) -> str:
    """A learning rate as papers write it: 2.7e-4."""
    digits, exponent = f"{lr:e}".split("e")
    return f"{float(digits):g}e{int(exponent)}"
