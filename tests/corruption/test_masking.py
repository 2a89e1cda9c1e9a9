"""Every law: what is chosen, what is seen in its place, and that nothing but (seed, epoch, index) decides it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from spanlab.arrays import concatenated_ranges
from spanlab.corpus.blocks import BlockBatch
from spanlab.corruption import (
    ExampleBatch,
    Masking,
    MaskingConfig,
    RandomTokens,
    SpanTable,
    SpecialTokenLayout,
    add_special_tokens,
)
from spanlab.corruption.ngram import ngram_probabilities
from spanlab.corruption.special_tokens import TokenBatch
from spanlab.corruption.units import tokens_of, words_of
from spanlab.errors import ConfigError, InputError
from tests.corruption.batches import CLS, LAYOUT, MASK, SEP, SPECIAL, VOCAB, random_batch, rows_of, words_in

LAWS = ("subword", "word", "span", "ngram", "given")


def first_two_words(batch: TokenBatch) -> SpanTable:
    """A stand-in for somebody's entities: words 2 and 3 of every block that has them, and its last word."""
    words = words_of(batch)
    starts, lengths = [], []
    for first, count in zip(words.firsts, words.counts, strict=True):
        if count > 6:
            starts += [words.starts[first + 2], words.starts[first + count - 1]]
            lengths += [words.lengths[first + 2] + words.lengths[first + 3], words.lengths[first + count - 1]]
    return SpanTable(np.array(starts, np.int64), np.array(lengths, np.int64))


def masking(law: str = "span", **changes: object) -> Masking:
    config = MaskingConfig(law=law, random_from="vocabulary", **changes)  # type: ignore[arg-type]
    tokens = RandomTokens(VOCAB, SPECIAL)
    return Masking(config, mask_id=MASK, random_tokens=tokens, given=first_two_words, sampling=True)


def example_of(examples: ExampleBatch, row: int) -> tuple[list[int], ...]:
    """Everything about one sequence, with positions counted within it."""
    start = int(examples.lengths[:row].sum())
    stop = start + int(examples.lengths[row])
    mine = (examples.positions >= start) & (examples.positions < stop)
    bounded = (examples.boundaries.positions >= start) & (examples.boundaries.positions < stop)
    return (
        examples.input_ids[start:stop].tolist(),
        (examples.positions[mine] - start).tolist(),
        examples.targets[mine].tolist(),
        examples.sampling_uniforms[mine].tolist(),
        (examples.boundaries.left[bounded] - start).tolist(),
        (examples.boundaries.right[bounded] - start).tolist(),
        examples.boundaries.offsets[bounded].tolist(),
    )


