"""The text of a passage: its sentences put together, their mentions moved to the offsets of the whole.

Sentences are joined by a space (by nothing in Chinese), paragraphs by a line feed. In a dialogue every paragraph is a
turn, and the person at its start, before the colon, is the speaker of its sentences.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from spanlab.samples.inline import Inline, InlineError, parse_inline
from spanlab.samples.lines import Line
from spanlab.samples.passage import Mention, Sentence

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
