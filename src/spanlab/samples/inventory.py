"""What a label of the almanac may be: languages, topics, styles, entity types, relations with their two sides.

Everything here is closed on purpose: a label that is not listed is a mistake in the file, not a new label.
"""

from collections.abc import Mapping
from dataclasses import dataclass

LANGUAGES = ("en", "zh", "ko")
TOPICS = ("science", "nature", "places", "people", "sports", "cooking", "crafts", "law", "technology")
STYLES = ("encyclopaedic", "news", "review", "dialogue", "letter", "instruction")
SPLITS = ("train", "dev", "test")
SENTIMENTS = ("positive", "negative", "mixed")

# Only these two styles carry an opinion of their writer, so only they have a sentiment, and always.
STYLES_WITH_SENTIMENT = ("review", "letter")

ENTITY_TYPES = ("PER", "ORG", "LOC", "DATE", "WORK", "PRODUCT", "QUANTITY", "EVENT")


@dataclass(frozen=True)
class Signature:
    """The entity types that may stand at the head and at the tail of a relation."""

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
