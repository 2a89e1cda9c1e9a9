"""Texts with entities: examples as users write them, and results.

Input: rows `{"text", "spans": [{"start", "end", "label"}]}`, offsets in characters, the end exclusive. Output: problems
of a row, examples, results.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from spanlab.tasks.formats.row import Row
from spanlab.tasks.result import Result, result_id
from spanlab.tasks.spans.html import draw_spans
from spanlab.tasks.spans.labelled import TextSpan, read_spans, span_problems
from spanlab.tasks.validation import Problem, read_id, text_problems

_UNREADABLE = {"no spans", "incomplete span", "offset is not a number", "empty label"}
"""Problems that make a prediction unreadable; any other prediction is scored as it is."""


@dataclass(frozen=True, kw_only=True)
class NerExample:
    """A text and its entities."""

    id: str | None
    text: str
    spans: tuple[TextSpan, ...]
    """In the order of the text."""
    row: Row = field(repr=False, compare=False)

    @property
    def words(self) -> tuple[tuple[int, int], ...] | None:
        """The words of a column file, as character spans; None for other inputs."""
        words = self.row.values.get("words")
        if not isinstance(words, list) or not all(isinstance(word, list) and len(word) == 2 for word in words):
            return None
        return tuple((start, end) for start, end in words)


@dataclass(frozen=True, kw_only=True)
class Entity:
    """A predicted entity: characters `start` to `end` (exclusive) of a text."""

    start: int
    end: int
    label: str
    text: str
    score: float


@dataclass(frozen=True, kw_only=True)
class NerResult(Result):
    """The entities of one text, in its order."""

    spans: tuple[Entity, ...]
    source: str = field(metadata={"json": False})
    """The text."""
    words: tuple[tuple[int, int], ...] | None = field(default=None, metadata={"json": False})
    """The words of a column file, as character spans; None for other inputs."""

    def redacted(self, mark: str = "[{label}]") -> str:
        """The text with every entity replaced; of nested ones the outermost."""
        return redact(self.source, self.spans, mark)

    def to_html(self) -> str:
        """The text with its entities marked."""
        return draw_spans(self.source, [(span.start, span.end, span.label) for span in self.spans])


def redact(text: str, entities: Sequence[Entity], mark: str = "[{label}]") -> str:
    """The text with every entity replaced by `mark`, in which `{label}` stands for its label.

    Where entities share characters, the first, and of those that start together the longest, replaces them all, so
    that no character of any entity is left.
    """
    parts, position = [], 0
    for entity in sorted(entities, key=lambda entity: (entity.start, -entity.end)):
        if entity.start >= position:
            parts += [text[position : entity.start], mark.replace("{label}", entity.label)]
        position = max(position, entity.end)
    return "".join([*parts, text[position:]])


def example_problems(row: Row, *, labelled: bool) -> Iterator[Problem]:
    """Everything that is wrong with a row; with its entities only if `labelled`."""
    problems = list(text_problems(row, "text"))
    yield from problems
    if labelled and not any(problem.serious for problem in problems):
        yield from span_problems(row)


def parse_example(row: Row, *, labelled: bool) -> NerExample:
    """A row without serious problems as an example."""
    spans = read_spans(row.values["spans"]) if labelled else ()
    return NerExample(id=read_id(row), text=row.values["text"], spans=spans, row=row)


def read_prediction(row: Row, index: int, example: NerExample) -> NerResult:
    """A prediction of any system, from a file."""
    for problem in span_problems(Row(values={**row.values, "text": example.text}, path=row.path, line=row.line)):
        if problem.kind in _UNREADABLE:
            raise problem.error(row)
    entities = (
        Entity(
            start=span["start"],
            end=span["end"],
            label=span["label"],
            text=example.text[span["start"] : span["end"]],
            score=float(span.get("score", 1.0)),
        )
        for span in row.values["spans"]
    )
    return NerResult(id=result_id(index, example.id), spans=tuple(entities), source=example.text)
