"""A text with masks as the input of a model, and token ids as text again.

What enters is the user's string, in which a mask is written `[MASK]` or as the tokenizer writes it; what leaves is one
row of ids with special tokens and its runs of masks, each mask with its character span in the user's string. Spaces
before a mask are dropped: a token that is masked in training includes its space. In the other direction, `FillDecoder`
turns ids and log probabilities into candidates for a mask, fillings of a run and the filled text.

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

CharSpan = tuple[int, int]
"""Start and end in characters, end exclusive."""
MASK = "[MASK]"
"""A mask as users write it, whatever the tokenizer's mask token is."""


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
    char_spans: tuple[CharSpan, ...]
    """Each mask in the user's text."""

    @property
    def start(self) -> int:
        """The first character of the first mask."""
        return self.char_spans[0][0]

    @property
    def end(self) -> int:
        """The end of the last mask, exclusive."""
        return self.char_spans[-1][1]


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
    mask_token = tokenizer.vocabulary[tokenizer.mask_id]
    pattern = re.compile("|".join(map(re.escape, sorted({MASK, mask_token}))))
    char_spans = [match.span() for match in pattern.finditer(text)]
    if not char_spans:
        raise InputError("the text has no mask", fix=f"write {MASK} for every token to be filled in")
    before = [tokenizer.cls_id] if tokenizer.cls_id is not None else []
    after = [tokenizer.sep_id] if tokenizer.sep_id is not None else []
    ids = tokenizer.encode(_with_mask_token(text, char_spans, mask_token)).ids
    positions = np.flatnonzero(ids == tokenizer.mask_id) + len(before)
    if len(positions) != len(char_spans):
        cause = f"the tokenizer finds {len(positions)} masks in the text where {len(char_spans)} are written"
        raise InputError(cause, fix=f"its tokenizer.json must name {mask_token} among the added tokens")
    return MaskedText(text=text, ids=(*before, *ids.tolist(), *after), runs=_runs(positions.tolist(), char_spans))


def _with_mask_token(text: str, char_spans: list[CharSpan], mask_token: str) -> str:
    written, done = "", 0
    for start, end in char_spans:
        written, done = written + text[done:start].rstrip() + mask_token, end
    return written + text[done:]


def _runs(positions: list[int], char_spans: list[CharSpan]) -> tuple[MaskedSpan, ...]:
    """Masks at adjacent token positions, grouped."""
    starts = [index for index, position in enumerate(positions) if index == 0 or position != positions[index - 1] + 1]
    ends = [*starts[1:], len(positions)]
    return tuple(
        MaskedSpan(
            span=TokenSpan(first=positions[start], last=positions[end - 1]), char_spans=tuple(char_spans[start:end])
        )
        for start, end in zip(starts, ends, strict=True)
    )


_BYTE_SPACE, _META_SPACE, _CONTINUATION = "Ġ", "▁", "##"
_CLOSING = frozenset(".,;:!?)]}%…’”")
"""Punctuation without a space before it; WordPiece tokens do not record it."""


@dataclass(frozen=True)
class ReadablePiece:
    """A vocabulary entry as text, without the tokenizer's marks for spaces and continuations."""

    text: str
    """An incomplete UTF-8 sequence is shown as U+FFFD."""
    begins_word: bool
    """Whether a word begins with it, by the tokenizer's marks."""


def read_piece(tokenizer: Tokenizer, token_id: int) -> ReadablePiece:
    """The text of a token id."""
    token = tokenizer.vocabulary[token_id]
    if tokenizer.kind == "wordpiece":
        continues = token.startswith(_CONTINUATION) and len(token) > len(_CONTINUATION)
        return ReadablePiece(token.removeprefix(_CONTINUATION) if continues else token, not continues)
    if tokenizer.kind == "word":
        return ReadablePiece(token, True)
    if token.startswith(_META_SPACE):
        return ReadablePiece(token.removeprefix(_META_SPACE), True)
    if tokenizer.kind == "unigram":
        return ReadablePiece(token, False)
    marked = token.startswith(_BYTE_SPACE)
    text = tokenizer.decode([token_id])
    return ReadablePiece(text.removeprefix(" ") if marked else text, marked)


