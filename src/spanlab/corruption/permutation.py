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

from spanlab.arrays import Flags, Integers
from spanlab.corpus.randomness import Draws, draw, draws, sample_keys, uniform
from spanlab.corruption.examples import ExampleBatch, PredictionOrder, Ranks
from spanlab.corruption.ngram import ngram_probabilities
from spanlab.corruption.special_tokens import TokenBatch
from spanlab.errors import ConfigError, InputError

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
    visible_below_BT: Ranks
    predicted_BT: Flags

    def visible(self) -> Flags:
        """(B, T, T) whether token i sees token j before it is predicted itself."""
        # The narrower the numbers, the more of them are compared at a time.
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
        text_BT: text, as opposed to special tokens, which are never predicted.
        word_starts_BT: where words begin.
        config: the law.
        parts: the lengths of the parts of a block, T in all.
        indices: (B,) which samples these are.
        seed: of the run.
        epoch: which pass, of all or (B,) of each.
    """
    keys_B = sample_keys(seed=seed, purpose="permutation", epoch=epoch, index=indices)
    goals = config.goals(parts)
    if len(set(parts)) == 1:
        ordered = _order_equal_parts(text_BT, word_starts_BT, config, goals, keys_B)
    else:
        bounds = np.cumsum(parts)[:-1]
        split = zip(np.split(text_BT, bounds, axis=1), np.split(word_starts_BT, bounds, axis=1), goals, strict=True)
        ordered = [
            _order_part(text_BP, starts_BP, config, np.full(len(text_BP), goal), draw(keys_B, number))
            for number, (text_BP, starts_BP, goal) in enumerate(split)
        ]
    lowest_B1 = np.zeros((len(text_BT), 1), np.int16)
    ranks, sights = [], []
    for part in ordered:
        ranks.append(part.rank_BT + lowest_B1)
        sights.append(part.visible_below_BT + lowest_B1)
        # Above everything that a token of this part sees, and below what the next part sees.
        lowest_B1 = sights[-1].max(axis=1, keepdims=True) + np.int16(1)
    predicted_BT = np.concatenate([part.predicted_BT for part in ordered], axis=1)
    return Permutation(np.concatenate(ranks, axis=1), np.concatenate(sights, axis=1), predicted_BT)


def _order_equal_parts(
    text_BT: Flags, word_starts_BT: Flags, config: PermutationConfig, goals: tuple[int, ...], keys_B: Draws
) -> list[Permutation]:
    """The parts of all blocks in one go, as if each were a block of its own: half the steps for two parts."""
    blocks, count = len(text_BT), len(goals)

    def stacked(flags_BT: Flags) -> Flags:
        return np.concatenate(np.split(flags_BT, count, axis=1))

    keys = np.concatenate([draw(keys_B, number) for number in range(count)])
    whole = _order_part(stacked(text_BT), stacked(word_starts_BT), config, np.repeat(goals, blocks), keys)
    split = (np.split(array, count) for array in (whole.rank_BT, whole.visible_below_BT, whole.predicted_BT))
    return [Permutation(*arrays) for arrays in zip(*split, strict=True)]


def _order_part(
    text_BP: Flags, word_starts_BP: Flags, config: PermutationConfig, goals_B: Integers, keys: Draws
) -> Permutation:
    """The order of one part of each block; ranks begin at 0."""
    if config.law == "tail":
        places_BP = _random_places(keys, np.ones_like(text_BP))
        predicted_BP = _last_of_order(places_BP, text_BP, goals_B)
        return Permutation(places_BP, places_BP + ~predicted_BP, predicted_BP)
    predicted_BP = pick_spans(text_BP, word_starts_BP, config, goals_B, draw(keys, _SPANNING))
    _fill(predicted_BP, text_BP, goals_B, draw(keys, _FILLING))
    plain_BP = text_BP & ~predicted_BP
    rank_BP = np.where(plain_BP, np.int16(0), _random_places(keys, ~plain_BP) + np.int16(1))
    return Permutation(rank_BP, rank_BP + ~predicted_BP, predicted_BP)


def _random_places(keys: Draws, among_BP: Flags) -> Ranks:
    """(B, P) the place of each of these tokens in a random order of them; the others come after all of them."""
    blocks, length = among_BP.shape
    values_BP = draws(draw(keys, _ORDERING), length)
    values_BP[~among_BP] = np.iinfo(np.uint64).max
    order_BP = _sorted_tokens(values_BP)
    places_BP = np.empty((blocks, length), np.int16)
    flat = order_BP + (np.arange(blocks) * length)[:, None]
    places_BP.reshape(-1)[flat] = np.arange(length, dtype=np.int16)
    return places_BP


def _sorted_tokens(values_BP: Draws) -> Integers:
    """(B, P) the tokens in the order of their values, the last bits of which give way to the token's place."""
    length = values_BP.shape[1]
    bits = np.uint64(max(1, (length - 1).bit_length()))
    low = (np.uint64(1) << bits) - np.uint64(1)
    tagged_BP = (values_BP & ~low) | np.arange(length, dtype=np.uint64)
    tagged_BP.sort(axis=1)
    tagged_BP &= low
    return tagged_BP.view(np.int64)


