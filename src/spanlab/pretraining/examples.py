"""From a prepared corpus and a recipe to training examples by index: blocks, special tokens, masks.

An example is a pure function of (recipe, corpus, seed, epoch, index).
"""

from numpy.typing import ArrayLike

from spanlab.corpus import (
    Blocks,
    ColumnBlocks,
    DocumentBlocks,
    FullSentenceBlocks,
    PairBlocks,
    PairLaw,
    PreparedCorpus,
    StreamPairBlocks,
)
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
from spanlab.errors import ConfigError
from spanlab.pretraining.recipe import Recipe
from spanlab.text import Tokenizer


class Examples:
    """The samples of a corpus under a recipe."""

    def __init__(self, corpus: PreparedCorpus, recipe: Recipe) -> None:
        tokenizer = corpus.tokenizer
        self.corpus, self.recipe = corpus, recipe
        self.blocks = build_blocks(corpus, recipe)
        self.frame = Frame(
            cls_id=tokenizer.cls_id,
            sep_id=tokenizer.sep_id,
            special_ids=tokenizer.special_ids,
            segments=recipe.data.blocks in {"next-sentence", "sentence-order", "columns"},
            cls_last=tokenizer.system == "xlnet",
        )
        self.masking = build_masking(corpus, recipe)

    def __len__(self) -> int:
        return len(self.blocks)

    def framed(self, indices: ArrayLike) -> FramedBatch:
        """The samples at `indices`, not corrupted."""
        return frame_blocks(self.blocks.batch(indices), self.frame)

    def batch(self, indices: ArrayLike, epoch: ArrayLike = 0) -> ExampleBatch:
        """The examples at `indices` (B,) in an epoch, or each in its own (B,)."""
        return self.masking(self.framed(indices), seed=self.recipe.seed, epoch=epoch)


def build_masking(corpus: PreparedCorpus, recipe: Recipe) -> Masking | Permuting:
    """What turns blocks into examples by a recipe."""
    tokenizer, data = corpus.tokenizer, recipe.data
    if recipe.masking.law == "permutation":
        if data.blocks != "columns":
            raise ConfigError(
                f"masking.law is 'permutation', and data.blocks '{data.blocks}'", fix="set data.blocks=columns"
            )
        return Permuting(recipe.masking.permutation, columns=data.columns, reuse=data.reuse, both_ways=data.both_ways)
    counts = corpus.token_counts if recipe.masking.random_from == "corpus" else None
    return Masking(
        recipe.masking,
        mask_id=tokenizer.mask_id,
        random_tokens=RandomTokens(tokenizer.vocab_size, tokenizer.special_ids, counts),
        given=None if data.spans is None else _read_spans(corpus, data.spans),
        sampling=recipe.objectives.get("rtd", 0.0) > 0,
    )


def _build_columns(corpus: PreparedCorpus, recipe: Recipe) -> ColumnBlocks | StreamPairBlocks:
    tokenizer, data = corpus.tokenizer, recipe.data
    paired = data.reuse is not None and data.random_second is not None
    separators = 0 if tokenizer.sep_id is None else 1 + paired
    blocks = ColumnBlocks(
        corpus,
        length=data.length,
        columns=data.columns,
        stride=data.reuse,
        special_tokens=int(tokenizer.cls_id is not None) + separators,
        separator_id=_document_end(tokenizer),
        whole=True,
        both_ways=data.both_ways,
    )
    if data.reuse is None or data.random_second is None:
        return blocks
    return StreamPairBlocks(blocks, reused=data.reuse, random_share=data.random_second, seed=recipe.seed)


def _document_end(tokenizer: Tokenizer) -> int | None:
    """What stands after a document in a stream: XLNet has a token of its own for it."""
    return tokenizer.vocabulary.index("<eod>") if tokenizer.system == "xlnet" else tokenizer.sep_id


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
    if data.blocks == "columns":
        return _build_columns(corpus, recipe)
    law = PairLaw(
        task="next_sentence" if data.blocks == "next-sentence" else "sentence_order",
        short_share=data.short_share,
        random_for_single=data.random_for_single,
    )
    return PairBlocks(corpus, length=data.length, law=law, seed=recipe.seed, passes=max(1, recipe.masking.static))
