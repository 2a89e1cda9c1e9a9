"""Orders of prediction: which tokens of a block are predicted, and who sees whom on the way (Yang et al. 2019, XLNet).

What enters are blocks of one length; what leaves are the predicted tokens and two numbers a token, its `rank` and its
`sight`: token i sees token j if rank[j] < sight[i]. A T × T mask is never stored, and made where it is used.

Two laws:

- `ngrams`, as XLNet was trained: n-grams of whole words, n from 1 to 5 with chance proportional to 1/n, each in a
  context of n · alpha / beta tokens of which a random share lies before it; what is missing to the number of
  predictions is filled with single tokens. Tokens that are not predicted see each other and are seen by all; predicted
  tokens and special tokens stand in a random order and see those before them, special tokens also themselves.
- `tail`, the paper's plain description: of a random order, the last beta in alpha tokens are predicted.

A block has one part, or two where its first tokens go into the memory of the next block (`reuse`): the first part never
sees the second, else the memory would tell the next block what it is to predict; the second sees all of the first.

The original counts an n-gram in pieces, by a slip that `unit: token` repeats. Where a word does not fit any more, the
n-gram ends before it, so that the number of predictions is kept.

Shapes: B blocks, T tokens of each, P tokens of a part.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from spanlab.corpus.randomness import Draws, draw, draws, sample_keys, uniform
from spanlab.corruption.example import Flags, Integers, Ranks
from spanlab.corruption.ngram import ngram_probabilities
from spanlab.errors import ConfigError

_ORDERING, _FILLING, _SPANNING = range(3)
"""Which draw of a part's key each purpose begins from."""


