"""Vocabulary entries as a person reads them, and put back into a text.

What enters is a tokenizer's id; what leaves is the piece without the tokenizer's marks (`##ing`, `Ġthe`, `▁the`) and
whether it begins a word. Spaces are the tokenizer's to mark and the text's to have: a piece that goes on with a word
is joined to what stands before it, one that begins a word is parted from letters before it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from spanlab.text.tokenizer import Tokenizer
from spanlab.text.words import LETTER, character_classes, code_points

_BYTE_SPACE, _META_SPACE, _CONTINUES = "Ġ", "▁", "##"
_CLOSING = frozenset(".,;:!?)]}%…’”")
"""What English sets close to the word before it; WordPiece does not say."""


@dataclass(frozen=True)
class ReadablePiece:
    """One entry of a vocabulary."""

    text: str
    """Its characters; a part of a character that has several bytes is shown as U+FFFD."""
    begins_word: bool
    """Whether a word begins with it, by the tokenizer's marks."""


def read_piece(tokenizer: Tokenizer, number: int) -> ReadablePiece:
    """The piece of an id."""
    token = tokenizer.vocabulary[number]
    if tokenizer.kind == "wordpiece":
        continues = token.startswith(_CONTINUES) and len(token) > len(_CONTINUES)
        return ReadablePiece(token.removeprefix(_CONTINUES) if continues else token, not continues)
    if tokenizer.kind == "word":
        return ReadablePiece(token, True)
    if token.startswith(_META_SPACE):
        return ReadablePiece(token.removeprefix(_META_SPACE), True)
    if tokenizer.kind == "unigram":
        return ReadablePiece(token, False)
    marked = token.startswith(_BYTE_SPACE)
    text = tokenizer.decode([number])
    return ReadablePiece(text.removeprefix(" ") if marked else text, marked)


def put_into(text: str, places: Sequence[tuple[int, int]], pieces: Sequence[ReadablePiece]) -> str:
    """`text` with each of the ascending character spans `places` replaced by its piece."""
    written, done, spaced = "", 0, False
    for (start, end), piece in zip(places, pieces, strict=True):
        gap = text[done:start]
        after_space = spaced and not gap.strip()
        written += "" if after_space else gap
        spaced = piece.begins_word and not piece.text  # a token that is nothing but the space before a word
        if spaced:
            written = f"{written.rstrip()} " if written.strip() else written
        elif not after_space:
            written = _meet(written, piece)
        written, done = written + piece.text, end
    return written + text[done:]


def _meet(written: str, piece: ReadablePiece) -> str:
    """What is written before a piece, with or without a space at its end as the piece wants it."""
    if not piece.begins_word or piece.text[:1] in _CLOSING:
        return written.rstrip()
    return f"{written} " if _is_letter(written[-1:]) and _is_letter(piece.text[:1]) else written


def _is_letter(character: str) -> bool:
    return bool((character_classes(code_points(character)) & LETTER).any())
