"""Sentence boundaries of English, Chinese and Korean text, as spans of characters."""

import re

_END = re.compile(r"[.!?]+[\"'”’)\]]*(?=\s)|[。！？]+[”’」』）]*")


def sentence_spans(text: str, language: str | None = None) -> list[tuple[int, int]]:
    """The sentences of a text: character spans in order, without overlap, every non-blank character inside one.

    `language` is "en", "zh" or "ko"; None tells it from the script.
    """
    ends = [match.end() for match in _END.finditer(text)] + [len(text)]
    return _trimmed(text, ends)


def line_spans(text: str) -> list[tuple[int, int]]:
    """The sentences of a text that holds one a line: the lines that are not blank, as character spans."""
    ends = [match.end() for match in re.finditer(r"\n", text)] + [len(text)]
    return _trimmed(text, ends)


def _trimmed(text: str, ends: list[int]) -> list[tuple[int, int]]:
    spans, start = [], 0
    for end in ends:
        piece = text[start:end]
        left = start + len(piece) - len(piece.lstrip())
        right = start + len(piece.rstrip())
        if left < right:
            spans.append((left, right))
        start = end
    return spans
