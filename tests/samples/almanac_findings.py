"""What the checks of the almanac share: a passage with the file it came from, and a finding with its place."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from spanlab.samples import Passage
from spanlab.samples.markup import parse_inline

WORD = re.compile(r"\w+(?:['’.,-]\w+)*")


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A problem, or a note: something that is often, but not always, a mistake."""

    place: str
    cause: str
    note: bool = False

    def __str__(self) -> str:
        return f"{self.place}: {'note: ' if self.note else ''}{self.cause}"


@dataclass(frozen=True, kw_only=True)
class Checked:
    """A passage and the lines of its file."""

    path: Path
    lines: tuple[str, ...]
    passage: Passage

    def at_line(self, line: int, cause: str, *, note: bool = False) -> Finding:
        return Finding(place=f"{self.path}:{line}:1", cause=f"{self.passage.id}: {cause}", note=note)

    def at_offset(self, offset: int, cause: str, *, note: bool = False) -> Finding:
        """The finding at a character of the text, with its line and column in the markup."""
        sentence = next(s for s in reversed(self.passage.sentences) if s.start <= offset)
        offsets = parse_inline(self.lines[sentence.line - 1][2:]).offsets
        column = offsets[min(offset - sentence.start, len(offsets) - 1)] + 3
        return Finding(place=f"{self.path}:{sentence.line}:{column}", cause=f"{self.passage.id}: {cause}", note=note)


def units(text: str, language: str) -> list[str]:
    """The units that lengths and overlaps count: words, or characters in Chinese; in lower case, without marks."""
    if language == "zh":
        return [character for character in text if character.isalnum()]
    return [word.lower() for word in WORD.findall(text)]


def sequences(items: list[str], length: int) -> set[tuple[str, ...]]:
    return {tuple(items[start : start + length]) for start in range(len(items) - length + 1)}


def overlap(a: Iterable[object], b: Iterable[object]) -> float:
    """The Jaccard similarity of two sets."""
    set_a, set_b = set(a), set(b)
    return len(set_a & set_b) / len(set_a | set_b) if set_a or set_b else 0.0
