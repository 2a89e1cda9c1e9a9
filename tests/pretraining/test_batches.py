"""Which samples a step has: the same however they are shared out, each once an epoch, never a held-out one."""

from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spanlab.arrays import Integers
from spanlab.corpus import PreparedCorpus
from spanlab.corruption import ExampleBatch
from spanlab.corruption.examples import join_examples, named_arrays
from spanlab.errors import ConfigError, InputError
from spanlab.pretraining import batches
from spanlab.pretraining.batches import CYCLE, IndexRanges, PretrainingData, take_turns
from spanlab.pretraining.evaluation import smoothed
from spanlab.pretraining.recipe import load_recipe
from tests.pretraining.making import SMALLEST, make_tokenizer, prepare, write_text

RECIPES = ("spanbert", "bert", "roberta", "albert", "electra")


@cache
def opened(folder: Path) -> PreparedCorpus:
    return PreparedCorpus.open(folder)


def data(
    corpora: Path | list[Path], *overrides: str, recipe: str = "spanbert", weights: tuple[float, ...] = (1.0,)
) -> PretrainingData:
    folders = [corpora] if isinstance(corpora, Path) else corpora
    return PretrainingData(
        [opened(folder) for folder in folders],
        weights,
        load_recipe(recipe, [*SMALLEST, "training.steps=40", *overrides]),
    )


def all_of(indices: IndexRanges) -> Integers:
    return indices[np.arange(len(indices))]


def same(one: ExampleBatch, other: ExampleBatch) -> bool:
    """Whether two batches hold the same examples in the same order."""
    arrays, others = dict(named_arrays(one)), dict(named_arrays(other))
    return (
        one.streams == other.streams
        and arrays.keys() == others.keys()
        and all(np.array_equal(arrays[name], others[name]) for name in arrays)
    )


def whole_step(found: PretrainingData, number: int, parts: int) -> ExampleBatch:
    """What all processes have of a step, in the order of one."""
    shares = [found.step(number, rank=part, world_size=parts) for part in range(parts)]
    assert len({len(share) for share in shares}) == 1
    return join_examples([share[micro] for micro in range(len(shares[0])) for share in shares])


@pytest.mark.parametrize("recipe", RECIPES)
@settings(deadline=None, max_examples=12)
@given(number=st.integers(0, 39), parts=st.integers(1, 4), accumulate=st.integers(1, 3), size=st.integers(12, 20))
def test_shares_make_the_same_step(
    small_corpus: Path, recipe: str, number: int, parts: int, accumulate: int, size: int
) -> None:
    batch = f"training.batch_size={size}"
    one = data(small_corpus, batch, recipe=recipe).step(number, rank=0, world_size=1)
    many = data(small_corpus, batch, f"training.accumulate={accumulate}", recipe=recipe)
    assert len(one) == 1
    assert same(one[0], whole_step(many, number, parts))


def test_every_sample_is_seen_once_an_epoch(small_corpus: Path) -> None:
    found = data(small_corpus, "training.batch_size=7")
    samples = found.phases[0].samples
    count = len(samples.splits[0].training)
    numbers = np.arange(3 * count)
    seen = samples.batch(numbers).indices
    for epoch in range(3):
        assert sorted(seen[epoch * count : (epoch + 1) * count]) == sorted(all_of(samples.splits[0].training))
    assert not np.array_equal(seen[:count], seen[count : 2 * count])
    assert found.steps_per_epoch == count / 7
    assert found.epoch(10) == pytest.approx(70 / count)


def test_steps_go_through_the_samples_without_a_gap(small_corpus: Path) -> None:
    found = data(small_corpus, "training.batch_size=7", "training.batch_warmup=0.5")
    sizes = [found.batch_size(step) for step in range(40)]
    assert sizes[0] == 1
    assert sizes[:20] == sorted(sizes[:20])
    assert set(sizes[20:]) == {7}
    firsts = [found.samples_before(step) for step in range(41)]
    assert np.diff(firsts).tolist() == sizes
    joined = join_examples([found.step(step, rank=0, world_size=1)[0] for step in range(40)])
    assert same(joined, found.phases[0].samples.batch(np.arange(sum(sizes))))


