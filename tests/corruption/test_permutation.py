"""Orders of prediction: the paper's example, who sees whom, the published law against a plain loop, its statistics."""

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spanlab.corpus.randomness import draws, sample_keys, uniform
from spanlab.corruption import (
    PermutationConfig,
    PermutationSampler,
    SpecialTokenLayout,
    TokenBatch,
    batch_sequences,
    permute,
)
from spanlab.corruption.permutation import Permutation, pick_spans
from spanlab.errors import ConfigError, InputError

SEP, CLS = 4, 3
NGRAMS, TAIL = PermutationConfig(), PermutationConfig(law="tail")


def blocks(count: int, length: int, *, specials: int = 2, pieces: float = 0.3, seed: int = 0) -> tuple[np.ndarray, ...]:
    """Text flags and word starts; the last tokens are special."""
    generator = np.random.default_rng(seed)
    text = np.ones((count, length), bool)
    text[:, length - specials :] = False
    starts = generator.random((count, length)) >= pieces
    starts[:, 0] = True
    return text, starts & text


def drawn(config: PermutationConfig, count: int, length: int, parts: tuple[int, ...] | None = None) -> Permutation:
    text, starts = blocks(count, length)
    return permute(text, starts, config, parts=parts or (length,), indices=np.arange(count), seed=3)


def test_the_example_of_the_paper() -> None:
    """Order 3, 2, 4, 1: token 1 sees 2, 3, 4; token 2 sees 3; token 3 sees nothing; token 4 sees 2 and 3."""
    order = [3, 2, 4, 1]
    rank = np.array([[order.index(token) for token in (1, 2, 3, 4)]])
    visible = Permutation(rank.astype(np.int16), rank.astype(np.int16), np.ones_like(rank, bool)).visible()[0]
    seen = [{j + 1 for j in range(4) if visible[i, j]} for i in range(4)]
    assert seen == [{2, 3, 4}, {3}, set(), {2, 3}]


def test_every_order_of_the_paper_comes_up_alike() -> None:
    """Of four tokens, all 24 orders are drawn equally often; the last token of each is predicted."""
    text = np.ones((24_000, 4), bool)
    config = PermutationConfig(law="tail", alpha=4)
    order = permute(text, text, config, parts=(4,), indices=np.arange(24_000), seed=0)
    ranks, counts = np.unique(order.rank_BT, axis=0, return_counts=True)
    assert len(ranks) == 24
    assert ((counts - 1000) ** 2 / 1000).sum() < 50  # chi-square with 23 degrees of freedom, p about 0.001
    assert np.array_equal(order.predicted_BT, order.rank_BT == 3)
    # Context tokens also see themselves; the predicted one does not.
    itself = np.diagonal(order.visible(), axis1=1, axis2=2)
    assert np.array_equal(itself, ~order.predicted_BT)


