"""From a prepared corpus and a recipe to training examples by index: blocks, special tokens, masks or next tokens.

An example is a pure function of (recipe, corpus, seed, epoch, index).
"""

import numpy as np
from numpy.typing import ArrayLike

from spanlab.arrays import Integers
from spanlab.corpus import (
    WHOLE,
    Blocks,
    DocumentBlocks,
    FullSentenceBlocks,
    PairBlocks,
    PairLaw,
    Part,
    PreparedCorpus,
    StreamBlocks,
    StreamPairBlocks,
)
from spanlab.corruption import (
    ExampleBatch,
    Masking,
    PermutationSampler,
    RandomTokens,
    SpanFile,
    SpecialTokenLayout,
    TokenBatch,
    add_special_tokens,
)
from spanlab.corruption.autoregressive import bidirectional_examples, mark_sentences, mirror_steps, next_token_examples
from spanlab.errors import ConfigError
from spanlab.pretraining.recipe import PAIRS, Recipe
from spanlab.text import Tokenizer


def build_blocks(corpus: PreparedCorpus, recipe: Recipe, part: Part = WHOLE) -> Blocks:
    """All samples or, of continuous streams, those of a part of each stream."""
    data = recipe.data
    if data.blocks == "columns":
        return _next_token_columns(corpus, recipe, part) if recipe.predicts_next else _columns(corpus, recipe, part)
    if part != WHOLE:
        raise ConfigError(f"data.blocks is {data.blocks}, and only columns have parts", fix="set data.blocks=columns")
    if data.blocks == "documents":
        return DocumentBlocks(corpus, length=data.length)
    if data.blocks == "full-sentences":
        return FullSentenceBlocks(corpus, length=data.length, separator_id=corpus.tokenizer.sep_id)
    law = PairLaw(
        task="next_sentence" if data.blocks == "next-sentence" else "sentence_order",
        short_share=data.short_share,
        random_for_single=data.random_for_single,
    )
    return PairBlocks(corpus, length=data.length, law=law, seed=recipe.seed, passes=max(1, recipe.masking.static))


def _columns(corpus: PreparedCorpus, recipe: Recipe, part: Part) -> StreamBlocks | StreamPairBlocks:
    tokenizer, data = corpus.tokenizer, recipe.data
    paired = data.reuse is not None and data.random_second is not None
    separators = 0 if tokenizer.sep_id is None else 1 + paired
    blocks = StreamBlocks(
        corpus,
        length=data.length,
        columns=recipe.columns,
        stride=data.reuse,
        special_tokens=int(tokenizer.cls_id is not None) + separators,
        separator_id=document_end(tokenizer),
        whole=True,
        both_ways=data.both_ways,
        part=part,
    )
    if data.reuse is None or data.random_second is None:
        return blocks
    return StreamPairBlocks(blocks, reused=data.reuse, random_share=data.random_second, seed=recipe.seed)


def _next_token_columns(corpus: PreparedCorpus, recipe: Recipe, part: Part) -> StreamBlocks:
    # The last token of a sample is a target alone, and the next sample begins with it: so each is predicted once.
    return StreamBlocks(
        corpus,
        length=recipe.data.length + 1,
        stride=recipe.data.length,
        columns=recipe.columns,
        # Where sentences are marked, so are the ends of documents.
        separator_id=None if recipe.weighs("bilm") else document_end(corpus.tokenizer),
        part=part,
    )


def document_end(tokenizer: Tokenizer) -> int | None:
    """What stands after a document in a stream: XLNet has a token of its own for it."""
    return tokenizer.vocabulary.index("<eod>") if tokenizer.system == "xlnet" else tokenizer.sep_id


class Examples:
    """The samples of a corpus under a recipe; of continuous streams perhaps those of a part of each."""

    def __init__(self, corpus: PreparedCorpus, recipe: Recipe, part: Part = WHOLE) -> None:
        tokenizer, permuted = corpus.tokenizer, recipe.masking.law == "permutation"
        self.corpus, self.recipe = corpus, recipe
        self.blocks = build_blocks(corpus, recipe, part)
        # A stream goes on in the next sample, so nothing is put around a part of it.
        bounded = not (recipe.predicts_next and recipe.columns)
        self.layout = SpecialTokenLayout(
            cls_id=tokenizer.cls_id if bounded else None,
            sep_id=tokenizer.sep_id if bounded else None,
            special_ids=tokenizer.special_ids,
            segments=recipe.data.blocks in PAIRS or permuted,
            cls_last=tokenizer.system == "xlnet",
        )
        self.masking = None if recipe.predicts_next else build_masking(corpus, recipe)

    def __len__(self) -> int:
        return len(self.blocks)

    def stretches(self) -> tuple[Integers, Integers]:
        """(streams,) where the text of each continuous stream begins in the corpus, and where it ends."""
        assert isinstance(self.blocks, StreamBlocks | StreamPairBlocks)
        return self.blocks.stretches()

    def token_batch(self, indices: ArrayLike) -> TokenBatch:
        """The samples at `indices`, not corrupted."""
        blocks, tokenizer = self.blocks.batch(indices), self.corpus.tokenizer
        if self.recipe.weighs("bilm") and tokenizer.cls_id is not None and tokenizer.sep_id is not None:
            blocks = mark_sentences(blocks, begin_id=tokenizer.cls_id, end_id=tokenizer.sep_id)
        return add_special_tokens(blocks, self.layout)

    def batch(self, indices: ArrayLike, epoch: ArrayLike = 0) -> ExampleBatch:
        """The examples at `indices` (B,) in an epoch, or each in its own (B,)."""
        tokens, columns = self.token_batch(indices), self.recipe.columns
        if self.masking is not None:
            return self.masking(tokens, seed=self.recipe.seed, epoch=epoch)
        if not self.recipe.weighs("bilm"):
            return next_token_examples(tokens, streams=columns)
        backward = tokens
        if columns:
            numbers = np.asarray(indices, np.int64).reshape(-1)
            backward = self.token_batch(mirror_steps(numbers, columns, len(self)))
        return bidirectional_examples(tokens, backward, streams=columns)


def build_masking(corpus: PreparedCorpus, recipe: Recipe) -> Masking | PermutationSampler:
    """What turns blocks into examples by a recipe."""
    tokenizer, data = corpus.tokenizer, recipe.data
    if recipe.masking.law == "permutation":
        if data.blocks != "columns":
            raise ConfigError(
                f"masking.law is 'permutation', and data.blocks '{data.blocks}'", fix="set data.blocks=columns"
            )
        return PermutationSampler(
            recipe.masking.permutation, streams=recipe.columns, reuse=data.reuse, both_ways=data.both_ways
        )
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