def test_lengths_change_at_their_step(small_corpus: Path) -> None:
    found = data(small_corpus, "data.phases=[[0.7, 16], [0.3, 48]]", "training.steps=10")
    longest = [found.step(step, rank=0, world_size=1)[0].lengths.max() for step in range(10)]
    assert max(longest[:7]) <= 16 < min(longest[7:])
    assert max(longest[7:]) <= 48
    assert found.samples_before(7) == 0
    passes = [found.epoch(step) for step in range(11)]
    assert passes == sorted(passes)
    short, long = (phase.samples.epoch_samples for phase in found.phases)
    assert passes[-1] == pytest.approx(7 * 8 / short + 3 * 8 / long)


@pytest.mark.parametrize(("steps", "shares", "first"), [(10, (0.1, 0.7, 0.2), 8), (1, (0.9, 0.1, 0.0), None)])
def test_shares_of_steps_are_whole_where_they_can_be(
    small_corpus: Path, steps: int, shares: tuple[float, ...], first: int | None
) -> None:
    lengths = [[share, 16 * (number + 1)] for number, share in enumerate(shares) if share]
    found = data(small_corpus, f"data.phases={lengths}", f"training.steps={steps}")
    assert first is None or found.phases[-1].first == first
    assert found.step(steps - 1, rank=0, world_size=1)[0].lengths.max() > 8


