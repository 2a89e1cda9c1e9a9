"""Permutation language modelling: which tokens of a block are predicted, in which order (Yang et al. 2019, XLNet).

Blocks of one length go in; the predicted tokens and two integers per token come out, `rank` and `visible_below`:
token i sees token j if rank[j] < visible_below[i]. The T × T attention mask is computed from them where it is needed.

Two laws:

- `ngrams`, the released code: n-grams of whole words, n from 1 to 5 with probability proportional to 1/n, each in a
  context of n · alpha / beta tokens, a random share of which precedes it; single tokens are added up to the number of
  predictions. Tokens that are not predicted see each other and are seen by all; predicted tokens and special tokens
  have a random order and see those before them, special tokens also themselves.
- `tail`, the paper's description: the last beta in alpha tokens of a random order are predicted.

A block has one part, or two if its first tokens go into the memory of the next block (`reuse`). The first part never
sees the second, otherwise the memory would leak the targets of the next block; the second sees all of the first.

The released code counts an n-gram in subword pieces by mistake; `unit: token` reproduces that. An n-gram ends before a
word that would exceed the number of predictions.

Shapes: B blocks, T tokens of each, P tokens of a part.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from numpy.typing import ArrayLike

from spanlab.arrays import Flags, Integers
from spanlab.config import AtLeast, AtMost, Bounded
from spanlab.corpus.randomness import Draws, draw, draws, sample_keys, uniform
from spanlab.corruption.examples import ExampleBatch, PredictionOrder, Ranks
from spanlab.corruption.ngram import ngram_probabilities
from spanlab.corruption.special_tokens import TokenBatch
from spanlab.errors import ConfigError, InputError

_ORDERING, _FILLING, _SPANNING = range(3)
"""Index of the draw from a part's key for each purpose."""


