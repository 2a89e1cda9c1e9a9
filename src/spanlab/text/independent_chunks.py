"""Where text may be cut without changing its tokens.

What enters is the description of a tokenizer and a text; what leaves is the pieces of the text that the tokenizer
treats independently of each other. Whether and where a tokenizer allows this is read from its `tokenizer.json`, never
guessed. Three constructions are known: BERT's pre-tokenizer (pieces are words), the byte-level one (a word with the
space before it, or a run of punctuation), and SentencePiece's as in ALBERT and XLNet (a word between spaces). The
places are chosen with care for what normalizers do at edges: never beside a character that is ODD, never before a
combining mark that a normalizer could move. A property test holds the pieces to this on hostile text.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from spanlab.text.words import MARK, ODD, SPACE, character_classes, code_points, word_begins

Places = Literal["words", "spaces before", "spaces between"]

_LOCAL_NORMALIZERS = frozenset({"NFC", "NFD", "NFKC", "NFKD", "StripAccents", "Lowercase", "Precompiled"})
# A space or line break between plain letters: a place to cut in every construction.
_PLAIN_SPACE = re.compile(
    r"(?<=[0-9A-Za-z.,\u4e00-\u9fa5。，\uac00-\ud7a3])[ \n](?=[0-9A-Za-z\u4e00-\u9fa5\uac00-\ud7a3])"
)
_LETTER, _PUNCTUATION, _APOSTROPHE = 1, 2, 3
_ascii_kinds = np.zeros(0x110000, dtype=np.uint8)
_ascii_kinds[:128] = [
    _LETTER if chr(code).isalpha() else _PUNCTUATION if chr(code).isprintable() and not chr(code).isalnum() else 0
    for code in range(128)
]
_ascii_kinds[[ord(" "), ord("'")]] = 0, _APOSTROPHE


@dataclass(frozen=True, kw_only=True)
class CutRule:
    """Where text may be cut for a tokenizer, and which texts must not be."""

    places: Places
    unsafe: re.Pattern[str] | None
    """Matches a text that holds an added token which the cuts could break."""


def cut_rule(description: Mapping[str, Any]) -> CutRule | None:
    """The rule for a tokenizer, from its `tokenizer.json`; None if its pieces are not known to be independent."""
    added = description["added_tokens"]
    places = _cut_places(description["normalizer"], description["pre_tokenizer"])
    if places is None or any(token["normalized"] for token in added):
        return None
    fragile = [token["content"] for token in added if places != "spaces between" or _needs_neighbours(token)]
    return CutRule(places=places, unsafe=re.compile("|".join(map(re.escape, fragile))) if fragile else None)


def _needs_neighbours(token: Mapping[str, Any]) -> bool:
    flags = token["lstrip"] or token["rstrip"] or token["single_word"]
    return bool(flags) or any(character.isspace() for character in token["content"])


def _cut_places(normalizer: Mapping[str, Any] | None, splitter: Mapping[str, Any] | None) -> Places | None:
    if splitter == {"type": "BertPreTokenizer"} and normalizer is not None:
        isolates_han = normalizer["type"] == "BertNormalizer" and normalizer["handle_chinese_chars"]
        return "words" if isolates_han else None
    if splitter is None or not _is_local(normalizer):
        return None
    if splitter["type"] == "ByteLevel":
        return "spaces before" if splitter["use_regex"] and not splitter["add_prefix_space"] else None
    if splitter["type"] == "Sequence":
        parts = [(part["type"], part.get("prepend_scheme")) for part in splitter["pretokenizers"]]
        return "spaces between" if parts == [("WhitespaceSplit", None), ("Metaspace", "always")] else None
    return None


def _is_local(normalizer: Mapping[str, Any] | None) -> bool:
    """Whether what a normalizer does to a word does not depend on the words around it."""
    if normalizer is None:
        return True
    if normalizer["type"] == "Sequence":
        return all(_is_local(part) for part in normalizer["normalizers"])
    if normalizer["type"] == "Replace":
        pattern = normalizer["pattern"].get("String", " ")
        return not any(character.isspace() for character in pattern + normalizer["content"])
    return normalizer["type"] in _LOCAL_NORMALIZERS


def cut_long(text: str, length: int) -> list[tuple[int, int]]:
    """A text in parts of about `length` characters, each beginning with a plain space: (first, last) of each."""
    firsts = [0]
    while found := _PLAIN_SPACE.search(text, firsts[-1] + length):
        firsts.append(found.start())
    return list(zip(firsts, [*firsts[1:], len(text)], strict=True))


def find_pieces(text: str, bases: np.ndarray, places: Places) -> tuple[np.ndarray, np.ndarray]:
    """First and last (exclusive) character of each piece of joined texts that begin at `bases`.

    No piece crosses from one text to the next, and what is in no piece gives no token.
    """
    codes = code_points(text)
    classes = character_classes(codes)
    spaces = classes == SPACE  # a space that is ODD may be none to the tokenizer: it stays inside its piece
    if places == "spaces before":
        return _cut_before_spaces(codes, classes, spaces, bases)
    cuts = (classes & (ODD | MARK if places == "spaces between" else ODD)) == 0
    cuts[1:] &= (classes[:-1] & (ODD | MARK)) == 0
    if places == "words":
        cuts &= word_begins(text, classes)
    else:
        cuts &= ~spaces
        cuts[1:] &= spaces[:-1]
    filled = np.flatnonzero(~spaces)
    rank = np.cumsum(~spaces)  # of each character, how many up to it are no space
    text_firsts = np.append(filled, len(text))[np.append(0, rank)[bases[:-1]]]  # the first of each that is no space
    cuts[text_firsts[text_firsts < bases[1:] - 1]] = True
    firsts = np.flatnonzero(cuts)
    lasts = filled[np.append(rank[firsts[1:]] - 2, len(filled) - 1)] + 1 if len(firsts) else firsts
    return firsts, lasts


def _cut_before_spaces(
    codes: np.ndarray, classes: np.ndarray, spaces: np.ndarray, bases: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Pieces as byte-level BPE wants them: they begin with the space before a word, and cover every character.

    Its pattern also ends a match wherever plain letters and plain punctuation meet, except after an apostrophe ('s).
    """
    kinds = _ascii_kinds[codes]
    cuts = np.zeros(len(classes) + 1, dtype=bool)
    cuts[1:-1] = spaces[1:] & ((classes[:-1] & (SPACE | ODD)) == 0)
    cuts[1:-1] |= (kinds[:-1] == _LETTER) & (kinds[1:] >= _PUNCTUATION)
    cuts[1:-1] |= (kinds[:-1] == _PUNCTUATION) & (kinds[1:] == _LETTER)
    cuts[bases[1:] - 1] = False  # the separator is no part of a text
    cuts[bases[:-1]] = True
    cuts[-1] = False
    firsts = np.flatnonzero(cuts)
    lasts = np.append(firsts[1:], len(classes))
    cuts[:] = False
    cuts[bases[1:]] = True
    lasts -= cuts[lasts]  # back over the separator
    return firsts[lasts > firsts], lasts[lasts > firsts]
