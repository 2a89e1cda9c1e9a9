"""Where to draw the marks of nested and overlapping mentions under lines of text.

A text and its mentions enter; lines no wider than wanted leave, each with marks that are placed in lanes so that no
two touch. Widths count terminal cells, of which a Chinese or Korean character takes two. A label that is wider than
its mention hangs over to the right, and its lane is kept free there.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len

from spanlab.samples import Mention

# Labels of mentions near the right edge hang over by this much at most.
OVERHANG = 10


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A mention, or its part on one line: columns in cells, and whether it begins and ends on this line."""

    mention: Mention
    start: int
    end: int
    begins: bool
    ends: bool

    @property
    def label(self) -> str:
        """The type and the number of the mention, as far as it has them."""
        return " ".join(str(part) for part in (self.mention.label, self.mention.entity) if part)

    @property
    def right(self) -> int:
        """The column after the mark or its label, whichever is wider."""
        return max(self.end, self.start + len(self.label))


@dataclass(frozen=True, kw_only=True)
class DrawnLine:
    """A line of text, as offsets, and the lanes of marks under it, the nearest first."""

    start: int
    end: int
    lanes: tuple[tuple[Mark, ...], ...]


def draw_lines(text: str, start: int, end: int, mentions: Sequence[Mention], width: int) -> list[DrawnLine]:
    """The characters from `start` to `end` in lines of at most `width` cells, with their marks."""
    lines = []
    for first, last in _wrap(text, start, end, max(1, width - OVERHANG)):
        here = (mention for mention in mentions if mention.start < last and mention.end > first)
        marks = [_mark(text, first, last, mention) for mention in here]
        lines.append(DrawnLine(start=first, end=last, lanes=_lanes(marks)))
    return lines


def _wrap(text: str, start: int, end: int, width: int) -> list[tuple[int, int]]:
    """Lines that break at the last space that fits, or anywhere where there is none."""
    lines = []
    while start < end:
        stop, cells = start, 0
        while stop < end and (cells := cells + cell_len(text[stop])) <= width:
            stop += 1
        stop = max(stop, start + 1)
        if stop < end and (space := text.rfind(" ", start, stop + 1)) > start:
            stop = space
        lines.append((start, stop))
        start = stop + 1 if text[stop : stop + 1] == " " else stop
    return lines


def _mark(text: str, first: int, last: int, mention: Mention) -> Mark:
    start, end = max(first, mention.start), min(last, mention.end)
    column = cell_len(text[first:start])
    return Mark(
        mention=mention,
        start=column,
        end=column + cell_len(text[start:end]),
        begins=mention.start >= first,
        ends=mention.end <= last,
    )


def _lanes(marks: Sequence[Mark]) -> tuple[tuple[Mark, ...], ...]:
    """Short marks nearest to the text, each in the first lane with room for it."""
    lanes: list[list[Mark]] = []
    for mark in sorted(marks, key=lambda mark: (mark.end - mark.start, mark.start)):
        free = (lane for lane in lanes if all(mark.start > other.right or mark.right < other.start for other in lane))
        lane = next(free, None)
        if lane is None:
            lane = []
            lanes.append(lane)
        lane.append(mark)
    return tuple(tuple(sorted(lane, key=lambda mark: mark.start)) for lane in lanes)