@dataclass(frozen=True, kw_only=True)
class PermutationConfig:
    """The `masking.permutation` section of a recipe; the defaults are XLNet's."""

    law: Literal["ngrams", "tail"] = "ngrams"
    alpha: int = 6
    beta: int = 1
    """About beta tokens in alpha are predicted."""
    longest: int = 5
    """The longest n-gram."""
    unit: Literal["word", "token"] = "word"
    """What n counts: whole words (the paper), or pieces from the start of a word on (the released code)."""
    predictions: int | None = None
    """Predicted tokens a block (num_predict, 85 at length 512); None: beta in alpha of its length."""

    def __post_init__(self) -> None:
        for name in ("alpha", "beta", "longest"):
            if getattr(self, name) < 1:
                raise ConfigError(f"masking.permutation.{name} is {getattr(self, name)}; it must be at least 1")
        if self.beta >= self.alpha:
            raise ConfigError("masking.permutation.beta must be smaller than alpha")
        if self.predictions is not None and self.predictions < 1:
            raise ConfigError(f"masking.permutation.predictions is {self.predictions}; it must be at least 1")

    def goals(self, lengths: tuple[int, ...]) -> tuple[int, ...]:
        """How many tokens are predicted in each part of these lengths; the first part has the odd one."""
        total = sum(lengths) * self.beta // self.alpha if self.predictions is None else self.predictions
        goals = [total // len(lengths) + (number < total % len(lengths)) for number in range(len(lengths))]
        return tuple(min(goal, length - 1) for goal, length in zip(goals, lengths, strict=True))


@dataclass(frozen=True)
class Permutation:
    """Orders of blocks of one length."""

    rank_BT: Ranks
    sight_BT: Ranks
    predicted_BT: Flags

    def visible(self) -> Flags:
        """(B, T, T) whether token i sees token j before it is predicted itself."""
        return self.rank_BT[:, None, :] < self.sight_BT[:, :, None]


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
        text_BT: text, as opposed to special tokens, which are never predicted.
        word_starts_BT: where words begin.
        config: the law.
        parts: the lengths of the parts of a block, T in all.
        indices: (B,) which samples these are.
        seed: of the run.
        epoch: which pass, of all or (B,) of each.
    """
    keys = sample_keys(seed=seed, purpose="permutation", epoch=epoch, index=indices)
    rank_BT: Ranks = np.empty(text_BT.shape, np.int32)
    sight_BT: Ranks = np.empty(text_BT.shape, np.int32)
    predicted_BT = np.empty(text_BT.shape, bool)
    first, lowest = 0, 0
    for number, (length, goal) in enumerate(zip(parts, config.goals(parts), strict=True)):
        part = slice(first, first + length)
        chosen = _order_part(text_BT[:, part], word_starts_BT[:, part], config, goal, draw(keys, number))
        rank_BT[:, part], sight_BT[:, part], predicted_BT[:, part] = chosen[0] + lowest, chosen[1] + lowest, chosen[2]
        # Above everything that a token of this part sees, and below what the next part sees.
        first, lowest = first + length, lowest + length + 2
    return Permutation(rank_BT, sight_BT, predicted_BT)


def _order_part(
    text_BP: Flags, word_starts_BP: Flags, config: PermutationConfig, goal: int, keys: Draws
) -> tuple[Ranks, Ranks, Flags]:
    """Rank, sight and what is predicted, of one part; ranks lie between 0 and P."""
    places_BP = _random_places(keys, text_BP.shape[1])
    if config.law == "tail":
        predicted_BP = _last_of_order(places_BP, text_BP, goal)
        return places_BP, places_BP + ~predicted_BP, predicted_BP
    predicted_BP = pick_spans(text_BP, word_starts_BP, config, goal, draw(keys, _SPANNING))
    _fill(predicted_BP, text_BP, goal, draw(keys, _FILLING))
    plain_BP = text_BP & ~predicted_BP
    rank_BP = np.where(plain_BP, np.int32(0), places_BP + np.int32(1))
    return rank_BP, rank_BP + ~predicted_BP, predicted_BP


def _random_places(keys: Draws, length: int) -> Ranks:
    """(B, P) the place of each token in a random order."""
    order_BP = _sorted_tokens(draws(draw(keys, _ORDERING), length))
    places_BP = np.empty(order_BP.shape, np.int32)
    np.put_along_axis(places_BP, order_BP, np.arange(length, dtype=np.int32)[None, :], axis=1)
    return places_BP


def _sorted_tokens(values_BP: Draws) -> Integers:
    """(B, P) the tokens in the order of their values, the last bits of which give way to the token's place."""
    length = values_BP.shape[1]
    bits = np.uint64(max(1, (length - 1).bit_length()))
    tagged_BP = ((values_BP >> bits) << bits) | np.arange(length, dtype=np.uint64)
    tagged_BP.sort(axis=1)
    return (tagged_BP & ((np.uint64(1) << bits) - np.uint64(1))).astype(np.int64)


def _last_of_order(places_BP: Ranks, text_BP: Flags, goal: int) -> Flags:
    """The last `goal` tokens of text in the order."""
    order_BP = np.argsort(places_BP, axis=1)
    text_in_order_BP = np.take_along_axis(text_BP, order_BP, axis=1)
    after_BP = np.cumsum(text_in_order_BP[:, ::-1], axis=1)[:, ::-1]
    last_BP = np.zeros(text_BP.shape, bool)
    np.put_along_axis(last_BP, order_BP, text_in_order_BP & (after_BP <= goal), axis=1)
    return last_BP


def pick_spans(text_BP: Flags, word_starts_BP: Flags, config: PermutationConfig, goal: int, keys: Draws) -> Flags:
    """(B, P) n-grams in their contexts, from the first token to the last; not more than `goal` tokens of text.

    One step places one n-gram in every block: the walk through a block is a chain, the blocks are side by side.
    """
    blocks, length = text_BP.shape
    starts = _Starts(word_starts_BP | ~text_BP)
    before_BP = np.zeros((blocks, length + 1), np.int64)
    np.cumsum(text_BP, axis=1, out=before_BP[:, 1:])
    steps_most = length // (config.alpha // config.beta) + 2
    shares = uniform(draws(keys, 2 * steps_most)).reshape(blocks, steps_most, 2)
    cumulative = np.cumsum(ngram_probabilities(config.longest))[:-1]
    drawn_BS = 1 + np.searchsorted(cumulative, shares[..., 0], "right")
    edges_BP = np.zeros((blocks, length + 1), np.int8)
    row, at_B, left_B = np.arange(blocks), np.zeros(blocks, np.int64), np.full(blocks, goal)
    for step in range(steps_most):
        n_B = np.minimum(drawn_BS[:, step], left_B)
        context_B = n_B * config.alpha // config.beta
        ahead_B = (shares[:, step, 1] * context_B).astype(np.int64)
        begin_B = starts.next_from(at_B + ahead_B)
        if config.unit == "token":
            end_B = np.minimum(begin_B + n_B, length)
        else:
            end_B = starts.end_of(begin_B, n_B, before_BP, left_B)
        # An n-gram that reaches the end of the part is not taken, as in the original: it may be cut there.
        taken_B = (n_B > 0) & (end_B < length)
        if not taken_B.any():
            break
        end_B = np.where(taken_B, end_B, begin_B)
        edges_BP[row, begin_B] += taken_B
        edges_BP[row, end_B] -= taken_B
        left_B = np.where(taken_B, left_B - (before_BP[row, end_B] - before_BP[row, begin_B]), 0)
        at_B = end_B + context_B - ahead_B
    return (np.cumsum(edges_BP[:, :-1], axis=1) > 0) & text_BP


class _Starts:
    """Where words begin in each block; a special token is a word of its own."""

    def __init__(self, starts_BP: Flags) -> None:
        blocks, self.length = starts_BP.shape
        # The number of starts before each place, and the place of each start by its number.
        self.before_BP = np.zeros((blocks, self.length + 1), np.int64)
        np.cumsum(starts_BP, axis=1, out=self.before_BP[:, 1:])
        self.places_BU = np.full((blocks, int(self.before_BP[:, -1].max(initial=0)) + 1), self.length, np.int64)
        where_B, where_P = np.nonzero(starts_BP)
        self.places_BU[where_B, self.before_BP[where_B, where_P]] = where_P
        self.row = np.arange(blocks)

    def next_from(self, places_B: Integers) -> Integers:
        """(B,) the first start at or after each place; the length where there is none."""
        number_B = self.before_BP[self.row, np.minimum(places_B, self.length)]
        return self.places_BU[self.row, np.minimum(number_B, self.places_BU.shape[1] - 1)]

    def end_of(self, begin_B: Integers, n_B: Integers, text_before_BP: Integers, room_B: Integers) -> Integers:
        """(B,) where n words from `begin_B` on end, or fewer of them, so that their text fits into the room."""
        first_B = self.before_BP[self.row, begin_B]
        end_B = begin_B
        for words in range(1, int(n_B.max(initial=0)) + 1):
            place_B = self.places_BU[self.row, np.minimum(first_B + words, self.places_BU.shape[1] - 1)]
            size_B = text_before_BP[self.row, place_B] - text_before_BP[self.row, begin_B]
            end_B = np.where((words <= n_B) & (size_B <= room_B), place_B, end_B)
        return end_B


def _fill(predicted_BP: Flags, text_BP: Flags, goal: int, keys: Draws) -> None:
    """Add random single tokens of text until `goal` are predicted, as far as there are so many."""
    short_B = goal - predicted_BP.sum(axis=1)
    rows = np.flatnonzero(short_B > 0)
    if not len(rows):
        return
    free_BP = text_BP[rows] & ~predicted_BP[rows]
    order_BP = _sorted_tokens(draws(keys[rows], text_BP.shape[1]))
    free_in_order_BP = np.take_along_axis(free_BP, order_BP, axis=1)
    taken_BP = free_in_order_BP & (np.cumsum(free_in_order_BP, axis=1) <= short_B[rows, None])
    row, place = np.nonzero(taken_BP)
    predicted_BP[rows[row], order_BP[row, place]] = True
