"""From a prepared corpus and a recipe to training examples by index: blocks, special tokens, masks or next tokens.

An example is a pure function of (recipe, corpus, seed, epoch, index).
"""

import numpy as np
from numpy.typing import ArrayLike

from spanlab.arrays import Numbers
from spanlab.corpus import WHOLE, Part, PreparedCorpus, StreamBlocks, StreamPairBlocks
from spanlab.corruption import (
    ExampleBatch,
    Frame,
    FramedBatch,
    Masking,
    Permuting,
    RandomTokens,
    SpanFile,
    frame_blocks,
)
from spanlab.corruption.bidirectional import both_ways, mark_sentences, mirror_steps
from spanlab.corruption.next_token import next_tokens
from spanlab.errors import ConfigError
from spanlab.pretraining.blocks import build_blocks
from spanlab.pretraining.recipe import PAIRS, Recipe


class Examples:
    """The samples of a corpus under a recipe; of continuous streams perhaps those of a part of each."""

    def __init__(self, corpus: PreparedCorpus, recipe: Recipe, part: Part = WHOLE) -> None:
        tokenizer, permuted = corpus.tokenizer, recipe.masking.law == "permutation"
        self.corpus, self.recipe = corpus, recipe
        self.blocks = build_blocks(corpus, recipe, part)
        # A stream goes on in the next sample, so nothing is put around a part of it.
        framed = not (recipe.predicts_next and recipe.columns)
        self.frame = Frame(
            cls_id=tokenizer.cls_id if framed else None,
            sep_id=tokenizer.sep_id if framed else None,
            special_ids=tokenizer.special_ids,
            segments=recipe.data.blocks in PAIRS or permuted,
            cls_last=tokenizer.system == "xlnet",
        )
        self.masking = None if recipe.predicts_next else build_masking(corpus, recipe)

    def __len__(self) -> int:
        return len(self.blocks)

    def stretches(self) -> tuple[Numbers, Numbers]:
        """(streams,) where the text of each continuous stream begins in the corpus, and where it ends."""
        assert isinstance(self.blocks, StreamBlocks | StreamPairBlocks)
        return self.blocks.stretches()

    def framed(self, indices: ArrayLike) -> FramedBatch:
        """The samples at `indices`, not corrupted."""
        blocks, tokenizer = self.blocks.batch(indices), self.corpus.tokenizer
        if self.recipe.weighs("bilm") and tokenizer.cls_id is not None and tokenizer.sep_id is not None:
            blocks = mark_sentences(blocks, begin_id=tokenizer.cls_id, end_id=tokenizer.sep_id)
        return frame_blocks(blocks, self.frame)

    def batch(self, indices: ArrayLike, epoch: ArrayLike = 0) -> ExampleBatch:
        """The examples at `indices` (B,) in an epoch, or each in its own (B,)."""
        framed, columns = self.framed(indices), self.recipe.columns
        if self.masking is not None:
            return self.masking(framed, seed=self.recipe.seed, epoch=epoch)
        if not self.recipe.weighs("bilm"):
            return next_tokens(framed, columns=columns)
        backward = framed
        if columns:
            numbers = np.asarray(indices, np.int64).reshape(-1)
            backward = self.framed(mirror_steps(numbers, columns, len(self)))
        return both_ways(framed, backward, columns=columns)


def build_masking(corpus: PreparedCorpus, recipe: Recipe) -> Masking | Permuting:
    """What turns blocks into examples by a recipe."""
    tokenizer, data = corpus.tokenizer, recipe.data
    if recipe.masking.law == "permutation":
        if data.blocks != "columns":
            raise ConfigError(
                f"masking.law is 'permutation', and data.blocks '{data.blocks}'", fix="set data.blocks=columns"
            )
        return Permuting(recipe.masking.permutation, columns=recipe.columns, reuse=data.reuse, both_ways=data.both_ways)
    counts = corpus.token_counts if recipe.masking.random_from == "corpus" else None
    return Masking(
        recipe.masking,
        mask_id=tokenizer.mask_id,
        random_tokens=RandomTokens(tokenizer.vocab_size, tokenizer.special_ids, counts),
        given=None if data.spans is None else _read_spans(corpus, data.spans),
        sampling=recipe.weighs("rtd"),
    )


def _read_spans(corpus: PreparedCorpus, path: str) -> SpanFile:
    everything = corpus.read([0], [corpus.counts.tokens])
    return SpanFile(path, everything.word_starts)
