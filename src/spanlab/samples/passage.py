"""A passage of the almanac with all its layers, as frozen objects.

Offsets are characters of `Passage.text`, end exclusive. Lines are those of the markup the passage was read from; they
take no part in comparisons, so that a passage equals itself wherever it stands in its file.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Sentence:
    """One sentence of the text; `speaker` is the name before the colon, in dialogues only."""

    start: int
    end: int
    key: bool
    speaker: str | None = None
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, kw_only=True)
class Mention:
    """A span that names an entity (`label`), or refers to a numbered one (`entity`), or both."""

    start: int
    end: int
    label: str | None = None
    entity: int | None = None


@dataclass(frozen=True, kw_only=True)
class Relation:
    """A directed relation between two numbered entities."""

    head: int
    label: str
    tail: int


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A span of the text that answers a question."""

    start: int
    text: str

    @property
    def end(self) -> int:
        """One past the last character of the answer."""
        return self.start + len(self.text)


@dataclass(frozen=True, kw_only=True)
class Question:
    """A question with its acceptable answers; with none, `tempting` is the span a careless reader would give."""

    id: str
    text: str
    answers: tuple[Answer, ...]
    tempting: Answer | None = None
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two sentences that say the same (`same`), or that look alike and do not."""

    text_a: str
    text_b: str
    same: bool
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, kw_only=True)
class Passage:
    """A titled text with its labels; the layers are in the order of the text or of the markup."""

    id: str
    language: str
    topic: str
    style: str
    split: str
    sentiment: str | None
    title: str
    text: str
    sentences: tuple[Sentence, ...]
    mentions: tuple[Mention, ...]
    relations: tuple[Relation, ...]
    questions: tuple[Question, ...]
    pairs: tuple[Pair, ...]
    line: int = field(default=0, compare=False)

    @property
    def entities(self) -> tuple[Mention, ...]:
        """The mentions that carry an entity type, outer before inner."""
        return tuple(mention for mention in self.mentions if mention.label)

    @property
    def clusters(self) -> tuple[tuple[Mention, ...], ...]:
        """The mentions of every entity that is mentioned twice or more, by entity number."""
        numbers = sorted({mention.entity for mention in self.mentions if mention.entity})
        clusters = (self.mentions_of(number) for number in numbers)
        return tuple(cluster for cluster in clusters if len(cluster) > 1)

    def mentions_of(self, entity: int) -> tuple[Mention, ...]:
        """The mentions of one numbered entity, in the order of the text."""
        return tuple(mention for mention in self.mentions if mention.entity == entity)

    def name_of(self, entity: int) -> Mention:
        """The longest typed mention of an entity that has one; of equals, the first in the text."""
        named = [mention for mention in self.mentions_of(entity) if mention.label]
        return max(named, key=lambda mention: mention.end - mention.start)

    def span(self, part: Mention | Sentence | Answer) -> str:
        """The characters of the text that a part covers."""
        return self.text[part.start : part.end]
