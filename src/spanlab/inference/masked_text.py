"""A text with masks as the input of a model, and token ids as text again.

What enters is the user's string, in which a mask is written `[MASK]` or as the tokenizer writes it; what leaves is one
row of ids with special tokens and its runs of masks, each mask with its characters in the user's string. Spaces before
a mask belong to it: a token that is masked in training includes its space. On the way back, `Spelling` turns ids and
log probabilities into candidates of a mask, fillings of a run and the filled text.

Shapes: V vocabulary.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from spanlab.errors import InputError
from spanlab.inference.fill_result import Candidate, Filling
from spanlab.text import Tokenizer
from spanlab.text.words import LETTER, character_classes, code_points

MASK = "[MASK]"
"""How a user may write a mask, whatever the tokenizer calls it."""


@dataclass(frozen=True, kw_only=True)
class TokenSpan:
    """Tokens `first` to `last` of a row, inclusive."""

    first: int
    last: int

    def __len__(self) -> int:
        return self.last - self.first + 1


@dataclass(frozen=True, kw_only=True)
class MaskedSpan:
    """Adjacent masks of a row."""

    span: TokenSpan
    places: tuple[tuple[int, int], ...]
    """The characters of each mask in the user's text, end exclusive."""

    @property
    def start(self) -> int:
        """The first character of the first mask."""
        return self.places[0][0]

    @property
    def end(self) -> int:
        """The end of the last mask, exclusive."""
        return self.places[-1][1]


@dataclass(frozen=True, kw_only=True)
class MaskedText:
    """One text, ready for an encoder."""

    text: str
    ids: tuple[int, ...]
    """With special tokens."""
    runs: tuple[MaskedSpan, ...]


def read_masked_text(text: str, tokenizer: Tokenizer) -> MaskedText:
    """Find the masks of a text and encode it around them."""
    if tokenizer.mask_id is None:
        raise InputError("the tokenizer has no mask token", fix="use a model that was trained to fill masks")
    own = tokenizer.vocabulary[tokenizer.mask_id]
    pattern = re.compile("|".join(map(re.escape, sorted({MASK, own}))))
    places = [match.span() for match in pattern.finditer(text)]
    if not places:
        raise InputError("the text has no mask", fix=f"write {MASK} for every token to be filled in")
    before = [tokenizer.cls_id] if tokenizer.cls_id is not None else []
    after = [tokenizer.sep_id] if tokenizer.sep_id is not None else []
    inside = tokenizer.encode(_with_own_masks(text, places, own)).ids
    masks = np.flatnonzero(inside == tokenizer.mask_id) + len(before)
    if len(masks) != len(places):
        cause = f"the tokenizer finds {len(masks)} masks in the text where {len(places)} are written"
        raise InputError(cause, fix=f"its tokenizer.json must name {own} among the added tokens")
    return MaskedText(text=text, ids=(*before, *inside.tolist(), *after), runs=_runs(masks.tolist(), places))


def _with_own_masks(text: str, places: list[tuple[int, int]], own: str) -> str:
    written, done = "", 0
    for start, end in places:
        written, done = written + text[done:start].rstrip() + own, end
    return written + text[done:]


def _runs(masks: list[int], places: list[tuple[int, int]]) -> tuple[MaskedSpan, ...]:
    begins = [number for number, mask in enumerate(masks) if number == 0 or mask != masks[number - 1] + 1]
    ends = [*begins[1:], len(masks)]
    return tuple(
        MaskedSpan(span=TokenSpan(first=masks[begin], last=masks[end - 1]), places=tuple(places[begin:end]))
        for begin, end in zip(begins, ends, strict=True)
    )


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
    """Token ids as the text that they stand for in one masked text."""

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

    def filling(self, run: MaskedSpan, ids: Sequence[int], score: float) -> Filling:
        """A filling of a run by token ids."""
        start, end = run.start, run.end
        within = [(first - start, last - start) for first, last in run.places]
        return Filling(
            text=put_into(self._masked.text[start:end], within, self._pieces(run, ids)),
            tokens=tuple(self._tokenizer.vocabulary[token_id] for token_id in ids),
            score=score,
        )

    def filled(self, best: Sequence[Sequence[int]]) -> str:
        """The whole text with the token ids of a filling for every run."""
        places = [place for run in self._masked.runs for place in run.places]
        runs = zip(self._masked.runs, best, strict=True)
        return put_into(self._masked.text, places, [piece for run, ids in runs for piece in self._pieces(run, ids)])

    def _pieces(self, run: MaskedSpan, ids: Sequence[int]) -> list[ReadablePiece]:
        return [self._piece(token_id, place) for token_id, place in zip(ids, run.places, strict=True)]

    def _piece(self, number: int, place: tuple[int, int]) -> ReadablePiece:
        """The piece of an id at a mask; what opens the text begins a word without a mark of it."""
        piece = read_piece(self._tokenizer, number)
        opens = not self._masked.text[: place[0]].strip()
        return ReadablePiece(piece.text, True) if opens else piece
