"""A text with masks in it, as a model takes it.

What enters is the user's string, in which a mask is written `[MASK]` or as the tokenizer itself writes it; what leaves
is one framed row of ids and its runs of masks, each mask with its characters in the user's string. Spaces before a mask
belong to it: what is masked in training is a token that carries its space, and none is left behind.
"""

import re
from dataclasses import dataclass

import numpy as np

from spanlab.errors import InputError
from spanlab.text import Tokenizer

MASK = "[MASK]"
"""How a user may write a mask, whatever the tokenizer calls it."""


@dataclass(frozen=True, kw_only=True)
class Span:
    """Tokens `first` to `last` of a row, both inside."""

    first: int
    last: int

    def __len__(self) -> int:
        return self.last - self.first + 1


@dataclass(frozen=True, kw_only=True)
class MaskRun:
    """Masks that stand next to each other in the row."""

    span: Span
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
    """With the special tokens around."""
    runs: tuple[MaskRun, ...]


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


def _runs(masks: list[int], places: list[tuple[int, int]]) -> tuple[MaskRun, ...]:
    begins = [number for number, mask in enumerate(masks) if number == 0 or mask != masks[number - 1] + 1]
    ends = [*begins[1:], len(masks)]
    return tuple(
        MaskRun(span=Span(first=masks[begin], last=masks[end - 1]), places=tuple(places[begin:end]))
        for begin, end in zip(begins, ends, strict=True)
    )
