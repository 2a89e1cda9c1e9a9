"""The brackets inside a sentence: `{1:PER|Marie Curie}`, `{LOC|Warsaw}`, `{1|She}`.

A sentence of markup enters, the bare text and its mentions leave. Brackets nest and never cross, so the offsets are
right by construction. There is no escape: braces and bars cannot stand in the text of a passage.
"""

import re
from dataclasses import dataclass

from spanlab.errors import did_you_mean
from spanlab.samples.inventory import ENTITY_TYPES
from spanlab.samples.passage import Mention

TAG = re.compile(r"(?:(?P<entity>[1-9]\d?)(?::(?P<typed>\w+))?|(?P<label>[A-Za-z]+))")


class InlineError(Exception):
    """The brackets of a sentence are wrong at a character (`offset`) of its markup."""

    def __init__(self, offset: int, cause: str, fix: str) -> None:
        super().__init__(cause)
        self.offset, self.cause, self.fix = offset, cause, fix


@dataclass(frozen=True, kw_only=True)
class Inline:
    """The bare text of a sentence, its mentions, and the place in the markup of every character of the text."""

    text: str
    mentions: tuple[Mention, ...]
    places: tuple[int, ...]


@dataclass(frozen=True)
class _Open:
    """A bracket not yet closed: where it stands in the markup, where its mention starts, what its tag says."""

    offset: int
    start: int
    label: str | None
    entity: int | None


def parse_inline(markup: str) -> Inline:
    """Read the brackets of one sentence."""
    places: list[int] = []
    mentions: list[Mention] = []
    opened: list[_Open] = []
    offset = 0
    while offset < len(markup):
        character = markup[offset]
        if character == "{":
            bracket, offset = _open(markup, offset, len(places))
            opened.append(bracket)
            continue
        if character == "}":
            if not opened:
                raise InlineError(offset, "'}' closes nothing", "remove it, or open the mention with '{TAG|'")
            text = "".join(markup[place] for place in places)
            mentions.append(_close(opened.pop(), text, mentions, opened))
        elif character == "|":
            raise InlineError(offset, "'|' outside a tag", "remove it; a bar stands only between a tag and its text")
        else:
            places.append(offset)
        offset += 1
    if opened:
        raise InlineError(opened[-1].offset, "'{' is never closed", "close the mention with '}' in the same sentence")
    mentions.sort(key=lambda mention: (mention.start, -mention.end))
    return Inline(text="".join(markup[place] for place in places), mentions=tuple(mentions), places=tuple(places))


def _open(markup: str, offset: int, start: int) -> tuple[_Open, int]:
    """The bracket at `offset`, and the offset after its bar."""
    tag = TAG.match(markup, offset + 1)
    if not tag or markup[tag.end() : tag.end() + 1] != "|":
        raise InlineError(offset, "'{' without a tag", "write '{TYPE|text}', '{number|text}' or '{number:TYPE|text}'")
    label = tag["typed"] or tag["label"]
    if label and label not in ENTITY_TYPES:
        hint = did_you_mean(label, ENTITY_TYPES)
        raise InlineError(offset + 1, f"unknown entity type '{label}'{hint}", f"use one of {', '.join(ENTITY_TYPES)}")
    entity = int(tag["entity"]) if tag["entity"] else None
    return _Open(offset, start, label, entity), tag.end() + 1


def _close(bracket: _Open, text: str, closed: list[Mention], around: list[_Open]) -> Mention:
    """The mention of a bracket that ends where `text` ends, among those closed before and still open around it."""
    mention = Mention(start=bracket.start, end=len(text), label=bracket.label, entity=bracket.entity)
    covered = text[mention.start :]
    if not covered:
        raise InlineError(bracket.offset, "empty mention", "put text between the bar and '}'")
    if covered != covered.strip():
        raise InlineError(bracket.offset, f"space at the edge of '{covered}'", "put the space outside the brackets")
    if any(inner.start == mention.start and inner.end == mention.end for inner in closed):
        raise InlineError(bracket.offset, f"two mentions cover '{covered}'", "give it one tag, such as {1:PER|…}")
    if mention.entity and any(outer.entity == mention.entity for outer in around):
        raise InlineError(bracket.offset, f"entity {mention.entity} inside itself", "keep the outer or the inner one")
    return mention
