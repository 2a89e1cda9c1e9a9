"""Word vectors from co-occurrence: words in the same places are near one another, and held-out text is never read."""

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from spanlab.corpus import PreparedCorpus
from spanlab.encoder import Electra
from spanlab.errors import ConfigError
from spanlab.objectives import Mixture, ReplacedToken
from spanlab.pretraining.batches import held_out_ranges
from spanlab.pretraining.build import WeightedCorpus, build_training_spec
from spanlab.pretraining.recipe import load_recipe
from spanlab.pretraining.word_vectors import cooccurrence_vectors
from tests.pretraining.making import DOES, SMALLEST, WHAT, WHO, make_tokenizer, prepare, write_text

COOCCURRENCE = (*SMALLEST, "training.steps=1", "word_embeddings=cooccurrence")


def vectors(*corpora: PreparedCorpus, held_out: float = 0.1, width: int = 32, seed: int = 0) -> NDArray[np.float32]:
    return cooccurrence_vectors(corpora, [1.0] * len(corpora), held_out=held_out, width=width, seed=seed)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> PreparedCorpus:
    """Every word of the text is one token."""
    folder = tmp_path_factory.mktemp("words")
    text = write_text(folder / "text.txt", documents=200)
    return PreparedCorpus.open(prepare(text, make_tokenizer(text, vocab_size=400), folder / "corpus"))


def test_words_in_the_same_places_are_near_one_another(corpus: PreparedCorpus) -> None:
    table = vectors(corpus)
    id_of = {token: index for index, token in enumerate(corpus.tokenizer.vocabulary)}
    for group in (WHO, DOES, WHAT):
        ids = [id_of[word] for word in group]
        others = [id_of[word] for other in (WHO, DOES, WHAT) if other is not group for word in other]
        inside, outside = table[ids] @ table[ids].T, table[ids] @ table[others].T
        assert inside.min() > outside.max()


@pytest.mark.parametrize("width", [8, 32, 600])
def test_they_are_as_large_as_random_ones(corpus: PreparedCorpus, width: int) -> None:
    table = vectors(corpus, width=width)
    occurs = corpus.token_counts > 0
    assert table.shape == (len(occurs), width)
    np.testing.assert_allclose(np.square(table[occurs]).mean(axis=1), 1, rtol=1e-4)
    assert not table[corpus.token_counts == 0].any()


def test_they_follow_from_the_seed(corpus: PreparedCorpus) -> None:
    state = torch.get_rng_state()
    one = vectors(corpus)
    assert torch.get_rng_state().equal(state)
    np.testing.assert_array_equal(one, vectors(corpus))
    assert not np.allclose(one, vectors(corpus, seed=1))


def test_held_out_text_is_not_read(corpus: PreparedCorpus, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    original = PreparedCorpus.read

    def record(self: PreparedCorpus, starts: NDArray[np.int64], stops: NDArray[np.int64]) -> object:
        for start, stop in zip(starts, stops, strict=True):
            read.extend(range(start, stop))
        return original(self, starts, stops)

    monkeypatch.setattr(PreparedCorpus, "read", record)
    vectors(corpus, held_out=0.1)
    held_out = {
        token
        for start, stop in zip(*held_out_ranges(corpus.counts.tokens, 0.1), strict=True)
        for token in range(start, stop)
    }
    assert sorted(read) == sorted(set(range(corpus.counts.tokens)) - held_out)


def test_corpora_count_by_their_weight(corpus: PreparedCorpus, tmp_path: Path) -> None:
    """A corpus beside itself changes nothing, a second one with a small weight little, with a large one much."""
    other_text = tmp_path / "other.txt"
    lines = [f"The {does} {who} the {what} again." for who in WHO for does in DOES for what in WHAT]
    other_text.write_text("\n".join(lines), encoding="utf-8")
    other = PreparedCorpus.open(prepare(other_text, corpus.tokenizer, tmp_path / "other"))

    def likeness(weights: list[float], corpora: list[PreparedCorpus]) -> NDArray[np.float32]:
        table = cooccurrence_vectors(corpora, weights, held_out=0.1, width=32, seed=0)
        return table @ table.T / 32

    alone = likeness([1.0], [corpus])
    np.testing.assert_allclose(likeness([2.0, 0.5], [corpus, corpus]), alone, atol=2e-3)
    little, much = (np.abs(likeness([1.0, weight], [corpus, other]) - alone).max() for weight in (1e-3, 10.0))
    assert little < much


def test_only_new_embeddings_of_tokens_in_the_text_start_so(corpus: PreparedCorpus) -> None:
    spec, _ = build_training_spec(load_recipe("spanbert", COOCCURRENCE), [WeightedCorpus(corpus)], None)
    random, _ = build_training_spec(
        load_recipe("spanbert", [*COOCCURRENCE, "word_embeddings=random"]), [WeightedCorpus(corpus)], None
    )
    ours, theirs = spec.criterion, random.criterion
    assert isinstance(ours, Mixture)
    assert isinstance(theirs, Mixture)
    occurs = torch.from_numpy(corpus.token_counts > 0)
    table = torch.from_numpy(vectors(corpus)) * ours.encoder.config.init_std
    torch.testing.assert_close(ours.encoder.word_table[occurs].detach(), table[occurs])
    assert ours.encoder.word_table[~occurs].equal(theirs.encoder.word_table[~occurs])
    same = {name for name, tensor in theirs.state_dict().items() if tensor.equal(ours.state_dict()[name])}
    assert theirs.state_dict().keys() - same == {"encoder.embeddings.word.weight"}


def test_electra_shares_them(corpus: PreparedCorpus) -> None:
    spec, _ = build_training_spec(load_recipe("electra", COOCCURRENCE), [WeightedCorpus(corpus)], None)
    assert isinstance(spec.criterion, ReplacedToken)
    pair: Electra = spec.criterion.pair
    assert pair.generator.word_table is pair.discriminator.word_table
    assert pair.discriminator.word_table.std().item() == pytest.approx(pair.discriminator.config.init_std, rel=0.1)


def test_a_model_that_is_continued_keeps_its_own(corpus: PreparedCorpus, tmp_path: Path) -> None:
    first, _ = build_training_spec(load_recipe("spanbert", COOCCURRENCE), [WeightedCorpus(corpus)], None)
    assert isinstance(first.criterion, Mixture)
    with torch.no_grad():
        first.criterion.encoder.word_table.add_(1)
    assert isinstance(first.criterion, nn.Module)
    first.export(first.criterion, tmp_path / "model")
    again, _ = build_training_spec(
        load_recipe("spanbert", COOCCURRENCE), [WeightedCorpus(corpus)], str(tmp_path / "model")
    )
    assert isinstance(again.criterion, Mixture)
    assert again.criterion.encoder.word_table.equal(first.criterion.encoder.word_table)


def test_elmo_has_no_word_embeddings(corpus: PreparedCorpus) -> None:
    recipe = load_recipe("elmo", ["size=tiny", "training.steps=1", "word_embeddings=cooccurrence", "data.held_out=0"])
    with pytest.raises(ConfigError, match="word_embeddings=random"):
        build_training_spec(recipe, [WeightedCorpus(corpus)], None)
