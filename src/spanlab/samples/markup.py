"""The lines of a markup file: what each one is, and the faults that a line alone can show.

A file enters as one string; the lines that mean something leave, in order, each with its kind, its value and the
column where the value starts. Blank lines leave too: between two sentences they start a paragraph.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from spanlab.errors import InputError, did_you_mean
from spanlab.samples.passage import ENTITY_TYPES, Mention, Sentence

KEYWORD = re.compile(r"(?P<kind>[A-Za-z]+)(?:@(?P<occurrence>\d+))?:(?P<space> ?)")
KEYWORDS = ("title", "rel", "q", "a", "not", "same", "diff")
WITH_OCCURRENCE = ("a", "not")
SIGNS = {"## ": "header", "- ": "sentence", "* ": "key"}
BAD_CHARACTER = re.compile(r"[\x00-\x1f\x7f\u00a0\u200b-\u200f\u2028\u2029\ufeff\ufffd]|  +| $")


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line: `kind` is a keyword, "header", "sentence", "key" (a key sentence) or "blank"."""

    path: str | Path | None
    number: int
    kind: str
    value: str = ""
    column: int = 1
    occurrence: int | None = None

    def error(self, cause: str, fix: str, *, offset: int = 0) -> InputError:
        """The error at a character of the value."""
        return InputError(cause, path=self.path, line=self.number, column=self.column + offset, fix=fix)


def read_line(text: str, number: int, path: str | Path | None) -> Line | None:
    """The meaning of one line; None for a comment."""
    if not text.strip():
        return Line(path=path, number=number, kind="blank")
    if text.startswith("%"):
        return None
    _check_characters(text, number, path)
    for sign, kind in SIGNS.items():
        if text.startswith(sign):
            return Line(path=path, number=number, kind=kind, value=text[len(sign) :], column=len(sign) + 1)
    return _keyword_line(text, number, path)


def _keyword_line(text: str, number: int, path: str | Path | None) -> Line:
    start = Line(path=path, number=number, kind="unknown")
    keyword = KEYWORD.match(text)
    if not keyword:
        raise start.error("a line of no known kind", "start it with '## ', '- ', '* ' or a keyword such as 'q: '")
    kind, occurrence = keyword["kind"], keyword["occurrence"]
    if kind not in KEYWORDS:
        known = ", ".join(f"{name}:" for name in KEYWORDS)
        raise start.error(f"unknown keyword '{kind}:'{did_you_mean(kind, KEYWORDS)}", f"use one of {known}")
    if occurrence and (kind not in WITH_OCCURRENCE or int(occurrence) < 1):
        raise start.error(
            f"'{kind}@{occurrence}:' makes no sense", "only 'a@2:' and 'not@2:' count occurrences, from 1"
        )
    value = text[keyword.end() :]
    if not value or not keyword["space"]:
        raise start.error(f"'{kind}:' without a value", f"write '{kind}: value', with one space")
    if kind != "rel" and (brace := re.search(r"[{}]", value)):
        raise start.error("a bracket outside a sentence", "write bare text here", offset=keyword.end() + brace.start())
    return Line(
        path=path,
        number=number,
        kind=kind,
        value=value,
        column=keyword.end() + 1,
        occurrence=int(occurrence) if occurrence else None,
    )


def _check_characters(text: str, number: int, path: str | Path | None) -> None:
    start = Line(path=path, number=number, kind="unknown")
    if bad := BAD_CHARACTER.search(text):
        found = bad[0]
        if found.isspace() and set(found) == {" "}:
            raise start.error("two spaces, or a space at the end", "keep single spaces", offset=bad.start())
        raise start.error(f"character U+{ord(found):04X} is not allowed", "remove it", offset=bad.start())
    if not unicodedata.is_normalized("NFC", text):
        offset = next(place for place in range(len(text)) if not unicodedata.is_normalized("NFC", text[: place + 1]))
        raise start.error("text that is not in Unicode form NFC", "write composed characters", offset=offset)


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


JOINTS = {"en": " ", "ko": " ", "zh": ""}
COLONS = (": ", "：")


@dataclass(frozen=True, kw_only=True)
class Body:
    """The text, its sentences and mentions; of every numbered entity its type, if it has one, and its first place."""

    text: str
    sentences: tuple[Sentence, ...]
    mentions: tuple[Mention, ...]
    types: dict[int, str]
    places: dict[int, tuple[Line, int]]


@dataclass(frozen=True, kw_only=True)
class Written:
    """One sentence as it stands in the file: its line, its brackets read, and whether it opens a paragraph."""

    line: Line
    inline: Inline
    opens_paragraph: bool


def sentence_lines(block: Sequence[Line]) -> list[tuple[Line, bool]]:
    """Every sentence with whether it opens a paragraph, as the first one and those after a blank line do."""
    sentences = []
    after_blank = True
    for line in block:
        if line.kind in {"sentence", "key"}:
            sentences.append((line, after_blank))
        after_blank = line.kind == "blank" or not sentences
    return sentences


def read_sentence(item: tuple[Line, bool]) -> Written:
    """Read the brackets of one sentence line."""
    line, opens_paragraph = item
    try:
        return Written(line=line, inline=parse_inline(line.value), opens_paragraph=opens_paragraph)
    except InlineError as fault:
        raise line.error(fault.cause, fault.fix, offset=fault.offset) from None


def join_sentences(written: Sequence[Written], language: str, *, dialogue: bool) -> Body:
    """Put the sentences of a passage together."""
    text = ""
    speaker: str | None = None
    sentences: list[Sentence] = []
    mentions: list[Mention] = []
    types: dict[int, str] = {}
    places: dict[int, tuple[Line, int]] = {}
    for part in written:
        if dialogue and part.opens_paragraph:
            speaker = _speaker(part.line, part.inline)
        if sentences:
            text += "\n" if part.opens_paragraph else JOINTS[language]
        start = len(text)
        text += part.inline.text
        key, number = part.line.kind == "key", part.line.number
        sentences.append(Sentence(start=start, end=len(text), key=key, speaker=speaker, line=number))
        _learn_entities(part.line, part.inline, types, places)
        mentions += [replace(found, start=found.start + start, end=found.end + start) for found in part.inline.mentions]
    return Body(text=text, sentences=tuple(sentences), mentions=tuple(mentions), types=types, places=places)


def _speaker(line: Line, inline: Inline) -> str:
    first = inline.mentions[0] if inline.mentions else None
    if first and first.start == 0 and first.label == "PER" and inline.text[first.end :].startswith(COLONS):
        return inline.text[: first.end]
    raise line.error("a turn without a speaker", "start each paragraph of a dialogue with '{1:PER|Name}: '")


def _learn_entities(line: Line, inline: Inline, types: dict[int, str], places: dict[int, tuple[Line, int]]) -> None:
    for mention in inline.mentions:
        if not mention.entity:
            continue
        offset = inline.places[mention.start]
        places.setdefault(mention.entity, (line, offset))
        if mention.label and types.setdefault(mention.entity, mention.label) != mention.label:
            cause = f"entity {mention.entity} is {types[mention.entity]} above and {mention.label} here"
            raise line.error(cause, "give one entity one type, or two numbers", offset=offset)
