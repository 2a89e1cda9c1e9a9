"""The result of filling masks: candidates for every mask by each head, and fillings of every run of masks."""

from dataclasses import dataclass
from typing import Any, Literal

from spanlab.config import to_mapping

Law = Literal["mlm", "mlm+sbo"]
"""By which heads a run was filled."""


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A token for a mask."""

    token: str
    """Its entry in the vocabulary."""
    text: str
    """Its text."""
    begins_word: bool
    """False if it continues the word before it."""
    probability: float
    """Among the whole vocabulary."""


@dataclass(frozen=True, kw_only=True)
class MaskPosition:
    """One mask."""

    start: int
    end: int
    """Its characters in the user's text, end exclusive."""
    mlm: tuple[Candidate, ...]
    sbo: tuple[Candidate, ...] | None
    """None without a span boundary head, or where the run is longer than the spans it knows."""


@dataclass(frozen=True, kw_only=True)
class Filling:
    """Tokens for all masks of a run."""

    text: str
    tokens: tuple[str, ...]
    score: float
    """The mean log probability of a token."""


@dataclass(frozen=True, kw_only=True)
class MaskRun:
    """Adjacent masks."""

    start: int
    end: int
    """From the first character of the first mask to the end of the last."""
    places: tuple[MaskPosition, ...]
    fillings: dict[Law, tuple[Filling, ...]]
    """The best first, while other runs stay masked."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class FillResult:
    """Candidates and fillings for one text."""

    text: str
    """As the user gave it."""
    filled: str
    """With the best filling of every run, by both heads where there are two."""
    runs: tuple[MaskRun, ...]
    notes: tuple[str, ...] = ()
    """Fallbacks: what could not be done, and what was done instead."""

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return to_mapping(self)
