"""Which character spans are whole words: they begin and end where no word goes on.

A word is a run of letters and digits, with their combining marks, of scripts that put spaces between words; punctuation
and symbols end it, so "U.S." in "U.S.-based" and "23" in "23-year-old" are whole. Han, Kana, Hangul, Thai and the other
scripts below either write no spaces, or (Hangul) attach particles that are not part of a name: next to one of their
characters a span may begin or end anywhere.

Shapes: C characters, S spans.
"""

import unicodedata
from collections.abc import Iterable, Sequence

import numpy as np

from spanlab.arrays import Flags, Integers
from spanlab.text.words import code_points

_WITHOUT_SPACES = frozenset(
    (
        *("CJK", "IDEOGRAPHIC", "BOPOMOFO", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "HALFWIDTH", "FULLWIDTH"),
        *("HANGUL", "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN", "TAI", "NEW", "YI", "NUSHU", "TANGUT", "LISU", "VAI"),
        *("JAVANESE", "BALINESE", "SUNDANESE", "BATAK", "CHAM"),
    )
)
"""First words of the Unicode names of characters; NEW is the New Tai Lue script."""
_OTHER, _WORD, _MARK = 1, 2, 3
_kinds = np.zeros(0x110000, dtype=np.uint8)  # 0: not seen yet

TOLERATED_SHARE = 0.01
"""Up to this share of spans that are not whole words are errors in the data."""


def inside_words(text: str) -> Flags:
    """(C + 1,) whether a word goes on across the boundary before each character; the last is the end of the text."""
    codes = code_points(text)
    kinds = _kinds[codes]
    if not kinds.all():
        for code in np.unique(codes[kinds == 0]).tolist():
            _kinds[code] = _kind(chr(code))
        kinds = _kinds[codes]
    is_mark = kinds == _MARK
    if is_mark.any():  # a mark counts as its base; one without a base as other
        bases = np.maximum.accumulate(np.where(is_mark, 0, np.arange(len(kinds))))
        kinds = kinds[bases]
    inside = np.zeros(len(kinds) + 1, dtype=bool)
    inside[1:-1] = (kinds[1:] == _WORD) & (kinds[:-1] == _WORD)
    return inside


def _kind(character: str) -> int:
    if unicodedata.category(character).startswith("M"):
        return _MARK
    is_alphanumeric = character.isalpha() or character.isdecimal()
    spaced = unicodedata.name(character, "CJK").split(" ")[0] not in _WITHOUT_SPACES
    return _WORD if is_alphanumeric and spaced else _OTHER


def are_whole_words(text: str, starts: Integers, ends: Integers) -> Flags:
    """(S,) whether spans of characters neither begin nor end inside a word."""
    inside = inside_words(text)
    whole: Flags = ~(inside[starts] | inside[ends])
    return whole


def are_mostly_whole(texts: Iterable[str], spans: Iterable[Sequence[tuple[int, int]]]) -> bool:
    """Whether nearly all character spans of labelled texts are whole words."""
    total = cut = 0
    for text, text_spans in zip(texts, spans, strict=True):
        if text_spans:
            starts, ends = np.array(text_spans, dtype=np.int64).T
            total += len(starts)
            cut += len(starts) - int(are_whole_words(text, starts, ends).sum())
    return cut <= TOLERATED_SHARE * total
