"""Training examples by index: a prepared corpus and a recipe in, batches of examples out.

Blocks are cut from the corpus, get special tokens, and are masked, permuted or shifted by one token. An example is a
pure function of (recipe, corpus, seed, epoch, index).
"""

from numpy.typing import ArrayLike

from spanlab.arrays import Integers
from spanlab.corpus import (
    WHOLE_STREAM,
    Blocks,
    DocumentBlocks,
    FullSentenceBlocks,
    PairBlocks,
    PairLaw,
    PreparedCorpus,
    StreamBlocks,
    StreamPairBlocks,
    StreamRange,
)
from spanlab.corpus.manifest import SPANS
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
from spanlab.pretraining.methods import PAIR_BLOCKS
from spanlab.pretraining.recipe import Recipe
from spanlab.text import Tokenizer


def build_blocks(corpus: PreparedCorpus, recipe: Recipe, stream_range: StreamRange = WHOLE_STREAM) -> Blocks:
    """The blocks of a corpus; with streams, `stream_range` selects a part of each."""
    data = recipe.data
    if data.blocks == "streams":
        build = _next_token_streams if recipe.corruption is None else _streams
        return build(corpus, recipe, stream_range)
    if stream_range != WHOLE_STREAM:
        raise ConfigError(f"data.blocks is {data.blocks}, but only streams have ranges", fix="set data.blocks=streams")
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


def _streams(corpus: PreparedCorpus, recipe: Recipe, stream_range: StreamRange) -> StreamBlocks | StreamPairBlocks:
    tokenizer, data = corpus.tokenizer, recipe.data
    paired = data.reuse is not None and data.random_second is not None
    separators = 0 if tokenizer.sep_id is None else 1 + paired
    blocks = StreamBlocks(
        corpus,
        length=data.length,
        streams=recipe.streams,
        stride=data.reuse,
        special_tokens=int(tokenizer.cls_id is not None) + separators,
        separator_id=document_end(tokenizer),
        whole=True,
        bidirectional=data.both_ways,
        stream_range=stream_range,
    )
    if data.reuse is None or data.random_second is None:
        return blocks
    return StreamPairBlocks(blocks, reused=data.reuse, random_share=data.random_second, seed=recipe.seed)


def _next_token_streams(corpus: PreparedCorpus, recipe: Recipe, stream_range: StreamRange) -> StreamBlocks:
    # The last token of a sample is only a target, and the first input of the next sample: each is predicted once.
    return StreamBlocks(
        corpus,
        length=recipe.data.length + 1,
        stride=recipe.data.length,
        streams=recipe.streams,
        # Sentence marks also mark the ends of documents.
        separator_id=None if recipe.method.marks_sentences else document_end(corpus.tokenizer),
        stream_range=stream_range,
    )


def document_end(tokenizer: Tokenizer) -> int | None:
    """The id that is inserted after a document in a stream: XLNet's `<eod>`, else the separator."""
    return tokenizer.vocabulary.index("<eod>") if tokenizer.system == "xlnet" else tokenizer.sep_id


class Examples:
    """The examples of a corpus under a recipe; with streams, `stream_range` selects a part of each."""

    def __init__(self, corpus: PreparedCorpus, recipe: Recipe, stream_range: StreamRange = WHOLE_STREAM) -> None:
        tokenizer = corpus.tokenizer
        self.corpus, self.recipe = corpus, recipe
        self.blocks = build_blocks(corpus, recipe, stream_range)
        # The next sample continues the stream, so there are no special tokens at the edges.
        bounded = recipe.corruption is not None or not recipe.streams
        self.layout = SpecialTokenLayout(
            cls_id=tokenizer.cls_id if bounded else None,
            sep_id=tokenizer.sep_id if bounded else None,
            special_ids=tokenizer.special_ids,
            segments=recipe.data.blocks in PAIR_BLOCKS.values() or recipe.masking.law == "permutation",
            cls_last=tokenizer.system == "xlnet",
        )
        self.masking = None if recipe.corruption is None else build_masking(corpus, recipe)

    def __len__(self) -> int:
        return len(self.blocks)

    def text_ranges(self) -> tuple[Integers, Integers]:
        """(texts,) the first token of each stream's text in the corpus, and (texts,) its end."""
        assert isinstance(self.blocks, StreamBlocks | StreamPairBlocks)
        return self.blocks.text_ranges()

    def token_batch(self, indices: ArrayLike) -> TokenBatch:
        """The samples at `indices` (B,), before corruption."""
        blocks, tokenizer = self.blocks.batch(indices), self.corpus.tokenizer
        marked = self.recipe.method.marks_sentences
        if marked and tokenizer.cls_id is not None and tokenizer.sep_id is not None:
            blocks = mark_sentences(blocks, begin_id=tokenizer.cls_id, end_id=tokenizer.sep_id)
        return add_special_tokens(blocks, self.layout)

    def batch(self, indices: ArrayLike, epoch: ArrayLike = 0) -> ExampleBatch:
        """The examples at `indices` (B,); `epoch` is a scalar or (B,), one per example."""
        tokens, streams = self.token_batch(indices), self.recipe.streams
        if self.masking is not None:
            return self.masking(tokens, seed=self.recipe.seed, epoch=epoch)
        if self.recipe.method.directions == 1:
            return next_token_examples(tokens, streams=streams)
        backward = tokens
        if streams:
            backward = self.token_batch(mirror_steps(tokens.indices, streams, len(self)))
        return bidirectional_examples(tokens, backward, streams=streams)


def build_masking(corpus: PreparedCorpus, recipe: Recipe) -> Masking | PermutationSampler:
    """The masking or permutation of a recipe."""
    tokenizer, data = corpus.tokenizer, recipe.data
    if recipe.corruption == "permutation":
        if data.blocks != "streams":
            raise ConfigError(
                f"masking.law is 'permutation', but data.blocks is '{data.blocks}'", fix="set data.blocks=streams"
            )
        return PermutationSampler(
            recipe.masking.permutation, streams=recipe.streams, reuse=data.reuse, both_ways=data.both_ways
        )
    counts = corpus.token_counts if recipe.masking.random_from == "corpus" else None
    given, found = None, corpus.folder / SPANS
    if data.spans is not None or ("given" in (recipe.masking.mixture or {recipe.masking.law}) and found.is_file()):
        given = SpanFile(data.spans or found, corpus.read([0], [corpus.counts.tokens]).word_starts)
    return Masking(
        recipe.masking,
        mask_id=tokenizer.mask_id,
        random_tokens=RandomTokens(tokenizer.vocab_size, tokenizer.special_ids, counts),
        given=given,
        sampling=recipe.method.generator,
    )
