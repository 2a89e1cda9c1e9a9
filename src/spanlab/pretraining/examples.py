"""From a prepared corpus and a recipe to training examples by index: blocks, special tokens, masks or next tokens.

An example is a pure function of (recipe, corpus, seed, epoch, index).
"""

import numpy as np
from numpy.typing import ArrayLike

from spanlab.corpus import (
    Blocks,
    ColumnBlocks,
    DocumentBlocks,
    FullSentenceBlocks,
    PairBlocks,
    PairLaw,
    PreparedCorpus,
)
from spanlab.corruption import ExampleBatch, Frame, FramedBatch, Masking, RandomTokens, SpanFile, frame_blocks
from spanlab.corruption.both_ways import both_ways, mark_sentences, mirror_steps
from spanlab.corruption.next_token import next_tokens
from spanlab.pretraining.recipe import Recipe


class Examples:
    """The samples of a corpus under a recipe."""

    def __init__(self, corpus: PreparedCorpus, recipe: Recipe) -> None:
        tokenizer = corpus.tokenizer
        self.corpus, self.recipe = corpus, recipe
        self.blocks = build_blocks(corpus, recipe)
        # A stream goes on in the next sample, so nothing is put around a part of it.
        framed = not (recipe.predicts_next and recipe.data.blocks == "stream")
        self.frame = Frame(
            cls_id=tokenizer.cls_id if framed else None,
            sep_id=tokenizer.sep_id if framed else None,
            special_ids=tokenizer.special_ids,
            segments=recipe.data.blocks in {"next-sentence", "sentence-order"},
        )
        self.columns = recipe.data.columns if recipe.data.blocks == "stream" else 0
        """The streams that samples are steps of, as `ExampleBatch` says; 0 where each sample is on its own."""
        self.masking = None if recipe.predicts_next else _build_masking(corpus, recipe)

    def __len__(self) -> int:
        return len(self.blocks)

    def framed(self, indices: ArrayLike) -> FramedBatch:
        """The samples at `indices`, not corrupted."""
        blocks, tokenizer = self.blocks.batch(indices), self.corpus.tokenizer
        if self.recipe.trains("bilm") and tokenizer.cls_id is not None and tokenizer.sep_id is not None:
            blocks = mark_sentences(blocks, begin_id=tokenizer.cls_id, end_id=tokenizer.sep_id)
        return frame_blocks(blocks, self.frame)

    def batch(self, indices: ArrayLike, epoch: int = 0) -> ExampleBatch:
        """The examples at `indices` in an epoch."""
        framed = self.framed(indices)
        if self.masking is not None:
            return self.masking(framed, seed=self.recipe.seed, epoch=epoch)
        if not self.recipe.trains("bilm"):
            return next_tokens(framed, columns=self.columns)
        backward = framed
        if self.columns:
            numbers = np.asarray(indices, np.int64).reshape(-1)
            backward = self.framed(mirror_steps(numbers, self.columns, len(self)))
        return both_ways(framed, backward, columns=self.columns)


def _build_masking(corpus: PreparedCorpus, recipe: Recipe) -> Masking:
    tokenizer = corpus.tokenizer
    counts = corpus.token_counts if recipe.masking.random_from == "corpus" else None
    return Masking(
        recipe.masking,
        mask_id=tokenizer.mask_id,
        random_tokens=RandomTokens(tokenizer.vocab_size, tokenizer.special_ids, counts),
        given=None if recipe.data.spans is None else _read_spans(corpus, recipe.data.spans),
        sampling=recipe.trains("rtd"),
    )


def _read_spans(corpus: PreparedCorpus, path: str) -> SpanFile:
    everything = corpus.read([0], [corpus.counts.tokens])
    return SpanFile(path, everything.word_starts)


def build_blocks(corpus: PreparedCorpus, recipe: Recipe) -> Blocks:
    """The samples that a recipe's `data` section asks for."""
    data = recipe.data
    if data.blocks == "documents":
        return DocumentBlocks(corpus, length=data.length)
    if data.blocks == "full-sentences":
        return FullSentenceBlocks(corpus, length=data.length, separator_id=corpus.tokenizer.sep_id)
    if data.blocks == "stream":
        return _stream(corpus, recipe)
    law = PairLaw(
        task="next_sentence" if data.blocks == "next-sentence" else "sentence_order",
        short_share=data.short_share,
        random_for_single=data.random_for_single,
    )
    return PairBlocks(corpus, length=data.length, law=law, seed=recipe.seed, passes=max(1, recipe.masking.static))


def _stream(corpus: PreparedCorpus, recipe: Recipe) -> ColumnBlocks:
    data, separator = recipe.data, corpus.tokenizer.sep_id
    if not recipe.predicts_next:
        return ColumnBlocks(corpus, length=data.length, columns=data.columns, special_tokens=2, separator_id=separator)
    # The last token of a sample is a target alone, and the next sample begins with it: so each is predicted once.
    return ColumnBlocks(
        corpus,
        length=data.length + 1,
        stride=data.length,
        columns=data.columns,
        # Where sentences are marked, so are the ends of documents.
        separator_id=None if recipe.trains("bilm") else separator,
    )
