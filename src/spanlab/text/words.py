"""Where words begin: from the text alone, or from token ids.

What enters is a string; what leaves is a class per character and the characters where words begin. Whitespace ends a
word; each punctuation mark is a word of its own, as in BERT's pre-tokenizer; each Han character is a word, unless a
segmenter groups them; everything else (letters of any script, digits, symbols, emoji) joins its neighbours, so a
Korean word is an eojeol. Combining marks, variation selectors and joiners belong to the character before them.

Classes are looked up in one table over all code points, filled as characters are seen: a text costs a few numpy passes
and no loop over characters.

`load_segmenter` gives a segmenter by its name, from a fixed list: a name in a file never becomes code.

`VocabularyWords` finds word starts where only ids are known, by the conventions of the vocabulary ("##", "Ġ", "▁").
"""

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Literal

import numpy as np

from spanlab.arrays import Flags, Integers
from spanlab.errors import InputError, MissingExtraError

Segmenter = Callable[[str], Sequence[str]]
"""Splits a run of Han characters into words; joined, the words must be the run."""
SegmenterName = Literal["jieba"]
"""The segmenters that a preparation can be told to use."""

SPACE, LETTER, ALONE, HAN, MARK = 1, 2, 4, 8, 16
ODD = 32
"""Added to a class where the tables of Python and of `tokenizers` may disagree: no chunk ends there."""

_classes = np.zeros(0x110000, dtype=np.uint8)  # 0: not seen yet

# The ranges of the second line were added to Unicode later, and some tokenizers do not have them.
_HAN_RANGES = ((0x4E00, 0x9FA5), (0x3400, 0x4DB5), (0x20000, 0x2A6D6), (0xF900, 0xFA2D), (0x2F800, 0x2FA1D))
_LATE_HAN_RANGES = ((0x9FA6, 0x9FFF), (0x4DB6, 0x4DBF), (0xFA2E, 0xFAD9), (0x2A6D7, 0x2EE5D), (0x30000, 0x3347F))
# Punctuation in every version of Unicode in use: Latin, general, CJK and full-width.
_OLD_PUNCTUATION = ((0x21, 0xBF), (0x2010, 0x2027), (0x2030, 0x205E), (0x3001, 0x301F), (0xFF01, 0xFF65))
# Characters that extend the one before them without being marks: joiners, half-width sound marks, skin tones, tags.
_EXTENDERS = ((0x200C, 0x200D), (0xFF9E, 0xFF9F), (0x1F3FB, 0x1F3FF), (0xE0020, 0xE007F))
_ODD_CHARACTERS = frozenset("\x0b\x0c\x1c\x1d\x1e\x1f\x85\u180e\u0e33\u0eb3")


def code_points(text: str) -> np.ndarray:
    """(C,) uint32 code points of a string."""
    try:
        return np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32)
    except UnicodeEncodeError as error:
        raise InputError(
            f"character {error.start} is half of a surrogate pair", fix="decode the text as UTF-8 first"
        ) from None


def character_classes(codes: np.ndarray) -> np.ndarray:
    """(C,) uint8: SPACE, LETTER, ALONE, HAN or MARK for each code point, with ODD added where it applies."""
    classes: np.ndarray = _classes[codes]
    if classes.size and classes.min() == 0:
        for code in np.unique(codes[classes == 0]).tolist():
            _classes[code] = _classify(code)
        classes = _classes[codes]
    return classes


def _within(code: int, ranges: tuple[tuple[int, int], ...]) -> bool:
    return any(first <= code <= last for first, last in ranges)


def _classify(code: int) -> int:
    character = chr(code)
    odd = ODD if character in _ODD_CHARACTERS else 0
    category = unicodedata.category(character)
    if character.isspace():
        return SPACE | odd
    if _within(code, _HAN_RANGES):
        return HAN
    if _within(code, _LATE_HAN_RANGES):
        return HAN | ODD
    if category.startswith("M") or _within(code, _EXTENDERS):
        return MARK
    if category.startswith("P") or (code < 128 and category.startswith("S")):
        return ALONE if _within(code, _OLD_PUNCTUATION) else ALONE | ODD
    return LETTER | odd


def word_begins(text: str, classes: np.ndarray, segmenter: Segmenter | None = None) -> np.ndarray:
    """(C,) bool, True at the first character of each word."""
    if classes.size == 0:
        return np.zeros(0, dtype=bool)
    before = np.empty_like(classes)
    before[0] = SPACE
    before[1:] = _classes_of_base(classes)[:-1]
    begins: np.ndarray = (classes & (ALONE | HAN)) != 0
    begins |= ((classes & LETTER) != 0) & ((before & LETTER) == 0)
    begins |= ((classes & MARK) != 0) & ((before & SPACE) != 0)
    if segmenter is not None:
        _join_segmented(text, classes, begins, segmenter)
    return begins


def _classes_of_base(classes: np.ndarray) -> np.ndarray:
    """The classes with each mark replaced by the class of its base; a mark without base counts as a letter."""
    marks = (classes & MARK) != 0
    if not marks.any():
        return classes
    bases = np.maximum.accumulate(np.where(marks, -1, np.arange(len(classes))))
    based = np.where(bases < 0, np.uint8(SPACE), classes[bases])
    return np.where(marks & ((based & SPACE) != 0), np.uint8(LETTER), based)


