"""The markup of the almanac below the level of passages: lines, the brackets in a sentence, joined sentences.

`read_line` turns a line of a file into its kind, its value and the column where the value starts; a blank line between
two sentences starts a paragraph. `parse_inline` turns the markup of a sentence into text and mentions.
`join_sentences` turns the sentences of a passage into its text, with all offsets relative to it.
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
LINE_PREFIXES = {"## ": "header", "- ": "sentence", "* ": "key"}
BAD_CHARACTER = re.compile(r"[\x00-\x1f\x7f\u00a0\u200b-\u200f\u2028\u2029\ufeff\ufffd]|  +| $")
SENTENCE_SEPARATORS = {"en": " ", "ko": " ", "zh": ""}
COLONS = (": ", "：")
TAG = re.compile(r"(?:(?P<entity>[1-9]\d?)(?::(?P<typed>\w+))?|(?P<label>[A-Za-z]+))")


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
    """Parse one line; None for a comment."""
    if not text.strip():
        return Line(path=path, number=number, kind="blank")
    if text.startswith("%"):
        return None
    _check_characters(text, number, path)
    for prefix, kind in LINE_PREFIXES.items():
        if text.startswith(prefix):
            return Line(path=path, number=number, kind=kind, value=text[len(prefix) :], column=len(prefix) + 1)
    return _keyword_line(text, number, path)


def _keyword_line(text: str, number: int, path: str | Path | None) -> Line:
    start = Line(path=path, number=number, kind="unknown")
    keyword = KEYWORD.match(text)
    if not keyword:
        raise start.error("unknown kind of line", "start it with '## ', '- ', '* ' or a keyword such as 'q: '")
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
        raise start.error("a bracket outside a sentence", "write plain text here", offset=keyword.end() + brace.start())
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
        characters = bad[0]
        if set(characters) == {" "}:
            raise start.error("two spaces, or a space at the end", "keep single spaces", offset=bad.start())
        raise start.error(f"character U+{ord(characters):04X} is not allowed", "remove it", offset=bad.start())
    if not unicodedata.is_normalized("NFC", text):
        offset = next(i for i in range(len(text)) if not unicodedata.is_normalized("NFC", text[: i + 1]))
        raise start.error("text that is not in Unicode form NFC", "write composed characters", offset=offset)


class InlineError(Exception):
    """A mistake in the brackets of a sentence, at a character (`offset`) of its markup."""

    def __init__(self, offset: int, cause: str, fix: str) -> None:
        super().__init__(cause)
        self.offset, self.cause, self.fix = offset, cause, fix


@dataclass(frozen=True, kw_only=True)
class Inline:
    """The plain text of a sentence, its mentions, and the offset in the markup of every character of the text."""

    text: str
    mentions: tuple[Mention, ...]
    offsets: tuple[int, ...]


@dataclass(frozen=True)
class _Open:
    """An open bracket: its offset in the markup, the start of its mention, its tag."""

    offset: int
    start: int
    label: str | None
    entity: int | None


def parse_inline(markup: str) -> Inline:
    """Read the brackets of one sentence."""
    offsets: list[int] = []
    mentions: list[Mention] = []
    opened: list[_Open] = []
    offset = 0
    while offset < len(markup):
        character = markup[offset]
        if character == "{":
            bracket, offset = _open(markup, offset, len(offsets))
            opened.append(bracket)
            continue
        if character == "}":
            if not opened:
                raise InlineError(offset, "'}' closes nothing", "remove it, or open the mention with '{TAG|'")
            text = "".join(markup[position] for position in offsets)
            mentions.append(_close(opened.pop(), text, mentions, opened))
        elif character == "|":
            raise InlineError(offset, "'|' outside a tag", "remove it; a bar goes only between a tag and its text")
        else:
            offsets.append(offset)
        offset += 1
    if opened:
        raise InlineError(opened[-1].offset, "'{' is never closed", "close the mention with '}' in the same sentence")
    mentions.sort(key=lambda mention: (mention.start, -mention.end))
    return Inline(text="".join(markup[i] for i in offsets), mentions=tuple(mentions), offsets=tuple(offsets))


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
    """The mention of a bracket that ends with `text`, checked against those `closed` and still open `around`."""
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


@dataclass(frozen=True, kw_only=True)
class Body:
    """The text, its sentences and mentions; for every numbered entity its type, if any, and its first mention."""

    text: str
    sentences: tuple[Sentence, ...]
    mentions: tuple[Mention, ...]
    types: dict[int, str]
    first_mentions: dict[int, tuple[Line, int]]
    """Line and offset."""


@dataclass(frozen=True, kw_only=True)
class MarkedSentence:
    """A sentence of the file: its line, its parsed brackets, and whether it opens a paragraph."""

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


def read_sentence(item: tuple[Line, bool]) -> MarkedSentence:
    """Read the brackets of one sentence line."""
    line, opens_paragraph = item
    try:
        return MarkedSentence(line=line, inline=parse_inline(line.value), opens_paragraph=opens_paragraph)
    except InlineError as error:
        raise line.error(error.cause, error.fix, offset=error.offset) from None


def join_sentences(marked: Sequence[MarkedSentence], language: str, *, dialogue: bool) -> Body:
    """Put the sentences of a passage together."""
    text = ""
    speaker: str | None = None
    sentences: list[Sentence] = []
    mentions: list[Mention] = []
    types: dict[int, str] = {}
    first_mentions: dict[int, tuple[Line, int]] = {}
    for part in marked:
        if dialogue and part.opens_paragraph:
            speaker = _speaker(part.line, part.inline)
        if sentences:
            text += "\n" if part.opens_paragraph else SENTENCE_SEPARATORS[language]
        start = len(text)
        text += part.inline.text
        key, number = part.line.kind == "key", part.line.number
        sentences.append(Sentence(start=start, end=len(text), key=key, speaker=speaker, line=number))
        _add_entities(part.line, part.inline, types, first_mentions)
        mentions += [replace(m, start=m.start + start, end=m.end + start) for m in part.inline.mentions]
    return Body(
        text=text, sentences=tuple(sentences), mentions=tuple(mentions), types=types, first_mentions=first_mentions
    )


def _speaker(line: Line, inline: Inline) -> str:
    first = inline.mentions[0] if inline.mentions else None
    if first and first.start == 0 and first.label == "PER" and inline.text[first.end :].startswith(COLONS):
        return inline.text[: first.end]
    raise line.error("a turn without a speaker", "start each paragraph of a dialogue with '{1:PER|Name}: '")


def _add_entities(
    line: Line, inline: Inline, types: dict[int, str], first_mentions: dict[int, tuple[Line, int]]
) -> None:
    for mention in inline.mentions:
        if not mention.entity:
            continue
        offset = inline.offsets[mention.start]
        first_mentions.setdefault(mention.entity, (line, offset))
        if mention.label and types.setdefault(mention.entity, mention.label) != mention.label:
            cause = f"entity {mention.entity} is {types[mention.entity]} above and {mention.label} here"
            raise line.error(cause, "give one entity one type, or two numbers", offset=offset)
