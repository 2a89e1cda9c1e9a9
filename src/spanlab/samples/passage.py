"""A passage of the almanac with all its labels, as frozen objects.

Offsets are characters of `Passage.text`, end exclusive. Lines are those of the markup; they are not compared, so that a
passage equals itself wherever it is in its file.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

LANGUAGES = ("en", "zh", "ko")
TOPICS = ("science", "nature", "places", "people", "sports", "cooking", "crafts", "law", "technology")
STYLES = ("encyclopaedic", "news", "review", "dialogue", "letter", "instruction")
SPLITS = ("train", "dev", "test")
SENTIMENTS = ("positive", "negative", "mixed")

# Only these two styles express an opinion, so only they have a sentiment, and always.
STYLES_WITH_SENTIMENT = ("review", "letter")

ENTITY_TYPES = ("PER", "ORG", "LOC", "DATE", "WORK", "PRODUCT", "QUANTITY", "EVENT")


@dataclass(frozen=True)
class Signature:
    """The entity types that the head and the tail of a relation may have."""

    heads: tuple[str, ...]
    tails: tuple[str, ...]


# Each reads from left to right: "1 born_in 2" is "entity 1 was born in entity 2".
RELATIONS: Mapping[str, Signature] = {
    "born_in": Signature(("PER",), ("LOC",)),
    "born_on": Signature(("PER",), ("DATE",)),
    "lives_in": Signature(("PER",), ("LOC",)),
    "child_of": Signature(("PER",), ("PER",)),
    "taught": Signature(("PER",), ("PER",)),
    "works_for": Signature(("PER",), ("ORG",)),
    "founded": Signature(("PER", "ORG"), ("ORG", "LOC", "EVENT")),
    "created": Signature(("PER", "ORG"), ("WORK", "PRODUCT")),
    "owns": Signature(("PER", "ORG"), ("ORG", "LOC", "PRODUCT", "WORK")),
    "won": Signature(("PER", "ORG", "WORK", "PRODUCT"), ("EVENT", "WORK")),
    "took_part_in": Signature(("PER", "ORG"), ("EVENT",)),
    "located_in": Signature(("LOC", "ORG", "EVENT", "WORK", "PRODUCT"), ("LOC", "ORG")),
    "capital_of": Signature(("LOC",), ("LOC",)),
    "part_of": Signature(("ORG", "WORK", "PRODUCT", "EVENT"), ("ORG", "WORK", "PRODUCT", "EVENT")),
    "dated": Signature(("EVENT", "WORK", "PRODUCT", "ORG", "LOC"), ("DATE",)),
    "named_after": Signature(("ORG", "LOC", "EVENT", "WORK", "PRODUCT"), ("PER", "LOC", "ORG", "EVENT")),
    "measures": Signature(("LOC", "ORG", "EVENT", "WORK", "PRODUCT", "PER"), ("QUANTITY",)),
}


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
    """Two sentences with the same meaning (`same`), or similar ones with different meanings."""

    text_a: str
    text_b: str
    same: bool
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, kw_only=True)
class Passage:
    """A titled text with its labels, each kind in the order of the text or of the markup."""

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