@pytest.fixture(scope="module")
def three_corpora(small_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("several")
    tokenizer = opened(small_corpus).tokenizer
    texts = [write_text(folder / f"{seed}.txt", documents=30 * seed, seed=seed + 5) for seed in (1, 2)]
    return [small_corpus, *(prepare(text, tokenizer, text.with_suffix("")) for text in texts)]


def test_corpora_are_mixed_by_weight(three_corpora: list[Path]) -> None:
    weights = (1.0, 2.0, 5.0)
    found = data(three_corpora, weights=weights)
    samples = found.phases[0].samples
    turns = Counter(take_turns(weights, 0).tolist())
    for corpus, weight in enumerate(weights):
        assert abs(turns[corpus] - CYCLE * weight / 8) <= 1
    counts = [len(split.training) for split in samples.splits]
    passes = [count * CYCLE / turns[corpus] for corpus, count in enumerate(counts)]
    assert samples.epoch_samples == pytest.approx(min(passes))
    owners = samples._turns[np.arange(int(max(passes)) + CYCLE) % CYCLE]
    for corpus, count in enumerate(counts):
        first_pass = np.flatnonzero(owners == corpus)[:count]
        assert sorted(samples.batch(first_pass).indices) == sorted(all_of(samples.splits[corpus].training))


def test_examples_of_several_corpora_do_not_depend_on_the_shares(three_corpora: list[Path]) -> None:
    found = data(three_corpora, "training.accumulate=2", weights=(1.0, 2.0, 5.0))
    one = data(three_corpora, weights=(1.0, 2.0, 5.0)).step(3, rank=0, world_size=1)[0]
    many = whole_step(found, 3, 2)
    # Within a micro-batch the samples of one corpus stand together.
    key = lambda batch: sorted(zip(batch.indices.tolist(), batch.lengths.tolist(), strict=True))  # noqa: E731
    assert key(one) == key(many)
    assert sorted(one.input_ids.tolist()) == sorted(many.input_ids.tolist())


@pytest.mark.parametrize("weights", [(1.0, 0.0), (1.0, -2.0), (1.0, float("nan"))])
def test_weights_must_be_above_nought(weights: tuple[float, ...]) -> None:
    with pytest.raises(ConfigError, match=r"each must be above 0; write --data DIR:WEIGHT"):
        take_turns(weights, 0)


@pytest.mark.parametrize("recipe", ["spanbert", "albert"])
@pytest.mark.parametrize("at_once", [1, 7, 1 << 20])
def test_what_is_trained_on_needs_no_list(
    small_corpus: Path, recipe: str, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ranges hold the samples that a list held, wherever they are cut while they are found."""
    monkeypatch.setattr(batches, "_SPLIT_AT_ONCE", at_once)
    samples = data(small_corpus, recipe=recipe).phases[0].samples
    starts, stops = batches.held_out_ranges(opened(small_corpus).counts.tokens, 0.1)
    firsts = samples.corpora[0].blocks.first_tokens()
    is_held_out = ((starts[:, None] <= firsts) & (firsts < stops[:, None])).any(axis=0)
    assert all_of(samples.splits[0].training).tolist() == np.flatnonzero(~is_held_out).tolist()
    assert samples.splits[0].held_out.tolist() == np.flatnonzero(is_held_out).tolist()


@pytest.mark.parametrize("recipe", ["spanbert", "roberta"])
def test_what_is_held_out_is_never_trained_on(small_corpus: Path, recipe: str) -> None:
    found = data(small_corpus, recipe=recipe)
    samples = found.phases[0].samples
    split, blocks = samples.splits[0], samples.corpora[0].blocks
    assert sorted([*all_of(split.training), *split.held_out]) == list(range(len(blocks)))
    firsts = np.append(blocks.first_tokens(), opened(small_corpus).counts.tokens)
    tokens = [
        {t for i in part for t in range(firsts[i], firsts[i + 1])} for part in (all_of(split.training), split.held_out)
    ]
    assert tokens[0].isdisjoint(tokens[1])
    share = len(tokens[1]) / opened(small_corpus).counts.tokens
    assert 0.05 < share < 0.2
    # They are spread over the corpus.
    assert np.ptp(split.held_out) > len(blocks) / 2


def test_held_out_masks_are_always_the_same(small_corpus: Path) -> None:
    one, again = (data(small_corpus).phases[0].samples for _ in range(2))
    batches = zip(one.held_out_batches(rank=0, world_size=1), again.held_out_batches(rank=0, world_size=1), strict=True)
    scored = []
    for (batch, counts), (other, _) in batches:
        assert counts
        assert same(batch, other)
        scored += batch.indices.tolist()
    assert sorted(scored) == sorted(one.splits[0].held_out)


@pytest.mark.parametrize("recipe", ["spanbert", "bert"])
def test_unigrams_are_those_of_the_text_that_is_trained_on(small_corpus: Path, recipe: str) -> None:
    corpus = opened(small_corpus)
    samples = data(small_corpus, recipe=recipe).phases[0].samples
    frequencies = smoothed(samples.training_counts())
    assert frequencies.sum() == pytest.approx(1)
    spans = data(small_corpus).phases[0].samples
    ids = spans.corpora[0].blocks.batch(all_of(spans.splits[0].training)).ids
    counted = np.bincount(ids, minlength=corpus.tokenizer.vocab_size) + 1
    # Samples at the edges of the held-out ranges make a small difference.
    np.testing.assert_allclose(frequencies, counted / counted.sum(), atol=0.004)


def test_nothing_may_be_held_out(small_corpus: Path) -> None:
    samples = data(small_corpus, "data.held_out=0").phases[0].samples
    assert len(samples.splits[0].held_out) == 0
    with pytest.raises(InputError, match=r"samples are too few to hold out .*; set data.held_out=0, or prepare more"):
        data(small_corpus, "data.held_out=0.00001")


def test_a_batch_that_cannot_be_shared_is_refused(small_corpus: Path) -> None:
    found = data(small_corpus, "training.batch_size=5", "training.accumulate=3")
    with pytest.raises(
        ConfigError, match=r"a batch of 5 samples cannot be split over 2 processes with 3 micro-batches"
    ):
        found.step(0, rank=0, world_size=2)


def test_a_corpus_with_another_tokenizer_is_refused_beside_the_first(small_corpus: Path, tmp_path: Path) -> None:
    from spanlab.pretraining.build import WeightedCorpus, build_training_spec

    text = write_text(tmp_path / "other.txt")
    other = prepare(text, make_tokenizer(text, vocab_size=100), tmp_path / "other")
    corpora = [WeightedCorpus.parse(str(small_corpus)), WeightedCorpus.parse(f"{other}:2")]
    assert corpora[1].weight == 2
    with pytest.raises(InputError, match="is not the one the corpus was prepared with"):
        build_training_spec(load_recipe("spanbert", [*SMALLEST, "training.steps=1"]), corpora, None)
