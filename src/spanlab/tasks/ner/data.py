"""Entities that were found in a text: as a result, as marked text, and as text without them."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from spanlab.tasks.result import Result
from spanlab.tasks.spans.html import draw_spans


@dataclass(frozen=True, kw_only=True)
class Entity:
    """An entity that was found."""

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
    """The text they are of."""

    def redacted(self, mark: str = "[{label}]") -> str:
        """The text with every entity replaced; of nested ones the outermost."""
        return redact(self.source, self.spans, mark)

    def to_html(self) -> str:
        """The text with its entities marked."""
        return draw_spans(self.source, [(span.start, span.end, span.label) for span in self.spans])


def redact(text: str, entities: Sequence[Entity], mark: str = "[{label}]") -> str:
    """The text with every entity replaced by `mark`, in which `{label}` stands for its label.

    Where entities share characters the one that begins first, and of those the longest, stands for all it touches, so
    that no character of any entity is left.
    """
    parts, place = [], 0
    for entity in sorted(entities, key=lambda one: (one.start, -one.end)):
        if entity.start >= place:
            parts += [text[place : entity.start], mark.replace("{label}", entity.label)]
        place = max(place, entity.end)
    return "".join([*parts, text[place:]])
