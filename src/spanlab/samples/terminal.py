"""A passage of the almanac with all its labels, drawn for a terminal.

What enters is a passage and the width of the terminal; what leaves is a rich renderable. Below each line of text are
the marks of its mentions: entity type and number, in the colour of the type or of the cluster. Everything shown by
colour is also shown as text, so that the output can be piped to a file.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from spanlab.samples import Mention, Passage, Question, Sentence

# Labels of mentions near the right edge may exceed it by this much.
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
        """The entity type and number of the mention, if it has them."""
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
        on_line = (mention for mention in mentions if mention.start < last and mention.end > first)
        marks = [_mark(text, first, last, mention) for mention in on_line]
        lines.append(DrawnLine(start=first, end=last, lanes=_lanes(marks)))
    return lines


def _wrap(text: str, start: int, end: int, width: int) -> list[tuple[int, int]]:
    """Lines broken at the last space that fits, or anywhere if there is none."""
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
    """Short marks nearest to the text, each in the first lane where it fits."""
    lanes: list[list[Mark]] = []
    for mark in sorted(marks, key=lambda mark: (mark.end - mark.start, mark.start)):
        free = (lane for lane in lanes if all(mark.start > other.right or mark.right < other.start for other in lane))
        lane = next(free, None)
        if lane is None:
            lane = []
            lanes.append(lane)
        lane.append(mark)
    return tuple(tuple(sorted(lane, key=lambda mark: mark.start)) for lane in lanes)


TYPE_COLOURS = {
    "PER": "bright_blue",
    "ORG": "bright_magenta",
    "LOC": "bright_green",
    "DATE": "bright_cyan",
    "WORK": "bright_red",
    "PRODUCT": "orange3",
    "QUANTITY": "bright_yellow",
    "EVENT": "medium_purple1",
}
CLUSTER_COLOURS = ("cyan", "yellow", "green", "magenta", "red", "blue", "dark_orange", "deep_pink3", "chartreuse3")
MARGIN = 2


def draw_passage(passage: Passage, width: int) -> RenderableType:
    """Draw the title, the text with its mentions, clusters, relations, questions and pairs."""
    about = [passage.language, passage.topic, passage.style, passage.split, passage.sentiment]
    head = Text(passage.id, style="bold") + Text("  " + " · ".join(part for part in about if part), style="dim")
    parts: list[RenderableType] = [head, Text(passage.title, style="bold italic"), Text()]
    for before, sentence in zip((None, *passage.sentences), passage.sentences, strict=False):
        if before and "\n" in passage.text[before.end : sentence.start]:
            parts.append(Text())
        parts += _draw_sentence(passage, sentence, width)
    for name, lines in (
        ("Clusters", _clusters(passage)),
        ("Relations", _relations(passage)),
        ("Questions", _questions(passage.questions)),
        ("Pairs", _pairs(passage)),
    ):
        parts += [Text(), Text(name, style="bold underline"), *lines]
    return Group(*parts)


def list_passages(passages: Sequence[Passage]) -> RenderableType:
    """A table of passages, one per line."""
    table = Table(box=None, pad_edge=False, header_style="bold underline")
    for name in ("id", "style", "split"):
        table.add_column(name, no_wrap=True, min_width=max(len(getattr(passage, name)) for passage in passages))
    table.add_column("title", overflow="fold")
    for passage in passages:
        table.add_row(passage.id, passage.style, passage.split, Text(passage.title))
    return table


def _draw_sentence(passage: Passage, sentence: Sentence, width: int) -> Iterator[Text]:
    mentions = [m for m in passage.mentions if sentence.start <= m.start < sentence.end]
    margin = Text("* " if sentence.key else "  ", style="bold")
    return draw_mentions(passage.text, sentence.start, sentence.end, mentions, width, margin)


def draw_mentions(
    text: str, start: int, end: int, mentions: Sequence[Mention], width: int, margin: Text
) -> Iterator[Text]:
    """The characters from `start` to `end` in lines with their marks; `margin` is before the first."""
    for line in draw_lines(text, start, end, mentions, width - MARGIN):
        yield margin + _coloured(text, line, mentions)
        margin = Text(" " * MARGIN)
        for lane in line.lanes:
            yield margin + _draw_lane(lane)


def _coloured(source: str, line: DrawnLine, mentions: Sequence[Mention]) -> Text:
    text = Text(source[line.start : line.end])
    for mention in mentions:
        text.stylize(f"bold {_colour(mention)}", max(0, mention.start - line.start), max(0, mention.end - line.start))
    return text


def _colour(mention: Mention) -> str:
    return TYPE_COLOURS[mention.label] if mention.label else cluster_colour(mention.entity or 0)


def cluster_colour(entity: int) -> str:
    """The colour of a numbered entity."""
    return CLUSTER_COLOURS[(entity - 1) % len(CLUSTER_COLOURS)]


def _draw_lane(lane: Sequence[Mark]) -> Text:
    text = Text()
    for mark in lane:
        text.append(" " * (mark.start - len(text)))
        text.append_text(_draw_mark(mark))
    return text


def _draw_mark(mark: Mark) -> Text:
    """The label between corners where the mention is wide enough, else the label alone."""
    colour = _colour(mark.mention)
    label = Text(mark.label, style=colour)
    if mark.mention.entity:
        digits = len(str(mark.mention.entity))
        label.stylize(f"bold {cluster_colour(mark.mention.entity)}", len(label) - digits)
    free = mark.end - mark.start - len(label)
    if free < 2:
        return label
    left, right = "╰" if mark.begins else "─", "╯" if mark.ends else "─"
    return Text(left, style=colour) + label + Text("─" * (free - 2) + right, style=colour)


def _clusters(passage: Passage) -> Iterator[Text]:
    for cluster in passage.clusters:
        number = cluster[0].entity or 0
        line = Text(f"  {number:>2}  ", style=f"bold {cluster_colour(number)}")
        yield line + Text(" · ".join(passage.span(mention) for mention in cluster), style="not bold default")


def _relations(passage: Passage) -> Iterator[Text]:
    for relation in passage.relations:
        line = Text("  ") + _entity(passage, relation.head)
        yield line + Text(f" ──{relation.label}──▶ ", style="dim") + _entity(passage, relation.tail)


def _entity(passage: Passage, number: int) -> Text:
    name = passage.name_of(number)
    return Text(passage.span(name), style=_colour(name)) + Text(f" {number}", style=f"bold {cluster_colour(number)}")


def _questions(questions: Sequence[Question]) -> Iterator[Text]:
    for number, question in enumerate(questions, start=1):
        yield Text(f"  {number}  {question.text}")
        if question.answers:
            yield Text("     " + " / ".join(answer.text for answer in question.answers), style="green")
        elif question.tempting:
            yield Text("     no answer", style="red") + Text(f" (tempting: {question.tempting.text})", style="dim")


def _pairs(passage: Passage) -> Iterator[Text]:
    for pair in passage.pairs:
        yield Text("  = " if pair.same else "  ≠ ", style="bold green" if pair.same else "bold red") + Text(pair.text_a)
        yield Text("    " + pair.text_b)