def fill_spans(text: str, char_spans: Sequence[CharSpan], pieces: Sequence[ReadablePiece]) -> str:
    """`text` with each of the ascending character spans replaced by its piece, and spaces as the pieces require."""
    written, done, spaced = "", 0, False
    for (start, end), piece in zip(char_spans, pieces, strict=True):
        gap = text[done:start]
        after_space = spaced and not gap.strip()
        written += "" if after_space else gap
        spaced = piece.begins_word and not piece.text  # a token that is nothing but the space before a word
        if spaced:
            written = f"{written.rstrip()} " if written.strip() else written
        elif not after_space:
            written = _join_space(written, piece)
        written, done = written + piece.text, end
    return written + text[done:]


def _join_space(written: str, piece: ReadablePiece) -> str:
    """`written` with or without a space at its end, as the piece that follows requires."""
    if not piece.begins_word or piece.text[:1] in _CLOSING:
        return written.rstrip()
    return f"{written} " if _is_letter(written[-1:]) and _is_letter(piece.text[:1]) else written


def _is_letter(character: str) -> bool:
    return bool((character_classes(code_points(character)) & LETTER).any())


def text_token_mask(tokenizer: Tokenizer, vocab_size: int) -> Tensor:
    """(V,) whether each id is a token of text, not a special or unused one; the model may have more ids than tokens."""
    allowed_V = torch.zeros(vocab_size, dtype=torch.bool)
    allowed_V[[token_id for token_id, token in enumerate(tokenizer.vocabulary) if token]] = True
    allowed_V[list(tokenizer.special_ids)] = False
    return allowed_V


class FillDecoder:
    """Turns token ids for the masks of one text into text."""

    def __init__(self, tokenizer: Tokenizer, masked: MaskedText) -> None:
        self._tokenizer, self._masked = tokenizer, masked

    def candidates(self, logs_V: Tensor, char_span: CharSpan, top: int) -> tuple[Candidate, ...]:
        """The `top` tokens for the mask at `char_span`; tokens with a log probability of -inf are left out."""
        best = logs_V.topk(min(top, int(logs_V.isfinite().sum())))
        candidates = []
        for token_id, probability in zip(best.indices.tolist(), best.values.exp().tolist(), strict=True):
            piece = self._piece(token_id, char_span)
            token = self._tokenizer.vocabulary[token_id]
            candidates.append(
                Candidate(token=token, text=piece.text, begins_word=piece.begins_word, probability=probability)
            )
        return tuple(candidates)

    def filling(self, run: MaskedSpan, ids: Sequence[int], score: float) -> Filling:
        """A filling of a run by token ids."""
        start, end = run.start, run.end
        within = [(first - start, last - start) for first, last in run.char_spans]
        return Filling(
            text=fill_spans(self._masked.text[start:end], within, self._pieces(run, ids)),
            tokens=tuple(self._tokenizer.vocabulary[token_id] for token_id in ids),
            score=score,
        )

    def filled(self, best: Sequence[Sequence[int]]) -> str:
        """The whole text; `best` has the token ids of a filling for every run."""
        char_spans = [char_span for run in self._masked.runs for char_span in run.char_spans]
        pieces = [piece for run, ids in zip(self._masked.runs, best, strict=True) for piece in self._pieces(run, ids)]
        return fill_spans(self._masked.text, char_spans, pieces)

    def _pieces(self, run: MaskedSpan, ids: Sequence[int]) -> list[ReadablePiece]:
        return [self._piece(token_id, char_span) for token_id, char_span in zip(ids, run.char_spans, strict=True)]

    def _piece(self, token_id: int, char_span: CharSpan) -> ReadablePiece:
        """The text of a token id at a mask; at the start of the text it begins a word, even without the mark."""
        piece = read_piece(self._tokenizer, token_id)
        starts_text = not self._masked.text[: char_span[0]].strip()
        return ReadablePiece(piece.text, True) if starts_text else piece
