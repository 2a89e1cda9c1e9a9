"""Masking: a batch of blocks in, a batch of examples out, as a pure function of (seed, epoch, sample index).

A law picks the tokens to mask, `masked_spans` joins adjacent ones into spans, `replacement` draws what the encoder sees
in their place. `MaskingConfig` is the recipe's `masking` section; its field docstrings name the published system each
setting comes from.

Shapes: B blocks, N tokens of all blocks, K masked tokens, S spans.
"""

from dataclasses import dataclass, field
from typing import Annotated, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spanlab.arrays import Flags, Integers
from spanlab.config import Above, AtLeast, AtMost, Bounded
from spanlab.corpus.randomness import Draws, draw, sample_keys, uniform
from spanlab.corruption.budget import Rounding, budgets
from spanlab.corruption.examples import ExampleBatch
from spanlab.corruption.given_spans import GivenSpans, pick_given_spans
from spanlab.corruption.masked_spans import MaskedSpans, collapse_spans, find_spans, masked_examples
from spanlab.corruption.ngram import pick_ngrams
from spanlab.corruption.permutation import PermutationConfig
from spanlab.corruption.replacement import RandomTokens, ReplacePer, Shares, decide, replace_tokens
from spanlab.corruption.span_law import Anchor, LengthLaw, draw_spans, pick_geometric_spans, select_blocks
from spanlab.corruption.special_tokens import TokenBatch
from spanlab.corruption.units import Units, pick_random_units, tokens_of, words_of
from spanlab.errors import ConfigError, InputError

_MIXING, _CHOOSING, _REPLACING, _SAMPLING = range(1, 5)
"""Index of the draw from a sample's key for each purpose; the budget uses draw 0."""

Law = Literal["subword", "word", "span", "ngram", "given", "permutation"]


