"""Small sizes as they come: trained on ModernBERT's architecture, continued, and loaded by transformers."""

import logging
from pathlib import Path

import pytest
import torch

from spanlab.corpus import PreparedCorpus
from spanlab.encoder import Electra, load_model
from spanlab.pretraining.build import WeightedCorpus, build_training_spec
from spanlab.pretraining.recipe import Recipe, load_recipe

SMALL = ("size=tiny", "data.length=32", "data.held_out=0.1", "training.batch_size=4", "training.steps=1")


def export(recipe: Recipe, corpus: Path, folder: Path, init: str | None = None) -> tuple[str, ...]:
    """Write the initial model of a run, its every weight moved; returns the notes to the user."""
    spec, initial = build_training_spec(recipe, [WeightedCorpus(PreparedCorpus.open(corpus))], init)
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in spec.criterion.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape))
    spec.export(spec.criterion, folder)
    return initial.notes


@pytest.mark.parametrize(
    ("name", "heads"), [("spanbert", {"mlm", "sbo"}), ("bert", {"mlm", "nsp"}), ("roberta", {"mlm"})]
)
def test_transformers_loads_them_without_a_word(
    name: str, heads: set[str], small_corpus: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    transformers = pytest.importorskip("transformers")
    recipe = load_recipe(name, SMALL)
    export(recipe, small_corpus, tmp_path)
    ours = load_model(tmp_path)
    assert ours.encoder.config.architecture == "modernbert"
    assert ours.heads.keys() == heads
    logger = logging.getLogger("transformers")
    logger.addHandler(caplog.handler)
    try:
        theirs = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path).eval()
    finally:
        logger.removeHandler(caplog.handler)
    assert not caplog.records
    assert type(theirs).__name__ == "ModernBertForMaskedLM"
    ids = torch.randint(5, 100, (2, 20))
    with torch.no_grad():
        hidden = ours.encoder.eval()(ids).hidden
        expected = ours.heads["mlm"].eval()(hidden.flatten(0, 1), ours.encoder.word_table).view(2, 20, -1)
        torch.testing.assert_close(theirs(ids).logits, expected, rtol=1e-4, atol=1e-4)


def test_the_pooler_that_pairs_train_is_kept(small_corpus: Path, tmp_path: Path) -> None:
    """transformers' ModernBERT has none, so it is stored beside its weights."""
    export(load_recipe("bert", SMALL), small_corpus, tmp_path / "first")
    model = load_model(tmp_path / "first")
    assert model.encoder.pooler is not None
    assert not model.report.unexpected
    recipe = load_recipe("bert", SMALL)
    spec, initial = build_training_spec(
        recipe, [WeightedCorpus(PreparedCorpus.open(small_corpus))], str(tmp_path / "first")
    )
    assert initial.notes == ()
    state = spec.criterion.state_dict()
    for name, tensor in model.encoder.state_dict().items():
        assert state[f"encoder.{name}"].equal(tensor)


def test_electra_trains_on_it_too(small_corpus: Path, tmp_path: Path) -> None:
    recipe = load_recipe("electra", SMALL)
    export(recipe, small_corpus, tmp_path)
    pair = Electra.from_pretrained(tmp_path)
    assert {pair.generator.config.architecture, pair.discriminator.config.architecture} == {"modernbert"}


def test_settings_of_new_weights_are_no_news_with_a_model(small_corpus: Path, tmp_path: Path) -> None:
    export(load_recipe("spanbert", [*SMALL, "encoder.init_std=0.02"]), small_corpus, tmp_path / "first")
    notes = export(load_recipe("spanbert", SMALL), small_corpus, tmp_path / "second", init=str(tmp_path / "first"))
    assert notes == ()
