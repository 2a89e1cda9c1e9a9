"""Special tokens around blocks: [CLS] text [SEP], or [CLS] first [SEP] second [SEP]; XLNet's [CLS] comes last.

Blocks of text from the corpus go in; a packed batch with special tokens comes out, with flags of the tokens that may be
masked. Separators inside a block (between documents) are special tokens too: visible, never masked.

Shapes: B blocks, N tokens of all blocks, special tokens included.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from spanlab.arrays import Flags, Integers, offsets
from spanlab.corpus.blocks import BlockBatch
from spanlab.corruption.examples import SentencePairs


@dataclass(frozen=True, kw_only=True)
class SpecialTokenLayout:
    """Which special tokens are added where; an id of None adds none."""

    cls_id: int | None
    sep_id: int | None
    special_ids: tuple[int, ...]
    """Ids that are never masked and never drawn as a replacement."""
    segments: bool = False
    """Whether batches have segment ids (pairs)."""
    cls_last: bool = False
    """XLNet: [CLS] is the last token, with segment id 2."""


@dataclass(frozen=True, kw_only=True)
class TokenBatch:
    """Blocks with special tokens, before corruption."""

    indices: Integers
    """(B,) sample indices."""
    ids: Integers
    """(N,)"""
    lengths: Integers
    """(B,) special tokens included."""
    starts: Integers
    """(B,) the position of each block's first token."""
    block_of: Integers
    """(N,) the block of each token, from 0."""
    maskable: Flags
    """(N,) text, as opposed to special tokens."""
    specials: Integers
    """Positions of the special tokens, ascending."""
    word_starts: Flags
    """(N,) first tokens of words; never a special token."""
    pairs: SentencePairs | None
    sources: Integers | None
    """(B,) the index of each block's first text token in the corpus; None if blocks are not contiguous text."""

    @property
    def text_lengths(self) -> Integers:
        """(B,) text tokens of each block."""
        return self.lengths - np.bincount(self.block_of[self.specials], minlength=len(self.lengths))


def add_special_tokens(blocks: BlockBatch, layout: SpecialTokenLayout) -> TokenBatch:
    """The blocks with special tokens around them."""
    lengths = blocks.lengths.astype(np.int64)
    first_lengths = blocks.first_lengths.astype(np.int64)
    starts_with_cls = int(layout.cls_id is not None and not layout.cls_last)
    ends_with_cls = int(layout.cls_id is not None and layout.cls_last)
    separator = int(layout.sep_id is not None)
    # Only a second segment adds a second separator.
    second_separator = (first_lengths < lengths).astype(np.int64) * separator
    full_lengths = lengths + starts_with_cls + separator + second_separator + ends_with_cls
    starts = offsets(full_lengths)
    lasts = starts + full_lengths - 1
    block_of = np.repeat(np.arange(len(lengths)), full_lengths)

    ids = np.empty(int(full_lengths.sum()), np.int64)
    is_text = np.ones(len(ids), bool)
    if layout.cls_id is not None:
        ids[lasts if layout.cls_last else starts] = layout.cls_id
        is_text[lasts if layout.cls_last else starts] = False
    if layout.sep_id is not None:
        ends = np.concatenate([lasts - ends_with_cls, (starts + starts_with_cls + first_lengths)[second_separator > 0]])
        ids[ends] = layout.sep_id
        is_text[ends] = False
    ids[is_text] = blocks.ids
    word_starts = np.zeros(len(ids), bool)
    word_starts[is_text] = blocks.word_starts
    maskable = is_text & ~np.isin(ids, layout.special_ids)
    pairs = None
    if layout.segments:
        second_starts = starts + starts_with_cls + first_lengths + separator
        segment_ids = (np.arange(len(ids)) >= second_starts[block_of]).astype(np.int64)
        if ends_with_cls:
            segment_ids[lasts] = 2
        pairs = SentencePairs(segment_ids=segment_ids, labels=blocks.labels.astype(np.int64))
    return TokenBatch(
        indices=blocks.indices.astype(np.int64),
        ids=ids,
        lengths=full_lengths,
        starts=starts,
        block_of=block_of,
        maskable=maskable,
        specials=np.flatnonzero(~maskable),
        word_starts=word_starts_of_text(word_starts, maskable),
        pairs=pairs,
        sources=blocks.sources,
    )


def batch_sequences(
    sequences: Sequence[ArrayLike],
    word_starts: Sequence[ArrayLike],
    layout: SpecialTokenLayout,
    indices: ArrayLike | None = None,
) -> TokenBatch:
    """A batch of sequences that already have special tokens, such as a tokenizer's output."""
    rows = [np.asarray(sequence, np.int64) for sequence in sequences]
    lengths = np.array([len(row) for row in rows], np.int64)
    ids = np.concatenate(rows)
    maskable = ~np.isin(ids, layout.special_ids)
    flags = np.concatenate([np.asarray(flags, bool) for flags in word_starts])
    return TokenBatch(
        indices=np.arange(len(rows)) if indices is None else np.asarray(indices, np.int64),
        ids=ids,
        lengths=lengths,
        starts=offsets(lengths),
        block_of=np.repeat(np.arange(len(rows)), lengths),
        maskable=maskable,
        specials=np.flatnonzero(~maskable),
        word_starts=word_starts_of_text(flags, maskable),
        pairs=None,
        sources=None,
    )


def word_starts_of_text(word_starts: Flags, maskable: Flags) -> Flags:
    """(N,) first tokens of words: no special token is one, and the token after a special token always is."""
    after_special = np.ones(len(maskable), bool)
    np.logical_not(maskable[:-1], out=after_special[1:])
    return maskable & (word_starts | after_special)
