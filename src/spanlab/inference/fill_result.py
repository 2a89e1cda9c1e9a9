"""The result of filling masks: candidates for every mask by each head, and fillings of every run of masks."""

from dataclasses import dataclass
from html import escape
from typing import Any, Literal

from spanlab.config import to_mapping

FillMethod = Literal["mlm", "mlm+sbo"]
"""The heads that a run was filled by."""


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A token for a mask."""

    token: str
    """Its entry in the vocabulary."""
    text: str
    """Without the tokenizer's marks."""
    begins_word: bool
    """False if it continues the word before it."""
    probability: float
    """Over the whole vocabulary."""


@dataclass(frozen=True, kw_only=True)
class MaskPosition:
    """One mask and its candidates by each head."""

    start: int
    end: int
    """In characters of the user's text, end exclusive."""
    mlm: tuple[Candidate, ...]
    sbo: tuple[Candidate, ...] | None
    """None without a span boundary head, or if the run is longer than the spans it was trained on."""


@dataclass(frozen=True, kw_only=True)
class Filling:
    """Tokens for all masks of a run."""

    text: str
    tokens: tuple[str, ...]
    score: float
    """The mean log probability of a token."""


@dataclass(frozen=True, kw_only=True)
class MaskRun:
    """Adjacent masks, and the best fillings of all of them together."""

    start: int
    end: int
    """From the first character of the first mask to the end of the last."""
    places: tuple[MaskPosition, ...]
    """The masks, in order."""
    fillings: dict[FillMethod, tuple[Filling, ...]]
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

    def to_html(self) -> str:
        """The text with every run of masks filled by its best filling, everything escaped."""
        html, done = "", 0
        for run in self.runs:
            # Both heads together, where there are two, come last.
            best = [fillings[0].text for fillings in run.fillings.values() if fillings][-1:]
            html += f"{escape(self.text[done : run.start])}<mark>{escape(''.join(best))}</mark>"
            done = run.end
        notes = "".join(f"<li>{escape(note)}</li>" for note in self.notes)
        return f"<p>{html}{escape(self.text[done:])}</p>" + (f"<ul>{notes}</ul>" if notes else "")

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return self.to_html()
