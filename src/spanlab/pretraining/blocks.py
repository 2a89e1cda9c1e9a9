"""The samples that a recipe's `data` section asks for, by index."""

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
from spanlab.errors import ConfigError
from spanlab.pretraining.recipe import Recipe
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
