"""Special tokens around blocks: [CLS] text [SEP], or [CLS] first [SEP] second [SEP]; XLNet's [CLS] comes last.

What enters are blocks of text as the corpus gives them; what leaves are the same tokens in a row with the special
tokens of the system between them, and which of the tokens may be masked. Separators that a layout put inside a block
(between documents) are special, too: they are seen and never masked.

Shapes: B blocks, N tokens of all of them in a row.
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
    """Which special tokens stand where; None for none."""

    cls_id: int | None
    sep_id: int | None
    special_ids: tuple[int, ...]
    """Everything that is never masked and never drawn as a replacement."""
    segments: bool = False
    """Whether examples carry segment ids (pairs)."""
    cls_last: bool = False
    """XLNet: [CLS] ends the sequence, in a segment of its own."""


@dataclass(frozen=True, kw_only=True)
class TokenBatch:
    """Blocks with their special tokens, not corrupted yet."""

    indices: Integers
    ids: Integers
    lengths: Integers
    starts: Integers
    """(B,) where each block begins in the row."""
    block_of: Integers
    """(N,) the block of each token, from 0."""
    maskable: Flags
    """(N,) text, as opposed to special tokens."""
    specials: Integers
    """The tokens that are not text, ascending."""
    word_starts: Flags
    """(N,) where a word of the text begins; never at a special token."""
    pairs: SentencePairs | None
    sources: Integers | None
    """(B,) where the text of each block begins in the corpus, if it is one stretch of it."""

    @property
    def text_lengths(self) -> Integers:
        """(B,) tokens of text in each block."""
        return self.lengths - np.bincount(self.block_of[self.specials], minlength=len(self.lengths))


def add_special_tokens(blocks: BlockBatch, layout: SpecialTokenLayout) -> TokenBatch:
    """The blocks with special tokens around them."""
    lengths = blocks.lengths.astype(np.int64)
    first_lengths = blocks.first_lengths.astype(np.int64)
    leads = layout.cls_id is not None and not layout.cls_last
    ends_with_cls = layout.cls_id is not None and layout.cls_last
    before, after = int(leads), int(layout.sep_id is not None)
    # Only a second segment brings a second separator.
    paired = (first_lengths < lengths).astype(np.int64) * after
    full_lengths = lengths + before + after + paired + ends_with_cls
    starts = offsets(full_lengths)
    lasts = starts + full_lengths - 1
    block_of = np.repeat(np.arange(len(lengths)), full_lengths)

    ids = np.empty(int(full_lengths.sum()), np.int64)
    is_text = np.ones(len(ids), bool)
    if layout.cls_id is not None:
        ids[lasts if layout.cls_last else starts] = layout.cls_id
        is_text[lasts if layout.cls_last else starts] = False
    if layout.sep_id is not None:
        ends = np.concatenate([lasts - ends_with_cls, (starts + before + first_lengths)[paired > 0]])
        ids[ends] = layout.sep_id
        is_text[ends] = False
    ids[is_text] = blocks.ids
    word_starts = np.zeros(len(ids), bool)
    word_starts[is_text] = blocks.word_starts
    maskable = is_text & ~np.isin(ids, layout.special_ids)
    pairs = None
    if layout.segments:
        second_starts = starts + before + first_lengths + after
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
    """Sequences that have their special tokens already, such as a tokenizer's output."""
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
    """Word starts of the text alone: a special token begins none, and ends the word before it."""
    after_special = np.ones(len(maskable), bool)
    np.logical_not(maskable[:-1], out=after_special[1:])
    return maskable & (word_starts | after_special)
