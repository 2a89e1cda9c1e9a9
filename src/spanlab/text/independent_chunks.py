"""Chunks of text that a tokenizer encodes independently of each other.

What enters is the description of a tokenizer and a text; what leaves is the chunks, where splitting does not change the
tokens. Whether and where a tokenizer allows this is read from its `tokenizer.json`, never guessed. Three constructions
are known: BERT's pre-tokenizer (chunks are words), the byte-level one (a word with the space before it, or a run of
punctuation), and SentencePiece's as in ALBERT and XLNet (a word between spaces). Boundaries respect what normalizers do
at edges: never beside an ODD character, never before a combining mark that a normalizer could move. A property test
checks this on adversarial text.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from spanlab.text.words import MARK, ODD, SPACE, character_classes, code_points, word_begins

Boundaries = Literal["words", "spaces before", "spaces between"]

_LOCAL_NORMALIZERS = frozenset({"NFC", "NFD", "NFKC", "NFKD", "StripAccents", "Lowercase", "Precompiled"})
# A space or line break between plain letters: a boundary in every construction.
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
class ChunkRule:
    """Where a tokenizer's chunks begin and end, and which texts must be encoded whole."""

    boundaries: Boundaries
    unsafe: re.Pattern[str] | None
    """Matches a text with an added token that splitting could break."""


def chunk_rule(description: Mapping[str, Any]) -> ChunkRule | None:
    """The rule for a tokenizer, from its `tokenizer.json`; None if none is known."""
    added = description["added_tokens"]
    boundaries = _boundaries(description["normalizer"], description["pre_tokenizer"])
    if boundaries is None or any(token["normalized"] for token in added):
        return None
    fragile = [token["content"] for token in added if boundaries != "spaces between" or _needs_neighbours(token)]
    unsafe = re.compile("|".join(map(re.escape, fragile))) if fragile else None
    return ChunkRule(boundaries=boundaries, unsafe=unsafe)


def _needs_neighbours(token: Mapping[str, Any]) -> bool:
    flags = token["lstrip"] or token["rstrip"] or token["single_word"]
    return bool(flags) or any(character.isspace() for character in token["content"])


def _boundaries(normalizer: Mapping[str, Any] | None, splitter: Mapping[str, Any] | None) -> Boundaries | None:
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
    """Whether a normalizer treats each word independently of the words around it."""
    if normalizer is None:
        return True
    if normalizer["type"] == "Sequence":
        return all(_is_local(part) for part in normalizer["normalizers"])
    if normalizer["type"] == "Replace":
        pattern = normalizer["pattern"].get("String", " ")
        return not any(character.isspace() for character in pattern + normalizer["content"])
    return normalizer["type"] in _LOCAL_NORMALIZERS


def split_long(text: str, length: int) -> list[tuple[int, int]]:
    """(first, last) of parts of about `length` characters, each but the first beginning with a plain space."""
    firsts = [0]
    while space := _PLAIN_SPACE.search(text, firsts[-1] + length):
        firsts.append(space.start())
    return list(zip(firsts, [*firsts[1:], len(text)], strict=True))


def find_chunks(text: str, bases: np.ndarray, boundaries: Boundaries) -> tuple[np.ndarray, np.ndarray]:
    """First and last (exclusive) character of each chunk of joined texts that begin at `bases`.

    No chunk crosses from one text to the next, and characters outside of chunks give no token.
    """
    codes = code_points(text)
    classes = character_classes(codes)
    spaces = classes == SPACE  # an ODD space may not be one for the tokenizer, so it stays inside its chunk
    if boundaries == "spaces before":
        return _chunks_before_spaces(codes, classes, spaces, bases)
    cuts = (classes & (ODD | MARK if boundaries == "spaces between" else ODD)) == 0
    cuts[1:] &= (classes[:-1] & (ODD | MARK)) == 0
    if boundaries == "words":
        cuts &= word_begins(text, classes)
    else:
        cuts &= ~spaces
        cuts[1:] &= spaces[:-1]
    filled = np.flatnonzero(~spaces)
    rank = np.cumsum(~spaces)  # for each character, how many up to it are not space
    # The first character of each text that is not space.
    text_firsts = np.append(filled, len(text))[np.append(0, rank)[bases[:-1]]]
    cuts[text_firsts[text_firsts < bases[1:] - 1]] = True
    firsts = np.flatnonzero(cuts)
    lasts = filled[np.append(rank[firsts[1:]] - 2, len(filled) - 1)] + 1 if len(firsts) else firsts
    return firsts, lasts


def _chunks_before_spaces(
    codes: np.ndarray, classes: np.ndarray, spaces: np.ndarray, bases: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Chunks of byte-level BPE: they begin with the space before a word, and cover every character.

    Its pattern also ends a match wherever plain letters and plain punctuation meet, except after an apostrophe ('s).
    """
    kinds = _ascii_kinds[codes]
    cuts = np.zeros(len(classes) + 1, dtype=bool)
    cuts[1:-1] = spaces[1:] & ((classes[:-1] & (SPACE | ODD)) == 0)
    cuts[1:-1] |= (kinds[:-1] == _LETTER) & (kinds[1:] >= _PUNCTUATION)
    cuts[1:-1] |= (kinds[:-1] == _PUNCTUATION) & (kinds[1:] == _LETTER)
    cuts[bases[1:] - 1] = False  # the separator is not part of a text
    cuts[bases[:-1]] = True
    cuts[-1] = False
    firsts = np.flatnonzero(cuts)
    lasts = np.append(firsts[1:], len(classes))
    cuts[:] = False
    cuts[bases[1:]] = True
    lasts -= cuts[lasts]  # back over the separator
    return firsts[lasts > firsts], lasts[lasts > firsts]