def _last_of_order(places_BP: Ranks, text_BP: Flags, goals_B: Integers) -> Flags:
    """The last tokens of text in the order, as many as are to be predicted."""
    order_BP = np.argsort(places_BP, axis=1)
    text_in_order_BP = np.take_along_axis(text_BP, order_BP, axis=1)
    after_BP = np.cumsum(text_in_order_BP[:, ::-1], axis=1)[:, ::-1]
    last_BP = np.zeros(text_BP.shape, bool)
    np.put_along_axis(last_BP, order_BP, text_in_order_BP & (after_BP <= goals_B[:, None]), axis=1)
    return last_BP


def pick_spans(
    text_BP: Flags, word_starts_BP: Flags, config: PermutationConfig, goals_B: Integers, keys: Draws
) -> Flags:
    """(B, P) n-grams in their contexts, from the first token to the last; not more than `goals_B` tokens of text.

    One step places one n-gram in every block: the walk through a block is a chain, the blocks are side by side.
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
        # An n-gram that reaches the end of the part is not taken, as in the original: it may be cut there.
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
    """Where words begin in each block, and how much text lies before each place; a special token is a word of its own.

    Tables are flat, with a row of length + 1 a block: looked up by one number, they are twice as fast.
    """

    def __init__(self, text_BP: Flags, starts_BP: Flags) -> None:
        blocks, self.length = starts_BP.shape
        self.rows: Integers = np.arange(blocks) * (self.length + 1)
        self.text_before, self.starts_before = _counts_before(text_BP), _counts_before(starts_BP)
        # The place of each start by its number; beyond the last one, the end.
        self.places: Integers = np.full(len(self.starts_before), self.length, np.int64)
        flat = np.flatnonzero(starts_BP)
        first, place = flat // self.length * (self.length + 1), flat % self.length
        self.places[first + self.starts_before[first + place]] = place

    def next_from(self, places_B: Integers) -> Integers:
        """(B,) the first start at or after each place; the length where there is none."""
        number_B = self.starts_before[self.rows + np.minimum(places_B, self.length)]
        found_B: Integers = self.places[self.rows + number_B]
        return found_B

    def end_of(self, begin_B: Integers, n_B: Integers, room_B: Integers) -> Integers:
        """(B,) where n words from `begin_B` on end, or fewer of them, so that their text fits into the room."""
        number_B = self.starts_before[self.rows + begin_B]
        while True:
            end_B: Integers = self.places[self.rows + np.minimum(number_B + n_B, self.length)]
            too_many_B = self.text_between(begin_B, end_B) > room_B
            if not too_many_B.any():
                return end_B
            n_B = n_B - too_many_B

    def text_between(self, begin_B: Integers, end_B: Integers) -> Integers:
        """(B,) tokens of text from one place up to another."""
        count_B: Integers = self.text_before[self.rows + end_B] - self.text_before[self.rows + begin_B]
        return count_B


def _counts_before(flags_BP: Flags) -> Integers:
    """(B · (P + 1),) how many flags are set before each place of each block."""
    counts_BP = np.zeros((len(flags_BP), flags_BP.shape[1] + 1), np.int64)
    np.cumsum(flags_BP, axis=1, out=counts_BP[:, 1:])
    return counts_BP.reshape(-1)


def _fill(predicted_BP: Flags, text_BP: Flags, goals_B: Integers, keys: Draws) -> None:
    """Add random single tokens of text until there are as many as are to be predicted, or no more text."""
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
    row, number = np.nonzero(np.arange(most) < wanted_B[:, None])
    predicted_BP[rows[row], first_BM[row, number]] = True


class PermutationSampler:
    """Draws orders for batches of blocks by a config."""

    def __init__(
        self, config: PermutationConfig, *, streams: int = 1, reuse: int | None = None, both_ways: bool = False
    ) -> None:
        """Blocks come from `StreamBlocks` with `streams` streams; with `both_ways` the second half is read backwards.

        The first `reuse` tokens of a block are kept in the memory of the next one; they are a part of their own.
        """
        self.config, self._streams, self._reuse, self._both_ways = config, streams, reuse, both_ways

    def __call__(self, batch: TokenBatch, *, seed: int, epoch: ArrayLike = 0) -> ExampleBatch:
        """The examples of a batch; the same sample gives the same example in whatever batch it comes."""
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
        """Who sees whom in each block."""
        length = int(batch.lengths[0])
        if (batch.lengths != length).any():
            raise InputError("blocks of several lengths in one batch cannot be permuted", fix="leave out short ones")
        if self._reuse is not None and not 1 <= self._reuse < length:
            raise InputError(f"a reuse of {self._reuse} tokens leaves nothing of blocks of {length}")
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
