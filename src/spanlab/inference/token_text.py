"""From ids and log probabilities to what a person reads: candidates of a mask, fillings of a run, the filled text.

Shapes: V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from spanlab.inference.fill_result import Candidate, Filling
from spanlab.inference.masked_text import MaskedText, MaskRun
from spanlab.inference.span_beam import TokenFilling
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


def tokens_of_text(tokenizer: Tokenizer, rows: int) -> Tensor:
    """(V,) which of the ids stand for text; a word table may have more rows than there are tokens."""
    allowed_V = torch.zeros(rows, dtype=torch.bool)
    allowed_V[[number for number, token in enumerate(tokenizer.vocabulary) if token]] = True
    allowed_V[list(tokenizer.special_ids)] = False
    return allowed_V


class Spelling:
    """How the findings for one text are written."""

    def __init__(self, tokenizer: Tokenizer, masked: MaskedText) -> None:
        self._tokenizer, self._masked = tokenizer, masked

    def candidates(self, logs_V: Tensor, place: tuple[int, int], top: int) -> tuple[Candidate, ...]:
        """The `top` tokens for a mask; those with a log probability of -inf are no candidates."""
        best = logs_V.topk(min(top, int(logs_V.isfinite().sum())))
        pieces = [self._piece(number, place) for number in best.indices.tolist()]
        return tuple(
            Candidate(
                token=self._tokenizer.vocabulary[number],
                text=piece.text,
                begins_word=piece.begins_word,
                probability=probability,
            )
            for number, piece, probability in zip(
                best.indices.tolist(), pieces, best.values.exp().tolist(), strict=True
            )
        )

    def filling(self, run: MaskRun, found: TokenFilling) -> Filling:
        """A filling of a run."""
        start, end = run.start, run.end
        within = [(first - start, last - start) for first, last in run.places]
        return Filling(
            text=put_into(self._masked.text[start:end], within, self._pieces(run, found)),
            tokens=tuple(self._tokenizer.vocabulary[number] for number in found.ids),
            score=found.score,
        )

    def filled(self, best: list[TokenFilling]) -> str:
        """The whole text with a filling for every run."""
        places = [place for run in self._masked.runs for place in run.places]
        runs = zip(self._masked.runs, best, strict=True)
        return put_into(self._masked.text, places, [piece for run, found in runs for piece in self._pieces(run, found)])

    def _pieces(self, run: MaskRun, found: TokenFilling) -> list[ReadablePiece]:
        return [self._piece(number, place) for number, place in zip(found.ids, run.places, strict=True)]

    def _piece(self, number: int, place: tuple[int, int]) -> ReadablePiece:
        """The piece of an id at a mask; what opens the text begins a word without a mark of it."""
        piece = read_piece(self._tokenizer, number)
        opens = not self._masked.text[: place[0]].strip()
        return ReadablePiece(piece.text, True) if opens else piece