@dataclass(frozen=True, kw_only=True)
class PermutationConfig(Bounded):
    """The `masking.permutation` section of a recipe; the defaults are XLNet's."""

    law: Literal["ngrams", "tail"] = "ngrams"
    """Which tokens are predicted: n-grams in their contexts (XLNet's code), or the last of an order (its paper)."""
    alpha: Annotated[int, AtLeast(1)] = 6
    """K: one token in K is predicted, the last ones of the order (partial prediction); with ngrams, an n-gram stands in
    a context of n · alpha / beta tokens. Set by an override, it takes the place of a recipe's `predictions`."""
    beta: Annotated[int, AtLeast(1)] = 1
    """About beta tokens in alpha are predicted."""
    longest: Annotated[int, AtLeast(1), AtMost(1000)] = 5
    """The longest n-gram."""
    unit: Literal["word", "token"] = "word"
    """The unit of n: whole words (the paper), or pieces from the start of a word on (the released code)."""
    predictions: Annotated[int, AtLeast(1)] | None = None
    """Predicted tokens per block (num_predict, 85 at length 512); None: beta / alpha of its length. Not with alpha or
    beta in the same overrides."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.beta >= self.alpha:
            raise ConfigError("masking.permutation.beta must be smaller than alpha")

    def goals(self, lengths: tuple[int, ...]) -> tuple[int, ...]:
        """The number of predicted tokens in each part of a block, given the lengths of the parts."""
        total = sum(lengths) * self.beta // self.alpha if self.predictions is None else self.predictions
        goals = [total // len(lengths) + (part < total % len(lengths)) for part in range(len(lengths))]
        return tuple(min(goal, length - 1) for goal, length in zip(goals, lengths, strict=True))


@dataclass(frozen=True)
class Permutation:
    """The prediction orders of B blocks of T tokens."""

    rank_BT: Ranks
    visible_below_BT: Ranks
    predicted_BT: Flags

    def visible(self) -> Flags:
        """(B, T, T) the attention mask: whether token i sees token j."""
        # Narrow integers: more of them are compared per SIMD instruction.
        narrow = np.min_scalar_type(int(self.visible_below_BT.max(initial=0)))
        rank_BT, visible_below_BT = self.rank_BT.astype(narrow), self.visible_below_BT.astype(narrow)
        return rank_BT[:, None, :] < visible_below_BT[:, :, None]


def permute(
    text_BT: Flags,
    word_starts_BT: Flags,
    config: PermutationConfig,
    *,
    parts: tuple[int, ...],
    indices: Integers,
    seed: int,
    epoch: ArrayLike = 0,
) -> Permutation:
    """The order of each block, a pure function of (seed, epoch, index).

    Args:
        text_BT: flags of text tokens; the others, special tokens, are never predicted.
        word_starts_BT: flags of the first tokens of words.
        config: the law.
        parts: the lengths of the parts of a block; they add up to T.
        indices: (B,) sample indices.
        seed: seed of the run.
        epoch: a scalar or (B,), one per sample.
    """
    keys_B = sample_keys(seed=seed, purpose="permutation", epoch=epoch, index=indices)
    goals = config.goals(parts)
    if len(set(parts)) == 1:
        ordered = _order_equal_parts(text_BT, word_starts_BT, config, goals, keys_B)
    else:
        bounds = np.cumsum(parts)[:-1]
        split = zip(np.split(text_BT, bounds, axis=1), np.split(word_starts_BT, bounds, axis=1), goals, strict=True)
        ordered = [
            _order_part(text_BP, starts_BP, config, np.full(len(text_BP), goal), draw(keys_B, part))
            for part, (text_BP, starts_BP, goal) in enumerate(split)
        ]
    lowest_B1 = np.zeros((len(text_BT), 1), np.int16)
    ranks, visible_below = [], []
    for order in ordered:
        ranks.append(order.rank_BT + lowest_B1)
        visible_below.append(order.visible_below_BT + lowest_B1)
        # The ranks of the next part are higher than anything a token of this part sees.
        lowest_B1 = visible_below[-1].max(axis=1, keepdims=True) + np.int16(1)
    predicted_BT = np.concatenate([order.predicted_BT for order in ordered], axis=1)
    return Permutation(np.concatenate(ranks, axis=1), np.concatenate(visible_below, axis=1), predicted_BT)


def _order_equal_parts(
    text_BT: Flags, word_starts_BT: Flags, config: PermutationConfig, goals: tuple[int, ...], keys_B: Draws
) -> list[Permutation]:
    """The orders of all parts in one call, stacked along the batch: half the steps for two parts."""
    blocks, count = len(text_BT), len(goals)

    def stacked(flags_BT: Flags) -> Flags:
        return np.concatenate(np.split(flags_BT, count, axis=1))

    keys = np.concatenate([draw(keys_B, part) for part in range(count)])
    whole = _order_part(stacked(text_BT), stacked(word_starts_BT), config, np.repeat(goals, blocks), keys)
    split = (np.split(array, count) for array in (whole.rank_BT, whole.visible_below_BT, whole.predicted_BT))
    return [Permutation(*arrays) for arrays in zip(*split, strict=True)]


def _order_part(
    text_BP: Flags, word_starts_BP: Flags, config: PermutationConfig, goals_B: Integers, keys: Draws
) -> Permutation:
    """The order of one part of each block; ranks begin at 0."""
    if config.law == "tail":
        rank_BP = _random_ranks(keys, np.ones_like(text_BP))
        predicted_BP = _last_of_order(rank_BP, text_BP, goals_B)
        return Permutation(rank_BP, rank_BP + ~predicted_BP, predicted_BP)
    predicted_BP = pick_spans(text_BP, word_starts_BP, config, goals_B, draw(keys, _SPANNING))
    _fill(predicted_BP, text_BP, goals_B, draw(keys, _FILLING))
    plain_BP = text_BP & ~predicted_BP
    rank_BP = np.where(plain_BP, np.int16(0), _random_ranks(keys, ~plain_BP) + np.int16(1))
    return Permutation(rank_BP, rank_BP + ~predicted_BP, predicted_BP)


def _random_ranks(keys: Draws, among_BP: Flags) -> Ranks:
    """(B, P) ranks in a random order of the tokens in `among_BP`; all other tokens come after them."""
    blocks, length = among_BP.shape
    values_BP = draws(draw(keys, _ORDERING), length)
    values_BP[~among_BP] = np.iinfo(np.uint64).max
    order_BP = _sorted_tokens(values_BP)
    rank_BP = np.empty((blocks, length), np.int16)
    flat = order_BP + (np.arange(blocks) * length)[:, None]
    rank_BP.reshape(-1)[flat] = np.arange(length, dtype=np.int16)
    return rank_BP


def _sorted_tokens(values_BP: Draws) -> Integers:
    """(B, P) argsort of random values, whose low bits are overwritten by the position: a plain sort is faster."""
    length = values_BP.shape[1]
    bits = np.uint64(max(1, (length - 1).bit_length()))
    low = (np.uint64(1) << bits) - np.uint64(1)
    tagged_BP = (values_BP & ~low) | np.arange(length, dtype=np.uint64)
    tagged_BP.sort(axis=1)
    tagged_BP &= low
    return tagged_BP.view(np.int64)


def _last_of_order(rank_BP: Ranks, text_BP: Flags, goals_B: Integers) -> Flags:
    """(B, P) the last `goals_B` text tokens in the order of their ranks."""
    order_BP = np.argsort(rank_BP, axis=1)
    text_in_order_BP = np.take_along_axis(text_BP, order_BP, axis=1)
    after_BP = np.cumsum(text_in_order_BP[:, ::-1], axis=1)[:, ::-1]
    last_BP = np.zeros(text_BP.shape, bool)
    np.put_along_axis(last_BP, order_BP, text_in_order_BP & (after_BP <= goals_B[:, None]), axis=1)
    return last_BP


def pick_spans(
    text_BP: Flags, word_starts_BP: Flags, config: PermutationConfig, goals_B: Integers, keys: Draws
) -> Flags:
    """(B, P) the tokens of n-grams, placed from left to right with their contexts; at most `goals_B` text tokens.

    Each step places one n-gram in every block: sequential within a block, vectorised over blocks.
    """
    blocks, length = text_BP.shape
    words = _Words(text_BP, word_starts_BP | ~text_BP)
    most_steps = length // (config.alpha // config.beta) + 2
    shares = uniform(draws(keys, 2 * most_steps)).reshape(blocks, most_steps, 2)
    cumulative = np.cumsum(ngram_probabilities(config.longest))[:-1]
    drawn_BS = 1 + np.searchsorted(cumulative, shares[..., 0], "right")
    edges = np.zeros(blocks * (length + 1), np.int8)
    at_B, left_B = np.zeros(blocks, np.int64), goals_B.astype(np.int64)
    for step in range(most_steps):
        n_B = np.minimum(drawn_BS[:, step], left_B)
        context_B = n_B * config.alpha // config.beta
        ahead_B = (shares[:, step, 1] * context_B).astype(np.int64)
        begin_B = words.next_from(at_B + ahead_B)
        end_B = words.end_of(begin_B, n_B, left_B) if config.unit == "word" else np.minimum(begin_B + n_B, length)
        # An n-gram that reaches the end of the part is dropped, as in the released code: it may be cut off.
        taken_B = (n_B > 0) & (end_B < length)
        if not taken_B.any():
            break
        end_B = np.where(taken_B, end_B, begin_B)
        edges[words.rows + begin_B] += taken_B
        edges[words.rows + end_B] -= taken_B
        left_B = np.where(taken_B, left_B - words.text_between(begin_B, end_B), 0)
        at_B = end_B + context_B - ahead_B
    inside_BP = np.cumsum(edges.reshape(blocks, length + 1)[:, :-1], axis=1, dtype=np.int8) > 0
    return inside_BP & text_BP


class _Words:
    """Lookup tables of word starts and text counts by position; a special token is a word.

    Tables are flat, with length + 1 entries per block: a flat index is twice as fast as a pair.
    """

    def __init__(self, text_BP: Flags, starts_BP: Flags) -> None:
        blocks, self.length = starts_BP.shape
        self.rows: Integers = np.arange(blocks) * (self.length + 1)
        self.text_before, self.starts_before = _counts_before(text_BP), _counts_before(starts_BP)
        # The position of each word start by the index of its word; after the last word, the length.
        self.positions: Integers = np.full(len(self.starts_before), self.length, np.int64)
        flat = np.flatnonzero(starts_BP)
        row, position = flat // self.length * (self.length + 1), flat % self.length
        self.positions[row + self.starts_before[row + position]] = position

    def next_from(self, positions_B: Integers) -> Integers:
        """(B,) the first word start at or after each position; the length if there is none."""
        word_B = self.starts_before[self.rows + np.minimum(positions_B, self.length)]
        start_B: Integers = self.positions[self.rows + word_B]
        return start_B

    def end_of(self, begin_B: Integers, n_B: Integers, budget_B: Integers) -> Integers:
        """(B,) the end of n words from `begin_B` on, or of as many as have at most `budget_B` text tokens."""
        word_B = self.starts_before[self.rows + begin_B]
        while True:
            end_B: Integers = self.positions[self.rows + np.minimum(word_B + n_B, self.length)]
            too_many_B = self.text_between(begin_B, end_B) > budget_B
            if not too_many_B.any():
                return end_B
            n_B = n_B - too_many_B

    def text_between(self, begin_B: Integers, end_B: Integers) -> Integers:
        """(B,) the number of text tokens in [begin, end)."""
        count_B: Integers = self.text_before[self.rows + end_B] - self.text_before[self.rows + begin_B]
        return count_B


def _counts_before(flags_BP: Flags) -> Integers:
    """(B · (P + 1),) the number of flags set before each position of each block."""
    counts_BP = np.zeros((len(flags_BP), flags_BP.shape[1] + 1), np.int64)
    np.cumsum(flags_BP, axis=1, out=counts_BP[:, 1:])
    return counts_BP.reshape(-1)


def _fill(predicted_BP: Flags, text_BP: Flags, goals_B: Integers, keys: Draws) -> None:
    """Add random text tokens to `predicted_BP`, in place, until there are `goals_B` or no text is left."""
    short_B = goals_B - predicted_BP.sum(axis=1)
    rows = np.flatnonzero(short_B > 0)
    if not len(rows):
        return
    values_BP = draws(keys[rows], text_BP.shape[1])
    free_BP = text_BP[rows] & ~predicted_BP[rows]
    values_BP[~free_BP] = np.iinfo(np.uint64).max
    most = int(short_B.max())
    first_BM = _sorted_tokens(values_BP)[:, :most]
    wanted_B = np.minimum(short_B[rows], free_BP.sum(axis=1))
    row, column = np.nonzero(np.arange(most) < wanted_B[:, None])
    predicted_BP[rows[row], first_BM[row, column]] = True


class PermutationSampler:
    """Batches of blocks to examples with prediction orders, as a config says."""

    def __init__(
        self, config: PermutationConfig, *, streams: int = 1, reuse: int | None = None, both_ways: bool = False
    ) -> None:
        """Blocks come from `StreamBlocks` with `streams` streams; with `both_ways` the second half is read backwards.

        The first `reuse` tokens of a block are kept in the memory of the next one and ordered as a separate part.
        """
        self.config, self._streams, self._reuse, self._both_ways = config, streams, reuse, both_ways

    def __call__(self, batch: TokenBatch, *, seed: int, epoch: ArrayLike = 0) -> ExampleBatch:
        """The examples of a batch; an example does not depend on the other samples of the batch."""
        order = self.order(batch, seed=seed, epoch=epoch)
        stream = batch.indices % self._streams
        backward = (stream >= self._streams // 2) if self._both_ways else np.zeros(len(stream), bool)
        positions = np.flatnonzero(order.predicted_BT)
        return ExampleBatch(
            indices=batch.indices,
            input_ids=batch.ids,
            original_ids=batch.ids,
            lengths=batch.lengths,
            positions=positions,
            targets=batch.ids[positions],
            pairs=batch.pairs,
            order=PredictionOrder(
                rank=order.rank_BT.ravel(),
                visible_below=order.visible_below_BT.ravel(),
                backward=backward,
            ),
            streams=self._streams,
        )

    def order(self, batch: TokenBatch, *, seed: int, epoch: ArrayLike = 0) -> Permutation:
        """The prediction order of each block."""
        length = int(batch.lengths[0])
        if (batch.lengths != length).any():
            raise InputError("cannot permute a batch of blocks of several lengths", fix="drop the shorter blocks")
        if self._reuse is not None and not 1 <= self._reuse < length:
            raise InputError(
                f"data.reuse is {self._reuse}; it must be between 1 and {length - 1} for blocks of {length} tokens"
            )
        shape = (len(batch.lengths), length)
        return permute(
            batch.maskable.reshape(shape),
            batch.word_starts.reshape(shape),
            self.config,
            parts=(length,) if self._reuse is None else (self._reuse, length - self._reuse),
            indices=batch.indices,
            seed=seed,
            epoch=epoch,
        )
