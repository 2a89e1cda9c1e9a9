"""What a quickstart is asked for."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from spanlab.errors import ConfigError

if TYPE_CHECKING:  # the command line reads settings before it waits for torch
    from spanlab.pretraining.recipe import Size

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}
LEAST_BUDGET = 10.0


@dataclass(frozen=True, kw_only=True)
class QuickstartSettings:
    """Where it works, on what text, for how long."""

    out: Path = Path("quickstart")
    text: tuple[str, ...] = ()
    """Plain text files to pre-train on; none: the Python language reference."""
    budget: float = 360.0
    """Seconds for all of it, about; what one step does not use the later ones get."""
    size: "Size" = "tiny"
    """Of the model that is pre-trained; in minutes a larger one sees too little text to gain from it."""
    vocabulary: int = 6000
    """Pieces of its tokenizer."""
    steps: int | None = None
    """Training steps of every run; None: as many as the budget has room for on this machine."""
    minilm: bool = True
    """Whether the packaged MiniLM takes part."""

    def __post_init__(self) -> None:
        if self.budget < LEAST_BUDGET:
            cause = f"a budget of {self.budget:g} s is too short to learn anything"
            raise ConfigError(cause, fix=f"give at least {LEAST_BUDGET:g}s, or 6m")


def parse_budget(text: str) -> float:
    """The seconds of `90s`, `6m` or `1.5h`."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smh])\s*", text)
    if match is None:
        raise ConfigError(f"'{text}' is no length of time", fix="write 90s, 6m or 1.5h")
    return float(match[1]) * _UNITS[match[2]]
