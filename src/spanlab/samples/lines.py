"""The lines of a markup file: what each one is, and the faults that a line alone can show.

A file enters as one string; the lines that mean something leave, in order, each with its kind, its value and the
column where the value starts. Blank lines leave too: between two sentences they start a paragraph.
"""

import re
import unicodedata
from dataclasses import dataclass
from pathlib import Path

from spanlab.errors import InputError, did_you_mean

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
