"""What a run begins with: new weights, or those of a model that is there already, with what it lacks made and told."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from spanlab.corpus import PreparedCorpus
from spanlab.encoder import Electra, TransformerEncoder, load_model, preset, save_model
from spanlab.errors import ConfigError, InputError
from spanlab.objectives import Mixture, ReplacedToken
from spanlab.pretraining.batches import held_out_ranges
from spanlab.pretraining.build import WeightedCorpus, build_training_spec, save_criterion
from spanlab.pretraining.initial_model import TOKEN_HEADS, InitialModel, build_model
from spanlab.pretraining.recipe import load_recipe
from spanlab.text import Tokenizer
from tests.pretraining.making import SMALLEST, make_tokenizer, write_text


@pytest.fixture(scope="module")
def tokenizer(small_corpus: Path) -> Tokenizer:
    return PreparedCorpus.open(small_corpus).tokenizer


def build(tokenizer: Tokenizer, *overrides: str, recipe: str = "spanbert", init: Path | None = None) -> InitialModel:
    return build_model(load_recipe(recipe, [*SMALLEST, *overrides]), tokenizer, init)


def shake(module: nn.Module) -> None:
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape))


def saved(folder: Path, beginning: InitialModel, tokenizer: Tokenizer) -> Path:
    """The model folder of a beginning whose every weight has been moved."""
    assert isinstance(beginning.criterion, nn.Module)
    shake(beginning.criterion)
    save_criterion(folder, beginning.criterion, "bert")
    tokenizer.save(folder)
    return folder


def mixture(beginning: InitialModel) -> Mixture:
    assert isinstance(beginning.criterion, Mixture)
    return beginning.criterion


def equal(one: nn.Module, other: nn.Module) -> bool:
    ours, theirs = one.state_dict(), other.state_dict()
    return ours.keys() == theirs.keys() and all(ours[name].equal(theirs[name]) for name in ours)


def test_the_same_weights_wherever_they_are_drawn(tokenizer: Tokenizer) -> None:
    one = build(tokenizer)
    torch.rand(7)
    assert equal(mixture(one), mixture(build(tokenizer)))
    assert not equal(mixture(one), mixture(build(tokenizer, "seed=1")))
    assert one.notes == ()


def test_the_shape_follows_the_data(tokenizer: Tokenizer) -> None:
    config = build(tokenizer, "data.phases=[[0.5, 16], [0.5, 40]]").config
    assert (config.vocab_size, config.max_positions, config.pooler, config.pad_id) == (
        tokenizer.vocab_size,
        40,
        False,
        tokenizer.pad_id,
    )
    assert build(tokenizer, recipe="bert").config.pooler is True


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (("encoder.vocab_size=50",), r"encoder.vocab_size is 50, but the corpus's tokenizer has 120 tokens; leave"),
        (
            ("encoder.max_positions=20",),
            r"samples of 32 tokens are longer than the model's 20 positions; set",
        ),
        (("encoder.heads=5",), r"in the 'encoder' section: 5 heads cannot share a width of 32"),
        (("encoder.layres=5",), r"in the 'encoder' section: unknown key 'layres' \(did you mean 'layers'\?\)"),
        (("backbone=brt",), r"unknown system 'brt' \(did you mean 'bert'\?\)"),
    ],
)
def test_shapes_that_do_not_fit(tokenizer: Tokenizer, overrides: tuple[str, ...], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build(tokenizer, *overrides)


def test_heads_are_kept_and_new_ones_told(tokenizer: Tokenizer, tmp_path: Path) -> None:
    before = build(tokenizer, recipe="bert")
    folder = saved(tmp_path / "bert", before, tokenizer)
    after = build(tokenizer, init=folder)
    assert equal(mixture(after).encoder, mixture(before).encoder)
    assert equal(mixture(after).heads["mlm"], mixture(before).heads["mlm"])
    assert after.notes == (
        "new heads, which the model did not have: sbo",
        "heads that no objective trains are dropped: nsp",
    )
    again = build(tokenizer, init=saved(tmp_path / "spanbert", after, tokenizer))
    assert again.notes == ()
    assert equal(mixture(again), mixture(after))


def test_what_nothing_trains_is_not_waited_for(tokenizer: Tokenizer, tmp_path: Path) -> None:
    folder = saved(tmp_path / "bert", build(tokenizer, recipe="bert"), tokenizer)
    pooler = mixture(build(tokenizer, init=folder)).encoder.pooler
    assert pooler is not None
    assert not pooler.weight.requires_grad
    asked = mixture(build(tokenizer, recipe="bert", init=folder)).encoder.pooler
    assert asked is not None
    assert asked.weight.requires_grad


def test_settings_that_leave_the_weights_are_taken_up_and_others_told(tokenizer: Tokenizer, tmp_path: Path) -> None:
    folder = saved(tmp_path / "bert", build(tokenizer, recipe="bert"), tokenizer)
    asked = ("encoder.dropout=0.33", "encoder.checkpoint_layers=true", "encoder.inner_width=99")
    after = build(tokenizer, *asked, init=folder)
    encoder = mixture(after).encoder
    assert (encoder.config.dropout, encoder.config.checkpoint_layers) == (0.33, True)
    assert encoder.embeddings.dropout.p == 0.33
    assert after.notes[0] == "encoder.inner_width stays 64, as the model has it"
    assert equal(encoder, load_model(folder).encoder)
    with pytest.raises(ConfigError, match=r"unknown key 'dropuot' \(did you mean 'dropout'\?\)"):
        build(tokenizer, "encoder.dropuot=0.1", init=folder)


def test_pairs_need_a_pooler(tokenizer: Tokenizer, tmp_path: Path) -> None:
    folder = saved(tmp_path / "spanbert", build(tokenizer), tokenizer)
    with pytest.raises(ConfigError, match="has no pooler, which nsp and sop need"):
        build(tokenizer, recipe="bert", init=folder)


def test_a_model_must_be_long_enough(tokenizer: Tokenizer, tmp_path: Path) -> None:
    folder = saved(tmp_path / "spanbert", build(tokenizer), tokenizer)
    with pytest.raises(ConfigError, match=r"samples of 64 tokens are longer than the model's 32 positions; set"):
        build(tokenizer, "data.length=64", init=folder)


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """A tokenizer of another text: some tokens it shares, some are its own."""
    path = tmp_path_factory.mktemp("other") / "text.txt"
    words = "The fisherman mended the telescope before the glockenspiel avalanche. The captain watched zeppelins."
    path.write_text(f"{words}\n" * 20, encoding="utf-8")
    return make_tokenizer(path, vocab_size=90)


def test_another_tokenizer_is_refused_with_the_fix(tokenizer: Tokenizer, other: Tokenizer, tmp_path: Path) -> None:
    folder = saved(tmp_path / "spanbert", build(tokenizer), tokenizer)
    message = r"tokenizer than the model's; prepare the corpus with --tokenizer .*, or set extend_vocabulary=true"
    with pytest.raises(InputError, match=message):
        build(other, init=folder)
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.txt").unlink()
    with pytest.raises(InputError, match=r"no tokenizer in the model folder; copy its tokenizer files there"):
        build(tokenizer, init=folder)


def test_a_vocabulary_is_taken_over(tokenizer: Tokenizer, other: Tokenizer, tmp_path: Path) -> None:
    before = build(tokenizer)
    folder = saved(tmp_path / "spanbert", before, tokenizer)
    after = build(other, "extend_vocabulary=true", init=folder)
    shared = set(tokenizer.vocabulary) & set(other.vocabulary)
    assert 10 < len(shared) < other.vocab_size
    new = other.vocab_size - len(shared)
    told = f"vocabulary: {len(shared)} tokens kept, {new} new ones start as the mean of their old pieces"
    assert after.notes == (told,)
    assert after.config.vocab_size == other.vocab_size
    tables = [
        (mixture(after).encoder.word_table, mixture(before).encoder.word_table),
        *((mixture(after).heads[name].bias, mixture(before).heads[name].bias) for name in ("mlm", "sbo")),
    ]
    for table, old in tables:
        assert isinstance(table, torch.nn.Parameter)
        assert table.requires_grad
        assert isinstance(old, torch.Tensor)
        assert len(table) == other.vocab_size
        for number, token in enumerate(other.vocabulary):
            if token in shared:
                assert table[number].equal(old[tokenizer.vocabulary.index(token)])
            else:
                pieces = tokenizer.encode(other.decode([number])).ids.tolist()
                torch.testing.assert_close(table[number], old[pieces].mean(dim=0))


def test_what_plays_the_same_part_is_the_same_token(tokenizer: Tokenizer, tmp_path: Path) -> None:
    bpe = make_tokenizer(write_text(tmp_path / "text.txt"), "bpe", vocab_size=320)
    before = build(tokenizer)
    after = build(bpe, "extend_vocabulary=true", init=saved(tmp_path / "spanbert", before, tokenizer))
    assert bpe.vocabulary[bpe.mask_id or 0] != "[MASK]"
    table, old = mixture(after).encoder.word_table, mixture(before).encoder.word_table
    for ours, theirs in (
        (bpe.mask_id, tokenizer.mask_id),
        (bpe.cls_id, tokenizer.cls_id),
        (bpe.sep_id, tokenizer.sep_id),
    ):
        assert ours is not None
        assert theirs is not None
        assert table[ours].equal(old[theirs])


def test_an_extended_model_loads_in_transformers(tokenizer: Tokenizer, other: Tokenizer, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    folder = saved(tmp_path / "spanbert", build(tokenizer), tokenizer)
    extended = build(other, "extend_vocabulary=true", init=folder)
    again = saved(tmp_path / "extended", extended, other)
    theirs = transformers.AutoModelForMaskedLM.from_pretrained(again).eval()
    criterion = mixture(extended).eval()
    ids = torch.randint(0, other.vocab_size, (2, 12))
    with torch.no_grad():
        head = criterion.heads["mlm"]
        ours = head(criterion.encoder(ids).hidden, criterion.encoder.word_table)
        torch.testing.assert_close(theirs(ids).logits, ours, rtol=1e-5, atol=1e-5)
    assert load_model(again).heads.keys() == {"mlm", "sbo"}


@pytest.mark.parametrize("shared", ["true", "false"])
def test_both_of_electra_take_it(tokenizer: Tokenizer, other: Tokenizer, tmp_path: Path, shared: str) -> None:
    before = build(tokenizer, f"generator.share_embeddings={shared}", recipe="electra")
    folder = saved(tmp_path / "electra", before, tokenizer)
    kept = build(tokenizer, recipe="electra", init=folder)
    assert isinstance(kept.criterion, ReplacedToken)
    assert isinstance(before.criterion, ReplacedToken)
    assert equal(kept.criterion, before.criterion)
    after = build(other, "extend_vocabulary=true", recipe="electra", init=folder)
    assert isinstance(after.criterion, ReplacedToken)
    pair = after.criterion.pair
    size = other.vocab_size
    assert {pair.generator.config.vocab_size, pair.discriminator.config.vocab_size} == {size}
    assert {len(pair.generator.word_table), len(pair.discriminator.word_table), len(pair.generator_head.bias)} == {size}
    assert (pair.generator.word_table is pair.discriminator.word_table) == (shared == "true")
    saved(tmp_path / "extended", after, other)
    assert equal(Electra.from_pretrained(tmp_path / "extended"), pair)


def test_a_padded_vocabulary_is_cut_to_the_new_one(tokenizer: Tokenizer, other: Tokenizer, tmp_path: Path) -> None:
    """Some models have rows that no token has."""
    folder = saved(tmp_path / "padded", build(tokenizer, "encoder.vocab_size=128"), tokenizer)
    after = mixture(build(other, "extend_vocabulary=true", init=folder))
    assert {len(after.heads["mlm"].bias), len(after.heads["sbo"].bias)} == {other.vocab_size}  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["distilbert", "deberta-v2", "mpnet"])
def test_any_encoder_of_transformers_goes_on(
    kind: str, tokenizer: Tokenizer, other: Tokenizer, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    transformers = pytest.importorskip("transformers")
    names = {"vocab_size": tokenizer.vocab_size, "max_position_embeddings": 64}
    shape = (
        {"dim": 32, "n_layers": 1, "n_heads": 2, "hidden_dim": 64}
        if kind == "distilbert"
        else {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    )
    theirs = transformers.AutoModel.from_config(transformers.AutoConfig.for_model(kind, **names, **shape))
    theirs.save_pretrained(tmp_path / "theirs")
    tokenizer.save(tmp_path / "theirs")
    capfd.readouterr()
    begun = build(tokenizer, init=tmp_path / "theirs")
    assert begun.notes == ("new heads, which the model did not have: mlm, sbo",)
    folder = saved(tmp_path / "ours", begun, tokenizer)
    assert capfd.readouterr() == ("", "")
    again = build(tokenizer, init=folder)
    assert again.notes == ()
    assert equal(mixture(again), mixture(begun))
    ids = torch.randint(5, tokenizer.vocab_size, (2, 9))
    with torch.no_grad():
        reloaded = transformers.AutoModel.from_pretrained(folder).eval()
        torch.testing.assert_close(
            reloaded(ids).last_hidden_state, mixture(begun).encoder.eval()(ids).hidden, rtol=1e-5, atol=1e-6
        )
    extended = mixture(build(other, "extend_vocabulary=true", init=folder))
    saved(tmp_path / "extended", InitialModel(extended, extended.encoder.config, ()), other)
    assert transformers.AutoModel.from_pretrained(tmp_path / "extended").config.vocab_size == other.vocab_size


def test_a_model_whose_table_is_too_small_for_its_tokenizer_is_refused(tokenizer: Tokenizer, tmp_path: Path) -> None:
    save_model(tmp_path, TransformerEncoder(preset("bert", "tiny", vocab_size=50)))
    tokenizer.save(tmp_path)
    with pytest.raises(InputError, match="the tokenizer has 120 tokens and the model's vocabulary 50"):
        build(tokenizer, init=tmp_path)


@pytest.mark.parametrize("recipe", ["spanbert", "electra"])
def test_new_heads_may_start_at_the_frequencies_of_the_training_text(small_corpus: Path, recipe: str) -> None:
    corpus = PreparedCorpus.open(small_corpus)
    ids = corpus.read([0], [corpus.counts.tokens]).ids
    is_held_out = np.zeros(len(ids), bool)
    for start, stop in zip(*held_out_ranges(len(ids), 0.1), strict=True):
        is_held_out[start:stop] = True
    counts = np.bincount(ids[~is_held_out], minlength=corpus.tokenizer.vocab_size) + 1
    expected = torch.from_numpy(counts / counts.sum()).log().float()
    for setting, wanted in (("unigram", expected), ("zero", torch.zeros_like(expected))):
        settings = load_recipe(recipe, [*SMALLEST, f"output_bias={setting}", "training.steps=1"])
        spec, _ = build_training_spec(settings, [WeightedCorpus(corpus)], None)
        heads = [head for head in spec.criterion.modules() if isinstance(head, TOKEN_HEADS)]
        assert heads
        for head in heads:
            torch.testing.assert_close(head.bias.detach(), wanted)


def test_heads_that_a_model_brings_keep_their_biases(small_corpus: Path, tmp_path: Path) -> None:
    corpus = PreparedCorpus.open(small_corpus)
    first = build(corpus.tokenizer, "objectives.sbo=0").criterion
    assert isinstance(first, Mixture)
    shake(first)
    save_criterion(tmp_path, first, "spanbert")
    corpus.tokenizer.save(tmp_path)
    settings = load_recipe("spanbert", [*SMALLEST, "output_bias=unigram", "training.steps=1"])
    spec, _ = build_training_spec(settings, [WeightedCorpus(corpus)], str(tmp_path))
    assert isinstance(spec.criterion, Mixture)
    assert torch.equal(spec.criterion.heads["mlm"].bias, first.heads["mlm"].bias)
    assert (spec.criterion.heads["sbo"].bias < 0).all()  # new: logarithms of shares
