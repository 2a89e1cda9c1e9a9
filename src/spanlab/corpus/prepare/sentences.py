"""A document becomes one line of text with sentence starts.

White space of any kind becomes one space, so that a hard-wrapped line break is no more than a space and equal text
gives equal tokens; between Han characters, where no space is written, a wrapped line break is nothing. What leaves is
the text and the positions at which sentences start.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from spanlab.corpus.prepare.layout import BLANK_LINE, Lines
from spanlab.text import sentence_spans

_HAN = r"[\u3000-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uffef]"
_HAN_BREAK = re.compile(rf"(?<={_HAN})[ \t\r]*\n\s*(?={_HAN})")


@dataclass(frozen=True)
class Sentences:
    """A document's text without line breaks, and where its sentences start in it."""

    text: str
    starts: list[int]


def sentences_of(document: str, *, lines: Lines, language: str | None) -> Sentences:
    """The document as one line, with its sentence starts."""
    texts, starts, offset = [], [], 0
    for paragraph in _paragraphs(document, lines):
        if lines == "sentences":
            starts.append(offset)
        else:
            starts.extend(offset + start for start, _ in sentence_spans(paragraph, language))
        texts.append(paragraph)
        offset += len(paragraph) + 1
    return Sentences(" ".join(texts), starts)


def _paragraphs(document: str, lines: Lines) -> Iterator[str]:
    if lines == "wrapped":
        if not document.isascii():
            document = _HAN_BREAK.sub(lambda match: match[0] if match[0].count("\n") > 1 else "", document)
        parts = BLANK_LINE.split(document)
    else:
        parts = document.split("\n")
    for part in parts:
        if paragraph := " ".join(part.split()):
            yield paragraph