@given(
    law=st.sampled_from(LAWS),
    lengths=st.lists(st.integers(2, 80), min_size=2, max_size=7),
    seed=st.integers(0, 2**40),
    epoch=st.integers(0, 50),
    order=st.randoms(use_true_random=False),
)
@settings(max_examples=100, deadline=None)
def test_an_example_depends_on_nothing_but_seed_epoch_and_index(
    law: str, lengths: list[int], seed: int, epoch: int, order: object
) -> None:
    batch = random_batch(lengths, seed=seed % 97, first_index=seed % 1000)
    together = masking(law)(batch, seed=seed, epoch=epoch)
    rows = list(range(len(lengths)))
    order.shuffle(rows)  # type: ignore[attr-defined]
    part = rows[: max(1, len(rows) // 2)]
    apart = masking(law)(rows_of(batch, part), seed=seed, epoch=epoch)
    for place, row in enumerate(part):
        assert example_of(apart, place) == example_of(together, row)


@pytest.mark.parametrize("law", LAWS)
def test_epochs_and_seeds_differ_and_static_masks_repeat(law: str) -> None:
    batch = random_batch([100] * 4)
    seen = [masking(law)(batch, seed=seed, epoch=epoch).positions.tolist() for seed, epoch in ((0, 0), (0, 1), (1, 0))]
    assert seen[0] != seen[1]
    assert seen[0] != seen[2]
    static = masking(law, static=3)
    runs = [static(batch, seed=0, epoch=epoch).input_ids.tolist() for epoch in range(6)]
    assert runs[:3] == runs[3:]
    assert runs[0] != runs[1] != runs[2]


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("ratio", [0.15, 0.4])
def test_specials_are_never_masked_or_drawn_and_targets_are_the_truth(law: str, ratio: float) -> None:
    batch = random_batch([3, 50, 200, 7] * 20, seed=1)
    examples = masking(law, ratio=ratio)(batch, seed=2)
    assert batch.maskable[examples.positions].all()
    assert examples.targets.tolist() == batch.ids[examples.positions].tolist()
    changed = np.flatnonzero(examples.input_ids != batch.ids)
    assert np.isin(changed, examples.positions).all()
    assert not np.isin(examples.input_ids[changed], [CLS, SEP, *(s for s in SPECIAL if s != MASK)]).any()
    budget = np.minimum(np.ceil(ratio * batch.text_lengths - 1e-9), batch.text_lengths - 1)
    assert (np.bincount(batch.block_of[examples.positions], minlength=80) <= budget).all()


@pytest.mark.parametrize("law", ["word", "ngram", "given"])
def test_word_laws_keep_words_whole(law: str) -> None:
    batch = random_batch([200] * 30, seed=2, pieces=0.5)
    masked = np.zeros(len(batch.ids), bool)
    masked[masking(law, max_length=3)(batch, seed=0).positions] = True
    inside = np.flatnonzero(batch.maskable & ~batch.word_starts)
    assert (masked[inside] == masked[inside - 1]).all()


def test_subwords_are_drawn_uniformly_and_the_count_is_exact() -> None:
    batch = random_batch([40] * 3000, seed=3)
    examples = masking("subword", rounding="round")(batch, seed=0)
    place = examples.positions - batch.starts[batch.block_of[examples.positions]]
    counts = np.bincount(place, minlength=42)[1:41]
    assert np.bincount(batch.block_of[examples.positions]).tolist() == [round(0.15 * 42)] * 3000
    assert stats.chisquare(counts).pvalue > 1e-4


def test_rounding_rules() -> None:
    batch = random_batch([10] * 4000)
    counts = {}
    for rounding in ("ceil", "round", "chance"):
        positions = masking("subword", rounding=rounding)(batch, seed=0).positions
        counts[rounding] = np.bincount(batch.block_of[positions], minlength=4000)
    assert set(counts["ceil"]) == {2}
    assert set(counts["round"]) == {2}  # 0.15 · 12 tokens, special ones counted
    assert set(counts["chance"]) == {1, 2}
    assert counts["chance"].mean() == pytest.approx(1.5, abs=0.04)
    capped = masking("subword", max_predictions=1)(batch, seed=0).positions
    assert set(np.bincount(batch.block_of[capped])) == {1}


def test_a_budget_by_floor_is_that_of_int() -> None:
    batch = random_batch(list(range(2, 120)) * 3)
    positions = masking("subword", rounding="floor")(batch, seed=0).positions
    counts = np.bincount(batch.block_of[positions], minlength=len(batch.lengths))
    assert counts.tolist() == [int(0.15 * length + 1e-9) for length in batch.text_lengths.tolist()]
    assert counts[0] == 0
    assert counts[18] == 3  # 0.15 · 20
    spans = masking("span", rounding="floor", cut_last_word=True)(batch, seed=0).positions
    assert np.bincount(batch.block_of[spans], minlength=len(batch.lengths)).tolist() == counts.tolist()


@pytest.mark.parametrize("law", LAWS)
def test_all_masked_tokens_become_mask(law: str) -> None:
    batch = random_batch([200] * 40, seed=4)
    shares, every = masking(law)(batch, seed=0), masking(law, all_mask=True)(batch, seed=0)
    assert every.positions.tolist() == shares.positions.tolist()
    assert (every.input_ids[every.positions] == MASK).all()
    assert 0.7 < (shares.input_ids[shares.positions] == MASK).mean() < 0.9
    same = masking(law, mask_share=1.0, random_share=0.0, keep_share=0.0)(batch, seed=0)
    assert every.input_ids.tolist() == same.input_ids.tolist()


def whole_words_by_hand(lengths: list[int], order: list[int], budget: int) -> set[int]:
    taken = set()
    for word in order:
        if lengths[word] <= budget:
            taken.add(word)
            budget -= lengths[word]
    return taken


@given(st.lists(st.integers(1, 6), min_size=1, max_size=30), st.integers(0, 10**6), st.integers(1, 20))
@settings(max_examples=80, deadline=None)
def test_whole_words_are_tried_one_after_the_other(lengths: list[int], seed: int, budget: int) -> None:
    from spanlab.corpus.randomness import GOLDEN, mix, sample_keys
    from spanlab.corruption.units import Units, pick_random_units

    ends = np.cumsum(lengths)
    units = Units(ends - np.array(lengths), np.array(lengths), np.array([len(lengths)]), int(ends[-1]))
    keys = sample_keys(seed=seed, purpose="masking", epoch=0, index=0)
    picked = pick_random_units(units, keys, np.array([budget]))
    values = mix(keys + np.arange(1, len(lengths) + 1, dtype=np.uint64) * GOLDEN)
    order = np.argsort(values).tolist()
    assert set(np.flatnonzero(picked)) == whole_words_by_hand(lengths, order, budget)


def test_ngrams_follow_their_law_and_do_not_overlap() -> None:
    assert ngram_probabilities(3) == pytest.approx([6 / 11, 3 / 11, 2 / 11])
    assert ngram_probabilities(3, favour_short=False) == pytest.approx([2 / 11, 3 / 11, 6 / 11])
    batch = random_batch([400] * 400, seed=6, pieces=0.0)
    # A small budget in a long block: n-grams rarely meet, so the runs of masked words are the n-grams drawn.
    examples = masking("ngram", ratio=0.02, max_length=3)(batch, seed=0)
    firsts, sizes = np.unique(examples.boundaries.first, return_counts=True)
    shares = np.bincount(np.minimum(sizes, 4), minlength=5)[1:4] / len(firsts)
    # The last n-gram of a block is shortened to fit, so short ones are a little more frequent than drawn.
    assert shares == pytest.approx([6 / 11, 3 / 11, 2 / 11], abs=0.06)
    exact = np.bincount(batch.block_of[examples.positions], minlength=400)
    assert set(exact) == {8}


def test_given_spans_take_their_share() -> None:
    batch = random_batch([100] * 200, seed=7)
    spans = first_two_words(batch)
    inside = np.zeros(len(batch.ids), bool)
    inside[concatenated_ranges(spans.starts, spans.lengths)] = True
    examples = masking("given", given_share=0.5)(batch, seed=0)
    budget = 15
    from_spans = np.bincount(batch.block_of[examples.positions[inside[examples.positions]]], minlength=200)
    assert from_spans.mean() > 0.15 * inside.sum() / 200  # far more than chance
    everything = np.bincount(batch.block_of[examples.positions], minlength=200)
    assert (everything <= budget).all()
    assert (everything >= budget - 3).all()
    none = masking("given", given_share=0.0)(batch, seed=0)
    by_chance = np.bincount(batch.block_of[none.positions[inside[none.positions]]], minlength=200)
    assert by_chance.mean() < from_spans.mean() / 2


def test_given_spans_must_be_whole_words_of_one_block() -> None:
    batch = random_batch([20, 20], seed=8, pieces=0.5)
    piece = int(np.flatnonzero(batch.maskable & ~batch.word_starts)[0])
    for table, message in (
        (SpanTable(np.array([piece]), np.array([1])), "does not cover whole words"),
        (SpanTable(np.array([words_in(batch, 0)[0]]), np.array([40])), "does not cover whole words"),
        (SpanTable(np.array([1, 1]), np.array([1, 1])), "overlap"),
        (SpanTable(np.array([1]), np.array([0])), "empty or outside"),
    ):
        config = MaskingConfig(law="given")
        law = Masking(config, mask_id=MASK, random_tokens=RandomTokens(VOCAB, SPECIAL), given=lambda _, t=table: t)
        with pytest.raises(InputError, match=message):
            law(batch, seed=0)


def test_a_mixture_gives_each_sample_one_law() -> None:
    batch = random_batch([120] * 1500, seed=9, pieces=0.4)
    mixed = masking(mixture={"subword": 1.0, "span": 3.0})(batch, seed=0)
    alone = {law: masking(law)(batch, seed=0) for law in ("subword", "span")}
    positions = {
        name: np.split(e.positions, np.searchsorted(e.positions, batch.starts[1:])) for name, e in alone.items()
    }
    mine = np.split(mixed.positions, np.searchsorted(mixed.positions, batch.starts[1:]))
    from_span = [np.array_equal(a, b) for a, b in zip(mine, positions["span"], strict=True)]
    from_subword = [np.array_equal(a, b) for a, b in zip(mine, positions["subword"], strict=True)]
    assert all(a != b for a, b in zip(from_span, from_subword, strict=True))
    assert np.mean(from_span) == pytest.approx(0.75, abs=0.04)


@pytest.mark.parametrize("per", ["token", "word", "span"])
def test_replacement_shares_and_what_shares_a_decision(per: str) -> None:
    batch = random_batch([300] * 400, seed=10, pieces=0.4)
    examples = masking("span", replace_per=per)(batch, seed=0)
    seen = examples.input_ids[examples.positions]
    kind = np.where(seen == MASK, 0, np.where(seen == examples.targets, 2, 1))
    deciders = {"token": examples.positions, "span": examples.boundaries.first}
    starts = np.flatnonzero(batch.word_starts)
    deciders["word"] = starts[np.searchsorted(starts, examples.positions, side="right") - 1]
    units, first_of, sizes = np.unique(deciders[per], return_index=True, return_counts=True)
    shares = np.bincount(kind[first_of], minlength=3) / len(units)
    spread = 5 * (0.8 * 0.2 / len(units)) ** 0.5
    assert shares == pytest.approx([0.8, 0.1, 0.1], abs=spread)
    # Within a unit the decision is one, but for random ids that happen to equal the truth.
    repeated = np.repeat(kind[first_of], sizes)
    order = np.argsort(deciders[per], kind="stable")
    assert (kind[order] == repeated).mean() > 0.998
    if per == "token":
        both = np.diff(examples.positions) == 1
        assert 0.6 < (kind[1:] == kind[:-1])[both].mean() < 0.72  # 0.8² + 0.1² + 0.1²


@pytest.mark.parametrize("source", ["vocabulary", "corpus"])
def test_random_tokens_come_from_where_they_should(source: str) -> None:
    counts = np.zeros(VOCAB, np.int64)
    counts[10:14] = [1, 2, 3, 4]
    counts[MASK] = 100
    tokens = RandomTokens(VOCAB, SPECIAL, counts if source == "corpus" else None)
    values = np.random.default_rng(0).integers(0, 2**64, 200_000, dtype=np.uint64)
    drawn = np.bincount(tokens.draw(values), minlength=VOCAB)
    assert drawn[list(SPECIAL)].sum() == 0
    if source == "corpus":
        assert stats.chisquare(drawn[10:14], np.array([0.1, 0.2, 0.3, 0.4]) * 200_000).pvalue > 1e-4
        assert drawn.sum() == drawn[10:14].sum()
    else:
        assert stats.chisquare(np.delete(drawn, SPECIAL)).pvalue > 1e-4


def test_spans_are_merged_and_their_neighbours_lie_outside() -> None:
    batch = random_batch([250] * 50, seed=11)
    examples = masking()(batch, seed=0)
    masked = np.zeros(len(batch.ids), bool)
    masked[examples.positions] = True
    assert not masked[examples.boundaries.left].any()
    assert not masked[examples.boundaries.right].any()
    assert (batch.block_of[examples.boundaries.left] == batch.block_of[examples.boundaries.positions]).all()
    assert (batch.block_of[examples.boundaries.right] == batch.block_of[examples.boundaries.positions]).all()
    assert (examples.boundaries.left == examples.boundaries.first - 1).all()
    assert (examples.boundaries.positions - examples.boundaries.first == examples.boundaries.offsets).all()
    at_edge = np.isin(examples.boundaries.left, batch.starts)
    assert at_edge.any()  # the neighbour of a span at the first word is [CLS]


def test_without_special_tokens_a_span_at_the_edge_has_no_boundary_target() -> None:
    from spanlab.corruption import batch_sequences

    layout = SpecialTokenLayout(cls_id=None, sep_id=None, special_ids=SPECIAL)
    batch = batch_sequences([list(range(10, 30))] * 200, [[True] * 20] * 200, layout)
    examples = masking(ratio=0.4)(batch, seed=0)
    assert len(examples.boundaries.positions) < len(examples.positions)
    assert (batch.block_of[examples.boundaries.left] == batch.block_of[examples.boundaries.right]).all()


def test_blocks_are_framed() -> None:
    blocks = BlockBatch(
        indices=np.array([7, 8]),
        ids=np.array([10, 11, 12, 13, 14, SEP, 15]),
        lengths=np.array([4, 3]),
        word_starts=np.array([True, False, True, True, True, True, True]),
        sentence_starts=np.array([True, False, False, True, True, False, False]),
        first_lengths=np.array([3, 3]),
        sources=None,
        labels=np.array([1, -1], np.int8),
    )
    tokens = add_special_tokens(blocks, SpecialTokenLayout(cls_id=CLS, sep_id=SEP, special_ids=SPECIAL, segments=True))
    assert tokens.ids.tolist() == [CLS, 10, 11, 12, SEP, 13, SEP, CLS, 14, SEP, 15, SEP]
    assert tokens.pairs is not None
    assert tokens.pairs.segment_ids.tolist() == [0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0]
    assert tokens.lengths.tolist() == [7, 5]
    assert tokens.maskable.tolist() == [False, True, True, True, False, True, False, False, True, False, True, False]
    assert tokens.word_starts.tolist() == [
        False,
        True,
        False,
        True,
        False,
        True,
        False,
        False,
        True,
        False,
        True,
        False,
    ]
    assert tokens.text_lengths.tolist() == [4, 2]
    assert words_of(tokens).lengths.tolist() == [2, 1, 1, 1, 1]
    assert tokens_of(tokens).counts.tolist() == [4, 2]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ratio": 0.0}, "'ratio' is 0.0"),
        ({"ratio": 1.0}, "'ratio' is 1.0"),
        ({"geometric_p": 0.0}, "geometric_p"),
        ({"mask_share": 0.9}, "make them add up to 1"),
        ({"max_length": 0}, "max_length"),
        ({"mixture": {"spam": 1.0}}, "mixture has 'spam"),
        ({"mixture": {"span": 0.0}}, "no share above 0"),
    ],
)
def test_configs_that_cannot_be(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        MaskingConfig(**changes)  # type: ignore[arg-type]


def test_budgets_that_cannot_be_met_and_missing_tokens() -> None:
    from spanlab.corruption import batch_sequences

    for sequences in ([[CLS, SEP]], [[CLS, 10, SEP]], [[]]):
        flags = [[True] * len(sequence) for sequence in sequences]
        nothing = masking()(batch_sequences(sequences, flags, LAYOUT), seed=0)
        assert not len(nothing.positions)
        assert not len(nothing.boundaries.positions)
    with pytest.raises(InputError, match="no mask token"):
        Masking(MaskingConfig(), mask_id=None, random_tokens=RandomTokens(VOCAB, SPECIAL))
    with pytest.raises(ConfigError, match="no spans are given"):
        Masking(MaskingConfig(law="given"), mask_id=MASK, random_tokens=RandomTokens(VOCAB, SPECIAL))
    with pytest.raises(InputError, match="no token to draw"):
        RandomTokens(5, SPECIAL)
    mixed = batch_sequences([[CLS, 10, SEP], [CLS, 10, 11, 12, SEP]], [[True] * 3, [True] * 5], LAYOUT)
    assert set(mixed.block_of[masking()(mixed, seed=0).positions]) == {1}