@dataclass(frozen=True, kw_only=True)
class MaskingConfig(Bounded):
    """The `masking` section of a recipe; the defaults are SpanBERT's."""

    law: Law = "span"
    """subword: BERT; word: whole words; span: SpanBERT; ngram: ALBERT; given: entities or noun phrases; permutation:
    XLNet, which masks nothing and reads only the `permutation` keys of this section."""
    mixture: dict[str, Annotated[float, AtMost(1_000_000)]] | None = None
    """{law: share} in place of a single law: the law of each sample is drawn by these shares."""
    ratio: Annotated[float, Above(0), AtMost(0.9)] = 0.15
    """The share of the text that is masked."""
    rounding: Rounding = "ceil"
    """How ratio·n becomes a whole number: ceil (SpanBERT), round (BERT, ALBERT), chance (RoBERTa) or floor."""
    max_predictions: Annotated[int, AtLeast(1)] | None = None
    """The maximum number of masked tokens per block (BERT: 20 at length 128)."""
    geometric_p: Annotated[float, Above(0), AtMost(1)] = 0.2
    """The parameter of span lengths: P(k) is proportional to p (1 - p)^(k - 1)."""
    max_length: Annotated[int, AtLeast(1), AtMost(1000)] = 10
    """The longest span, or n-gram, in units."""
    length_law: Literal["truncated", "clipped"] = "truncated"
    """span: what becomes of lengths over max_length: they are drawn again (the released code, and the paper's mean of
    3.8), or become max_length (the paper's words; max(1, min(10, Geo)) in tutorials)."""
    unit: Literal["word", "token", "token-from-word"] = "word"
    """The unit of span lengths: words; tokens, which may begin anywhere; or tokens from the beginning of a word on."""
    anchor: Anchor = "word"
    """Where spans begin: uniform over words (the paper) or over pieces (the released code)."""
    cut_last_word: bool = False
    """Cut the last word where the budget ends (the released code) instead of leaving the word unmasked."""
    favour_short: bool = True
    """ngram: the chance of n is proportional to 1/n; false reverses it."""
    given_share: Annotated[float, AtLeast(0), AtMost(1)] = 0.5
    """given: the share of the budget spent on given spans; random words take the rest."""
    all_mask: bool = False
    """Every masked token becomes [MASK]: the three shares do not count."""
    mask_share: float = 0.8
    """The share of masked tokens, words or spans (`replace_per`) that become [MASK]."""
    random_share: float = 0.1
    """The share that become random tokens."""
    keep_share: float = 0.1
    """The share that are kept, and predicted all the same."""
    replace_per: ReplacePer = "span"
    """Mask, random or keep is decided once per token (BERT), word or span (SpanBERT)."""
    random_from: Literal["vocabulary", "corpus"] = "corpus"
    """Where random tokens come from: uniform over the vocabulary (BERT), or by frequency (SpanBERT's code)."""
    collapse: bool = False
    """A span that becomes [MASK] becomes a single one, from which all of its tokens are predicted; mask, random or keep
    is then decided once per span, whatever `replace_per` says."""
    permutation: PermutationConfig = field(default_factory=PermutationConfig)
    static: Annotated[int, AtLeast(0)] = 0
    """Draw masks for this many epochs and then repeat them (BERT's dupe_factor); 0 draws anew each epoch (RoBERTa)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        Shares(self.mask_share, self.random_share, self.keep_share)
        laws = [law for law in Law.__args__ if law != "permutation"]  # type: ignore[attr-defined]
        for law, share in (self.mixture or {}).items():
            if law not in laws or share < 0:
                raise ConfigError(f"masking.mixture has '{law}: {share}'", fix=f"use shares of {', '.join(laws)}")
        if self.mixture is not None and sum(self.mixture.values()) <= 0:
            raise ConfigError("masking.mixture has no share above 0", fix="give at least one law a share")


class Masking:
    """Masks batches of blocks as a config says, with the ids of one tokenizer."""

    def __init__(
        self,
        config: MaskingConfig,
        *,
        mask_id: int | None,
        random_tokens: RandomTokens,
        given: GivenSpans | None = None,
        sampling: bool = False,
    ) -> None:
        """With `sampling`, examples have a uniform random number per predicted token, for ELECTRA's generator."""
        if mask_id is None:
            raise InputError("the tokenizer has no mask token", fix="train or use one that has a mask token")
        if given is None and "given" in (config.mixture or {config.law: 1.0}):
            raise ConfigError(
                "masking.law is 'given', but no spans are given",
                fix="set data.spans to a JSON-lines file of spans, or use spanlab prepare --spans NAMES",
            )
        self.config, self._mask_id, self._random_tokens, self._given = config, mask_id, random_tokens, given
        self._sampling = sampling
        self.lengths = LengthLaw(config.geometric_p, config.max_length, clipped=config.length_law == "clipped")
        """The law of span lengths."""
        shares = Shares(config.mask_share, config.random_share, config.keep_share)
        self._shares = Shares(1.0, 0.0, 0.0) if config.all_mask else shares

    def __call__(self, batch: TokenBatch, *, seed: int, epoch: ArrayLike = 0) -> ExampleBatch:
        """The examples of a batch; an example does not depend on the other samples of the batch.

        `epoch` is a scalar or (B,), one per sample.
        """
        keys = self._keys(batch, seed, epoch)
        masked = self.choose(batch, keys)
        spans = find_spans(batch, masked)
        choice_K = self._decide(batch, spans, draw(keys, _REPLACING))
        seen = self._replace(batch, spans, choice_K, draw(keys, _REPLACING))
        uniforms = None
        if self._sampling:
            block = batch.block_of[spans.positions]
            uniforms = decide(draw(keys, _SAMPLING)[block], spans.positions - batch.starts[block])
        examples = masked_examples(batch, spans, seen, uniforms)
        if not self.config.collapse:
            return examples
        return collapse_spans(examples, spans, choice_K < self._shares.mask)

    def _keys(self, batch: TokenBatch, seed: int, epoch: ArrayLike) -> Draws:
        epoch = np.asarray(epoch) % self.config.static if self.config.static else epoch
        return sample_keys(seed=seed, purpose="masking", epoch=epoch, index=batch.indices)

    def span_draws(
        self, batch: TokenBatch, *, seed: int, epoch: ArrayLike = 0, count: int
    ) -> tuple[Integers, Integers] | None:
        """The first draws behind the masks of a batch: (B, R) units in blocks, (B, R) lengths; None without spans.

        B are the blocks of the span law and R is `count`, which may exceed the draws that the budget needs.
        """
        keys = self._keys(batch, seed, epoch)
        chosen = np.flatnonzero(self._law_of(keys) == "span")
        units, words = self._span_units(batch, words_of(batch))
        chosen = chosen[(units if words is None else words).counts[chosen] > 0]
        if not len(chosen):
            return None
        begins = None if words is None else select_blocks(words, chosen)
        choosing = draw(keys[chosen], _CHOOSING)
        return draw_spans(select_blocks(units, chosen), choosing, count, self.lengths, self.config.anchor, begins)

    def choose(self, batch: TokenBatch, keys: Draws) -> Flags:
        """(N,) the tokens to mask."""
        config = self.config
        words = words_of(batch)
        budget = budgets(
            batch.text_lengths,
            batch.lengths,
            keys,
            ratio=config.ratio,
            rounding=config.rounding,
            max_predictions=config.max_predictions,
        )
        if not budget.any():  # all blocks have a single token, as in a corpus of short lines
            return np.zeros(len(batch.ids), bool)
        if config.mixture is None:
            return self._by_law(config.law, batch, words, keys, budget)
        laws_B = self._law_of(keys)
        masked = np.zeros(len(batch.ids), bool)
        for law in sorted(config.mixture):
            masked |= self._by_law(law, batch, words, keys, np.where(laws_B == law, budget, 0))
        return masked

    def _law_of(self, keys: Draws) -> NDArray[np.str_]:
        """(B,) the law of each sample."""
        if self.config.mixture is None:
            return np.full(len(keys), self.config.law)
        names = sorted(self.config.mixture)
        edges = np.cumsum([self.config.mixture[name] for name in names])
        drawn = np.searchsorted(edges, uniform(draw(keys, _MIXING)) * edges[-1], side="right")
        laws: NDArray[np.str_] = np.array(names)[drawn]
        return laws

    def _span_units(self, batch: TokenBatch, words: Units) -> tuple[Units, Units | None]:
        """The units that span lengths count, and the words that spans of tokens begin with, if they do."""
        if self.config.unit == "word":
            return words, None
        return tokens_of(batch), words if self.config.unit == "token-from-word" else None

    def _by_law(self, law: str, batch: TokenBatch, words: Units, keys: Draws, budget: Integers) -> Flags:
        config = self.config
        keys = draw(keys, _CHOOSING)
        if law == "subword":
            tokens = tokens_of(batch)
            return tokens.to_tokens(pick_random_units(tokens, keys, budget))
        if law == "word":
            return words.to_tokens(pick_random_units(words, keys, budget))
        if law == "ngram":
            picked = pick_ngrams(words, keys, budget, config.max_length, favour_short=config.favour_short)
            return words.to_tokens(picked)
        if law == "given":
            assert self._given is not None
            return pick_given_spans(batch, words, self._given(batch), keys, budget, config.given_share)
        units, begins = self._span_units(batch, words)
        return pick_geometric_spans(
            units, keys, budget, self.lengths, anchor=config.anchor, cut_last_word=config.cut_last_word, words=begins
        )

    def _decide(self, batch: TokenBatch, spans: MaskedSpans, keys: Draws) -> NDArray[np.float64]:
        """(K,) uniform numbers that decide between mask, random and keep, equal where the decision is shared."""
        if self.config.replace_per == "span" or self.config.collapse:
            span_block = batch.block_of[spans.first]
            return spans.per_token(decide(keys[span_block], spans.first - batch.starts[span_block]))
        block = batch.block_of[spans.positions]
        decided_at = _word_of(batch, spans.positions) if self.config.replace_per == "word" else spans.positions
        return decide(keys[block], decided_at - batch.starts[block])

    def _replace(self, batch: TokenBatch, spans: MaskedSpans, choice_K: NDArray[np.float64], keys: Draws) -> Integers:
        block = batch.block_of[spans.positions]
        return replace_tokens(
            batch.ids[spans.positions],
            choice_K,
            keys[block],
            spans.positions - batch.starts[block],
            mask_id=self._mask_id,
            shares=self._shares,
            random_tokens=self._random_tokens,
        )


def _word_of(batch: TokenBatch, positions: Integers) -> Integers:
    """(K,) the position of the first token of each token's word."""
    starts = np.flatnonzero(batch.word_starts)
    return starts[np.searchsorted(starts, positions, side="right") - 1]
