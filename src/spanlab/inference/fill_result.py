"""What filling masks gives: candidates for every mask by each head, fillings of every run, all as plain values."""

from dataclasses import dataclass
from typing import Any, Literal

from spanlab.config import to_mapping

Law = Literal["mlm", "mlm+sbo"]
"""By which heads a run was filled."""


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A token that may stand at a mask."""

    token: str
    """As the vocabulary spells it."""
    text: str
    """As a person reads it."""
    begins_word: bool
    """False where it goes on with the word before it."""
    probability: float
    """Of the whole vocabulary."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """One mask."""

    start: int
    end: int
    """Its characters in the user's text, end exclusive."""
    mlm: tuple[Candidate, ...]
    sbo: tuple[Candidate, ...] | None
    """None where the span boundary head is not there, or does not know a place that deep in a span."""


@dataclass(frozen=True, kw_only=True)
class Filling:
    """Tokens for all masks of a run."""

    text: str
    tokens: tuple[str, ...]
    score: float
    """The mean log probability of a token."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """Masks that stand next to each other."""

    start: int
    end: int
    """From the first character of the first mask to the end of the last."""
    places: tuple[Place, ...]
    fillings: dict[Law, tuple[Filling, ...]]
    """The best first, while other runs stay masked."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class FillResult:
    """Everything found for one text."""

    text: str
    """As the user gave it."""
    filled: str
    """With the best filling of every run, by both heads where there are two."""
    runs: tuple[Run, ...]
    notes: tuple[str, ...] = ()
    """What could not be done, and what stood in for it."""

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return to_mapping(self)
