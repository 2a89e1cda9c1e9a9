"""Where words begin, decided by the text alone, and mapped onto tokens through their character offsets.

What enters is a string (and token spans in it); what leaves is a boolean per character or per token. Whitespace ends
a word; each punctuation mark is a word of its own, as in BERT's pre-tokenizer; each Han character is a word, unless a
segmenter groups them; everything else (letters of any script, digits, symbols, emoji) joins its neighbours, so a
Korean word is an eojeol. Combining marks, variation selectors and joiners belong to the character before them.

No tokenizer is asked for its opinion: "##", "Ġ" and "▁" are conventions of one vocabulary each, and wrong for
Chinese, for emoji made of byte tokens, and for the lone "▁". Classes are looked up in one table over all code
points, filled as characters are met, so that a text costs a few numpy passes and no loop over characters.
"""

import unicodedata
from collections.abc import Callable, Sequence

import numpy as np

from spanlab.errors import InputError

Segmenter = Callable[[str], Sequence[str]]
"""Cuts a run of Han characters into words; the words joined must be the run."""

SPACE, LETTER, ALONE, MARK = 0, 1, 2, 3
_HAN, _NOT_SEEN = 4, 255  # Han differs from ALONE only for a segmenter
_classes = np.full(0x110000, _NOT_SEEN, dtype=np.uint8)

_HAN_RANGES = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2EBEF),
    (0x30000, 0x323AF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


def code_points(text: str) -> np.ndarray:
    """(C,) uint32 code points of a string."""
    try:
        return np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32)
    except UnicodeEncodeError as error:
        raise InputError(
            f"character {error.start} is half of a surrogate pair", fix="decode the text as UTF-8 before it comes here"
        ) from None


def _classify(code: int) -> int:
    character = chr(code)
    if character.isspace():
        return SPACE
    if any(first <= code <= last for first, last in _HAN_RANGES):
        return _HAN
    category = unicodedata.category(character)
    if category.startswith("M") or character == "\u200d":
        return MARK
    if category.startswith("P") or (code < 128 and category.startswith("S")):
        return ALONE
    return LETTER


def character_classes(codes: np.ndarray) -> np.ndarray:
    """(C,) uint8 class of each code point."""
    classes = _classes[codes]
    if classes.size and classes.max() == _NOT_SEEN:
        for code in np.unique(codes[classes == _NOT_SEEN]).tolist():
            _classes[code] = _classify(code)
        classes = _classes[codes]
    return classes


def word_begins(text: str, segmenter: Segmenter | None = None) -> tuple[np.ndarray, np.ndarray]:
    """(C,) bool, True at the first character of each word; and (C,) bool, True at whitespace."""
    classes = character_classes(code_points(text))
    spaces = classes == SPACE
    if classes.size == 0:
        return spaces, spaces
    before = np.concatenate((np.zeros(1, np.uint8), _classes_of_base(classes)[:-1]))
    begins = (classes == ALONE) | (classes == _HAN)
    begins |= (classes == LETTER) & (before != LETTER)
    begins |= (classes == MARK) & (before == SPACE)
    if segmenter is not None:
        _join_segmented(text, classes, begins, segmenter)
    return begins, spaces


def _classes_of_base(classes: np.ndarray) -> np.ndarray:
    """The classes with each mark replaced by the class of what it sits on (a mark on nothing is a letter)."""
    marks = classes == MARK
    if not marks.any():
        return classes
    bases = np.maximum.accumulate(np.where(marks, -1, np.arange(len(classes))))
    based = np.where(bases < 0, np.uint8(SPACE), classes[bases])
    return np.where(marks & (based == SPACE), np.uint8(LETTER), based).astype(np.uint8)


def _join_segmented(text: str, classes: np.ndarray, begins: np.ndarray, segmenter: Segmenter) -> None:
    """Unmark the beginnings inside the words a segmenter finds in each run of Han characters."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], (classes == _HAN).view(np.int8), [0]))))
    for first, last in edges.reshape(-1, 2).tolist():
        begins[first:last] = False
        words = list(segmenter(text[first:last]))
        if "".join(words) != text[first:last]:
            raise InputError(
                f"the segmenter's words do not join to the characters {first} to {last} of the text",
                fix="a segmenter must return every character once, in order",
            )
        position = first
        for word in words:
            if word:
                begins[position] = True
                position += len(word)


def word_spans(text: str, segmenter: Segmenter | None = None) -> list[tuple[int, int]]:
    """The words of a text as character spans, in order; every non-blank character is in exactly one."""
    begins, spaces = word_begins(text, segmenter)
    firsts = np.flatnonzero(begins)
    nexts = np.append(firsts[1:], len(text))
    blanks = np.append(np.flatnonzero(spaces), len(text))
    lasts = np.minimum(nexts, blanks[np.searchsorted(blanks, firsts)])
    return list(zip(firsts.tolist(), lasts.tolist(), strict=True))