@pytest.mark.parametrize("config", [NGRAMS, TAIL, replace(NGRAMS, unit="token")])
def test_who_sees_whom(config: PermutationConfig) -> None:
    """The rules of both laws, pair by pair, in two parts."""
    text, _ = blocks(6, 40)
    order = drawn(config, 6, 40, parts=(20, 20))
    visible, predicted = order.visible(), order.predicted_BT
    assert not visible[:, :20, 20:].any()
    assert visible[:, 20:, :20].all()
    for block in range(6):
        for part in (range(20), range(20, 40)):
            for i in part:
                assert visible[block, i, i] == (not predicted[block, i])
                for j in part:
                    sees, seen_by = visible[block, i, j], visible[block, j, i]
                    ordered = config.law == "tail" or ((predicted | ~text)[block, [i, j]]).all()
                    if i != j and ordered:
                        assert sees != seen_by
                    elif i != j and text[block, j] and not predicted[block, j]:
                        assert sees  # plain text is seen by all
                    elif i != j and text[block, i] and not predicted[block, i]:
                        assert not sees  # and sees nothing but plain text


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 1000),
    length=st.integers(8, 90),
    specials=st.integers(0, 3),
    law=st.sampled_from(["ngrams", "tail"]),
    unit=st.sampled_from(["word", "token"]),
    split=st.booleans(),
)
def test_as_many_as_asked_and_never_a_special_token(
    seed: int, length: int, specials: int, law: str, unit: str, split: bool
) -> None:
    text, starts = blocks(5, length, specials=specials, seed=seed)
    config = PermutationConfig(law=law, unit=unit)  # type: ignore[arg-type]
    parts = (length // 2, length - length // 2) if split else (length,)
    order = permute(text, starts, config, parts=parts, indices=np.arange(5), seed=seed)
    assert not (order.predicted_BT & ~text).any()
    first = 0
    for part, goal in zip(parts, config.goals(parts), strict=True):
        available = text[:, first : first + part].sum(1)
        found = order.predicted_BT[:, first : first + part].sum(1)
        assert np.array_equal(found, np.minimum(goal, available))
        first += part


def test_the_same_sample_in_whatever_batch() -> None:
    text, starts = blocks(8, 64)
    whole = permute(text, starts, NGRAMS, parts=(32, 32), indices=np.arange(8), seed=1, epoch=2)
    rows = np.array([6, 1])
    some = permute(text[rows], starts[rows], NGRAMS, parts=(32, 32), indices=rows, seed=1, epoch=2)
    assert np.array_equal(some.rank_BT, whole.rank_BT[rows])
    assert np.array_equal(some.predicted_BT, whole.predicted_BT[rows])
    other = permute(text, starts, NGRAMS, parts=(32, 32), indices=np.arange(8), seed=1, epoch=3)
    assert not np.array_equal(other.predicted_BT, whole.predicted_BT)


def plain_walk(
    text: np.ndarray, starts: np.ndarray, config: PermutationConfig, goal: int, numbers: list[tuple[float, float]]
) -> tuple[list[bool], list[int]]:
    """The published walk through one part, token by token; also the lengths of the n-grams in their units."""
    length, chances = len(text), [1 / n for n in range(1, config.longest + 1)]
    begins = [bool(starts[i]) or not text[i] for i in range(length)]
    mask, sizes, at, count = [False] * length, [], 0, 0
    for for_size, for_share in numbers:
        if at >= length or count >= goal:
            break
        point, n = for_size * sum(chances), 1
        while n < config.longest and point >= sum(chances[:n]):
            n += 1
        n = min(n, goal - count)
        context = n * config.alpha // config.beta
        before = int(for_share * context)
        begin = at + before
        while begin < length and not begins[begin]:
            begin += 1
        if begin >= length:
            break
        end, grams, size = begin, 0, 0
        while end < length and grams < n:
            after = end + 1
            while config.unit == "word" and after < length and not begins[after]:
                after += 1
            more = int(text[end:after].sum())
            if config.unit == "word" and size + more > goal - count:
                break
            end, grams, size = after, grams + 1, size + more
        if end >= length:
            break
        sizes.append(grams)
        mask[begin:end] = [bool(text[i]) for i in range(begin, end)]
        count += size
        at = end + context - before
    return mask, sizes


@pytest.mark.parametrize("unit", ["word", "token"])
@pytest.mark.parametrize(("alpha", "beta"), [(6, 1), (5, 2)])
def test_spans_are_those_of_the_plain_walk(unit: str, alpha: int, beta: int) -> None:
    config = PermutationConfig(unit=unit, alpha=alpha, beta=beta)  # type: ignore[arg-type]
    text, starts = blocks(40, 120, specials=0)
    text[:, [30, 77]] = False
    starts &= text
    keys = sample_keys(seed=5, purpose="test", epoch=0, index=np.arange(40))
    found = pick_spans(text, starts, config, np.full(40, 20), keys)
    for block in range(40):
        numbers = uniform(draws(keys[block : block + 1], 240)[0]).reshape(-1, 2).tolist()
        assert plain_walk(text[block], starts[block], config, 20, numbers)[0] == found[block].tolist()


def test_statistics_of_the_published_law() -> None:
    """Against the plain loop with another generator: share, single tokens, lengths of runs, place in the part."""
    count, length, goal = 3000, 256, 43
    text, starts = blocks(count, length, specials=0)
    config = PermutationConfig(predictions=goal)
    keys = sample_keys(seed=9, purpose="test", epoch=0, index=np.arange(count))
    spans = pick_spans(text, starts, config, np.full(count, goal), keys)
    generator = random.Random(4)
    loop, sizes = [], []
    for block in range(count):
        numbers = [(generator.random(), generator.random()) for _ in range(60)]
        mask, found = plain_walk(text[block], starts[block], config, goal, numbers)
        loop.append(mask)
        sizes += found
    reference = np.array(loop)
    assert spans.sum(1).mean() == pytest.approx(reference.sum(1).mean(), rel=0.01)
    for part in np.split(np.arange(length), 8):
        assert spans[:, part].mean() == pytest.approx(reference[:, part].mean(), abs=0.006)
    assert np.allclose(run_lengths(spans), run_lengths(reference), atol=0.012)
    # Lengths follow 1/n but for the last n-grams of a part, which do not fit any more.
    shares = np.bincount(sizes, minlength=6)[1:6] / len(sizes)
    expected = (1 / np.arange(1, 6)) / (1 / np.arange(1, 6)).sum()
    assert np.allclose(shares, expected, atol=0.02)


def run_lengths(mask: np.ndarray) -> np.ndarray:
    """Shares of runs of 1 to 12 tokens."""
    padded = np.pad(mask, ((0, 0), (1, 1))).astype(np.int8)
    edges = np.diff(padded, axis=1)
    lengths = np.nonzero(edges == -1)[1] - np.nonzero(edges == 1)[1]
    return np.bincount(np.minimum(lengths, 12), minlength=13)[1:] / len(lengths)


def test_words_stay_whole_unless_single_tokens_fill_up() -> None:
    text, starts = blocks(200, 128, specials=0, pieces=0.5)
    keys = sample_keys(seed=2, purpose="test", epoch=0, index=np.arange(200))
    whole = pick_spans(text, starts, NGRAMS, np.full(200, 21), keys)
    cut = pick_spans(text, starts, replace(NGRAMS, unit="token"), np.full(200, 21), keys)

    def broken(mask: np.ndarray) -> int:
        inside = ~starts[:, 1:]
        return int((inside & (mask[:, 1:] != mask[:, :-1])).sum())

    assert broken(whole) == 0
    assert broken(cut) > 100


def test_predictions_are_split_over_the_parts() -> None:
    assert PermutationConfig(predictions=85).goals((256, 256)) == (43, 42)
    assert PermutationConfig().goals((256, 256)) == (43, 42)
    assert PermutationConfig().goals((256,)) == (42,)


def tokens(lengths: list[int], indices: list[int]) -> TokenBatch:
    generator = np.random.default_rng(0)
    rows = [[*generator.integers(10, 50, length - 2).tolist(), SEP, CLS] for length in lengths]
    layout = SpecialTokenLayout(cls_id=CLS, sep_id=SEP, special_ids=(SEP, CLS), cls_last=True)
    return batch_sequences(rows, [[True] * length for length in lengths], layout, indices)


def test_examples_hold_true_tokens_and_their_place_in_the_stream() -> None:
    batch = tokens([24] * 4, [4, 5, 6, 7])
    examples = PermutationSampler(NGRAMS, streams=4, reuse=12, both_ways=True)(batch, seed=0)
    assert examples.order is not None
    assert np.array_equal(examples.input_ids, batch.ids)
    assert np.array_equal(examples.targets, batch.ids[examples.positions])
    assert (examples.indices // examples.streams).tolist() == [1] * 4
    assert (examples.indices % examples.streams).tolist() == [0, 1, 2, 3]
    assert examples.order.backward.tolist() == [False, False, True, True]
    assert len(examples.positions) == 4 * 4


def test_refusals() -> None:
    with pytest.raises(InputError, match="several lengths"):
        PermutationSampler(NGRAMS)(tokens([20, 24], [0, 1]), seed=0)
    with pytest.raises(InputError, match="reuse is 24; it must be between 1 and 23"):
        PermutationSampler(NGRAMS, reuse=24)(tokens([24], [0]), seed=0)
    for changes, message in (
        ({"alpha": 0}, "'alpha' is 0"),
        ({"beta": 6}, "smaller"),
        ({"predictions": 0}, "at least 1"),
    ):
        with pytest.raises(ConfigError, match=message):
            PermutationConfig(**changes)  # type: ignore[arg-type]
