"""Where words begin, told from token ids alone, for whoever has ids and no text (a collator, a foreign data set).

Offsets into the text say it exactly, and `Tokenizer.encode` gives them. This is the next best: a table over the
vocabulary of what each token looks like (does it carry a space, does it go on with a word, what are its first and last
characters), and one numpy pass over the ids. It never relies on "##" alone: byte-level BPE and SentencePiece mark
spaces instead, punctuation stands by itself, and so does each Han character.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spanlab.text.words import ALONE, HAN, character_classes, code_points

_BYTE_SPACE, _META_SPACE, _CONTINUES = "Ġ", "▁", "##"
_CHINESE_LEADS = frozenset((*range(0xE3, 0xEA), 0xEF))
"""First bytes of Han characters, ideographic punctuation and full-width forms in UTF-8."""


class VocabularyWords:
    """Word starts from ids, by a table over the vocabulary."""

    def __init__(self, tokens: Sequence[str]) -> None:
        """`tokens` are the vocabulary's entries in the order of their ids."""
        marked = sum(token.startswith((_BYTE_SPACE, _META_SPACE)) for token in tokens)
        pieces = sum(token.startswith(_CONTINUES) for token in tokens)
        # A vocabulary that marks neither spaces nor continuations holds whole words.
        self._marks_spaces = marked > pieces
        self._begins = np.array([self._begins_word(token, pieces > 0) for token in tokens], bool)
        self._first_alone, self._last_alone = _edges(tokens, byte_level=_is_byte_level(tokens))

    def _begins_word(self, token: str, has_pieces: bool) -> bool:
        if self._marks_spaces:
            return token.startswith((_BYTE_SPACE, _META_SPACE))
        return not (has_pieces and token.startswith(_CONTINUES) and len(token) > len(_CONTINUES))

    def word_starts(self, ids: NDArray[np.int64], specials: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """(N,) where words begin in a row of ids; a special token (N,) ends the word before it and begins none."""
        begins: NDArray[np.bool_] = self._begins[ids]
        if self._marks_spaces:
            # Only spaces are marked, so punctuation and Han characters must be told from the characters themselves.
            begins = begins | self._first_alone[ids]
            begins[1:] |= self._last_alone[ids[:-1]]
        begins[:1] = True
        begins[1:] |= specials[:-1]
        return begins & ~specials


def _is_byte_level(tokens: Sequence[str]) -> bool:
    return any(token.startswith(_BYTE_SPACE) for token in tokens)


def _edges(tokens: Sequence[str], *, byte_level: bool) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """(V,) whether the first, and the last, character of each token stands by itself as a word."""
    first, last = np.zeros(len(tokens), bool), np.zeros(len(tokens), bool)
    to_byte = _byte_table() if byte_level else {}
    for number, token in enumerate(tokens):
        text = token.lstrip(_BYTE_SPACE + _META_SPACE)
        if byte_level:
            raw = bytes(to_byte[character] for character in text if character in to_byte)
            text = raw.decode("utf-8", errors="ignore")
            if raw and not text.encode().startswith(raw[:1]):
                # The token begins inside a character, or with part of one: then its lead byte tells Chinese from
                # other scripts, and a byte inside a character begins nothing.
                first[number] = raw[0] in _CHINESE_LEADS
                continue
        if text:
            classes = character_classes(code_points(text[0] + text[-1]))
            first[number], last[number] = (classes & (ALONE | HAN)) != 0
    return first, last


def _byte_table() -> dict[str, int]:
    """The printable stand-in of every byte in GPT-2's vocabulary."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    table = {chr(byte): byte for byte in printable}
    others = [byte for byte in range(256) if byte not in printable]
    return table | {chr(256 + number): byte for number, byte in enumerate(others)}