def _join_segmented(text: str, classes: np.ndarray, begins: np.ndarray, segmenter: Segmenter) -> None:
    """Unset the word begins inside the words that a segmenter finds in each run of Han characters."""
    han = ((classes & HAN) != 0).view(np.int8)
    edges = np.flatnonzero(np.diff(han, prepend=0, append=0))
    for first, last in edges.reshape(-1, 2).tolist():
        words = [word for word in segmenter(text[first:last]) if word]
        if "".join(words) != text[first:last]:
            raise InputError(
                f"the segmenter's words do not join to the characters {first} to {last} of the text",
                fix="a segmenter must return every character once, in order",
            )
        begins[first:last] = False
        begins[first + np.cumsum([0] + [len(word) for word in words[:-1]])] = True


@lru_cache(maxsize=1)
def load_segmenter(name: SegmenterName) -> Segmenter:
    """The segmenter of this name; its dictionary is read once a process."""
    try:
        import jieba
    except ImportError:
        raise MissingExtraError("zh", f"--segmenter {name}") from None
    segmenter = jieba.Tokenizer()
    # Not by jieba's own initialisation: it trusts a cache in the temporary folder, which any user may have put there.
    segmenter.FREQ, segmenter.total = segmenter.gen_pfdict(segmenter.get_dict_file())
    segmenter.initialized = True
    cut: Segmenter = segmenter.lcut
    return cut


def word_spans(text: str, segmenter: Segmenter | None = None) -> list[tuple[int, int]]:
    """The words of a text as character spans, in order; every non-blank character is in exactly one."""
    classes = character_classes(code_points(text))
    begins = word_begins(text, classes, segmenter)
    stops = begins | ((classes & SPACE) != 0)
    firsts = np.flatnonzero(begins)
    lasts = np.append(np.flatnonzero(stops), len(text))[np.cumsum(stops)[firsts]]
    return list(zip(firsts.tolist(), lasts.tolist(), strict=True))


_BYTE_SPACE, _META_SPACE, _CONTINUES = "Ġ", "▁", "##"
_CHINESE_LEADS = frozenset((*range(0xE3, 0xEA), 0xEF))
"""First bytes of Han characters, ideographic punctuation and full-width forms in UTF-8."""


class VocabularyWords:
    """Word starts from ids, by a table over the vocabulary."""

    def __init__(self, tokens: Sequence[str]) -> None:
        """`tokens` are the vocabulary's entries in the order of their ids."""
        marked = sum(token.startswith((_BYTE_SPACE, _META_SPACE)) for token in tokens)
        pieces = sum(token.startswith(_CONTINUES) for token in tokens)
        # A vocabulary that marks neither spaces nor continuations consists of whole words.
        self._marks_spaces = marked > pieces
        self._begins = np.array([self._begins_word(token, pieces > 0) for token in tokens], bool)
        self._first_alone, self._last_alone = _edges(tokens, byte_level=_is_byte_level(tokens))

    def _begins_word(self, token: str, has_pieces: bool) -> bool:
        if self._marks_spaces:
            return token.startswith((_BYTE_SPACE, _META_SPACE))
        return not (has_pieces and token.startswith(_CONTINUES) and len(token) > len(_CONTINUES))

    def word_starts(self, ids: Integers, specials: Flags) -> Flags:
        """(N,) where words begin in a row of ids; a special token (N,) ends the word before it and begins none."""
        begins: Flags = self._begins[ids]
        if self._marks_spaces:
            # Only spaces are marked, so punctuation and Han characters are recognised by the characters themselves.
            begins = begins | self._first_alone[ids]
            begins[1:] |= self._last_alone[ids[:-1]]
        begins[:1] = True
        begins[1:] |= specials[:-1]
        return begins & ~specials


def _is_byte_level(tokens: Sequence[str]) -> bool:
    return any(token.startswith(_BYTE_SPACE) for token in tokens)


def _edges(tokens: Sequence[str], *, byte_level: bool) -> tuple[Flags, Flags]:
    """(V,) whether the first, and the last, character of each token is a word by itself."""
    first, last = np.zeros(len(tokens), bool), np.zeros(len(tokens), bool)
    to_byte = _byte_table() if byte_level else {}
    for index, token in enumerate(tokens):
        text = token.lstrip(_BYTE_SPACE + _META_SPACE)
        if byte_level:
            raw = bytes(to_byte[character] for character in text if character in to_byte)
            text = raw.decode("utf-8", errors="ignore")
            if raw and not text.encode().startswith(raw[:1]):
                # The token begins with part of a character: a lead byte distinguishes Chinese from other scripts, and a
                # byte inside a character begins no word.
                first[index] = raw[0] in _CHINESE_LEADS
                continue
        if text:
            classes = character_classes(code_points(text[0] + text[-1]))
            first[index], last[index] = (classes & (ALONE | HAN)) != 0
    return first, last


def _byte_table() -> dict[str, int]:
    """The byte of each printable stand-in of GPT-2's vocabulary."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    table = {chr(byte): byte for byte in printable}
    others = [byte for byte in range(256) if byte not in printable]
    return table | {chr(256 + index): byte for index, byte in enumerate(others)}


def script_language(texts: Iterable[str]) -> Literal["en", "zh", "ko"]:
    """The language by whose rules texts are scored: Chinese or Korean if a third of their letters are, else English."""
    scripts = Counter(
        unicodedata.name(character, "").split(" ")[0] for text in texts for character in text if character.isalpha()
    )
    letters = max(1, scripts.total())
    if scripts["HANGUL"] * 3 >= letters:
        return "ko"
    return "zh" if scripts["CJK"] * 3 >= letters else "en"
