"""Shipped recipes say what was published; files and overrides are read strictly."""

from dataclasses import replace
from pathlib import Path

import pytest

from spanlab.config import to_mapping
from spanlab.corruption.permutation import PermutationConfig
from spanlab.encoder import preset
from spanlab.errors import ConfigError
from spanlab.pretraining.recipe import load_recipe
from spanlab.recipes import shipped_recipes


def test_a_share_of_predicted_tokens_takes_the_place_of_a_number_and_both_are_refused() -> None:
    def permutation(*overrides: str) -> PermutationConfig:
        return load_recipe("xlnet", overrides).masking.permutation

    assert (permutation().alpha, permutation().predictions) == (6, 85)
    assert permutation("masking.permutation.alpha=3").predictions is None
    assert permutation("masking.permutation.alpha=3").goals((256, 256)) == (85, 85)
    assert permutation("masking.permutation.beta=2", "size=tiny").predictions is None
    assert permutation("masking.permutation.predictions=40").predictions == 40
    by_mapping = load_recipe("xlnet", {"masking": {"permutation": {"alpha": 4}}})
    assert by_mapping.masking.permutation.predictions is None
    both = "masking.permutation.alpha and predictions both say how many tokens are predicted; set predictions for"
    with pytest.raises(ConfigError, match=both):
        permutation("masking.permutation.alpha=3", "masking.permutation.predictions=85")
    with pytest.raises(ConfigError, match="beta and predictions both"):
        permutation("masking.permutation.beta=2", "masking.permutation.predictions=85")
    # What is printed can be read again, and null leaves the number to the share.
    assert permutation("masking.permutation.alpha=3", "masking.permutation.predictions=null").predictions is None


def test_the_shipped_recipes_are_the_published_systems() -> None:
    names = ["albert", "bert", "electra", "elmo", "gpt", "roberta", "spanbert", "transformer", "xlnet"]
    assert shipped_recipes() == names
    transformer = load_recipe("transformer")
    assert (transformer.objectives, transformer.training.betas, transformer.training.warmup) == (
        {"mlm": 1.0},
        (0.9, 0.98),
        4000,
    )
    encoder = preset("transformer")
    assert (encoder.positions, encoder.norm_place, encoder.activation) == ("sinusoidal", "post", "relu")
    span = load_recipe("spanbert")
    assert (span.masking.law, span.masking.geometric_p, span.masking.max_length) == ("span", 0.2, 10)
    assert span.objectives == {"mlm": 1.0, "sbo": 1.0}
    bert = load_recipe("bert")
    assert (bert.masking.law, bert.masking.max_predictions, bert.masking.static) == ("subword", 77, 10)
    assert bert.objectives == {"mlm": 1.0, "nsp": 1.0}
    albert = load_recipe("albert")
    assert (albert.masking.law, albert.masking.max_length, albert.data.blocks) == ("ngram", 3, "sentence-order")
    electra = load_recipe("electra")
    assert electra.objectives == {"mlm": 1.0, "rtd": 50.0}
    assert (electra.masking.mask_share, electra.masking.keep_share) == (0.85, 0.15)
    assert load_recipe("roberta").masking.rounding == "chance"
    gpt = load_recipe("gpt")
    assert (gpt.objectives, gpt.data.blocks, gpt.data.length) == ({"clm": 1.0}, "streams", 512)
    elmo = load_recipe("elmo")
    assert (elmo.objectives, elmo.data.length, elmo.streams) == ({"bilm": 1.0}, 20, 384)


def test_files_and_overrides(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("system: bert\nmasking:\n  law: word\n")
    recipe = load_recipe(str(path), ["masking.ratio=0.3", "objectives.sbo=0.5", "data.length=64"])
    assert (recipe.masking.law, recipe.masking.ratio, recipe.data.length) == ("word", 0.3, 64)
    assert recipe.objectives == {"sbo": 0.5}


@pytest.mark.parametrize(
    ("name", "overrides", "message"),
    [
        ("spanbret", [], r"unknown recipe 'spanbret' \(did you mean 'spanbert'"),
        ("none.yaml", [], "no such file"),
        ("bert", ["objectves.mlm=1"], r"unknown key 'objectves' \(did you mean 'objectives'"),
        ("bert", ["objectives.mml=1"], r"unknown objective 'mml' \(did you mean 'mlm'"),
        ("bert", ["objectives.mlm=-1"], "a weight is 0 or more"),
        ("bert", ["masking.ratio=abc"], "'masking.ratio' is 'abc'; it must be a number"),
        ("bert", ["masking.law=spam"], "it must be one of subword, word, span, ngram, given"),
    ],
)
def test_wrong_recipes(name: str, overrides: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_recipe(name, overrides)


@pytest.mark.parametrize("name", shipped_recipes())
@pytest.mark.parametrize("size", ["tiny", "mini", "small", "base", "large"])
def test_every_recipe_is_there_at_every_size(name: str, size: str) -> None:
    recipe = load_recipe(name, [f"size={size}"])
    assert recipe.size == size
    published = ("base", "large", "small") if name == "electra" else ("base", "large")
    if name in ("gpt", "elmo") and size in published:  # these say passes over their corpus
        assert (recipe.training.epochs, recipe.training.steps) == ({"gpt": 100, "elmo": 10}[name], None)
    else:
        assert (recipe.training.steps or 0) >= (100_000 if size in published or size == "small" else 20_000)
    if name == "gpt":
        assert recipe.training.batch_size == (32 if size in ("tiny", "mini") else 64)
    else:
        assert (recipe.training.batch_size >= 128) == (size in published)
    if name == "elmo":
        assert recipe.data.longest == 20
        return
    assert recipe.data.longest == (512 if size in ("base", "large") else 128)
    shape = preset(recipe.system, size)
    assert shape.heads * 64 == shape.width


@pytest.mark.parametrize("size", ["tiny", "mini", "small", "base", "large"])
@pytest.mark.parametrize("name", ["spanbert", "bert", "roberta", "electra"])
def test_small_sizes_train_on_modernbert_and_the_published_architecture_is_one_key_away(name: str, size: str) -> None:
    recipe, published = load_recipe(name, [f"size={size}"]), load_recipe(name, [f"size={size}", "backbone=bert"])
    if size in ("base", "large") or (name, size) == ("electra", "small"):
        assert (recipe.backbone, recipe.word_embeddings, recipe.output_bias) == (None, "random", "zero")
        assert published == replace(recipe, backbone="bert")
        return
    assert (recipe.backbone, recipe.word_embeddings, recipe.output_bias) == ("modernbert", "cooccurrence", "unigram")
    assert (published.backbone, published.word_embeddings, published.output_bias) == ("bert", "random", "zero")
    assert "init_std" not in published.encoder
    assert (recipe.training.schedule, published.training.schedule) == ("warmup-stable-decay", "linear")
    assert recipe.training.lr == {"tiny": 2e-3, "mini": 1e-3, "small": 5e-4}[size]
    assert (recipe.data, recipe.masking, recipe.objectives) == (published.data, published.masking, published.objectives)
    assert load_recipe(name, [f"size={size}", "backbone=null"]) == replace(published, backbone=None)


def test_settings_of_a_size_and_a_backbone(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        "system: bert\ntraining: {lr: 0.1, clip: 0.1}\nsizes:\n  mini:\n    backbone: albert\n    training: {lr: 0.2}\n"
        "    backbones:\n      albert: {training: {lr: 0.3}}\n      gpt: {output_bias: unigram}\n",
        encoding="utf-8",
    )

    def settings(*overrides: str) -> tuple[str | None, float, float, str]:
        recipe = load_recipe(str(path), overrides)
        return recipe.backbone, recipe.training.lr, recipe.training.clip, recipe.output_bias

    assert settings() == (None, 0.1, 0.1, "zero")
    assert settings("size=mini") == ("albert", 0.3, 0.1, "zero")
    assert settings("size=mini", "training.lr=0.4") == ("albert", 0.4, 0.1, "zero")
    assert settings("size=mini", "backbone=gpt") == ("gpt", 0.2, 0.1, "unigram")
    assert settings("size=mini", "backbone=xlnet") == ("xlnet", 0.2, 0.1, "zero")
    assert settings("backbone=albert") == ("albert", 0.1, 0.1, "zero")


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ("[1]", r"mine\.yaml:2: 'sizes' must hold a section for each size"),
        ("{mini: 3}", r"mine\.yaml:2: 'sizes' must hold a section for each size"),
        ("{mini: {backbones: 3}}", r"mine\.yaml:2: 'backbones' must hold a section for each backbone"),
        ("{mini: {backbones: {bert: 3}}}", r"mine\.yaml:2: 'backbones' must hold a section for each backbone"),
        ("{mini: {backbone: bert, backbones: {bert: {training: {rl: 1}}}}}", r"unknown key 'training\.rl'"),
    ],
)
def test_wrong_sections_of_sizes_and_backbones(sizes: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(f"system: bert\nsizes: {sizes}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=message):
        load_recipe(str(path), ["size=mini"])


def test_overrides_are_judged_with_the_values_they_join() -> None:
    masking = load_recipe("electra", ["masking.mask_share=0.9", "masking.keep_share=0.1"]).masking
    assert (masking.mask_share, masking.random_share, masking.keep_share) == (0.9, 0.0, 0.1)
    with pytest.raises(ConfigError, match=r"mask_share, random_share and keep_share are 0\.9 \+ 0\.0 \+ 0\.15"):
        load_recipe("electra", ["masking.mask_share=0.9"])


def test_overrides_by_name_or_by_section() -> None:
    texts = load_recipe("bert", ["size=mini", "training.lr=0.5", "data.length=64", "data.phases=[]"])
    mapping = {"size": "mini", "training": {"lr": 0.5}, "data.length": 64, "data": {"phases": []}}
    assert load_recipe("bert", {"data": {"phases": []}, **mapping}) == texts
    assert load_recipe("bert", {"size": "mini", "training.lr": 0.5, "data": {"length": 64, "phases": []}}) == texts


RENAMED = {
    "body=albert": r"'body' is now 'backbone'; write backbone",
    "data.columns=2": r"'data\.columns' is now 'data\.streams'; write data\.streams",
    "data.blocks=columns": r"data\.blocks=columns is now data\.blocks=streams; write streams",
}


@pytest.mark.parametrize("override", RENAMED)
def test_old_names_are_refused_with_the_new_one(override: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=RENAMED[override]):
        load_recipe("xlnet", [override])
    key, _, value = override.partition("=")
    section, _, name = key.rpartition(".")
    line = f"{section}: {{{name}: {value}}}" if section else f"{name}: {value}"
    path = tmp_path / "mine.yaml"
    path.write_text(f"system: xlnet\n{line}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"mine\.yaml:2: " + RENAMED[override]):
        load_recipe(str(path))
    path.write_text(f"system: xlnet\nsizes:\n  base:\n    {line}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"mine\.yaml:4: " + RENAMED[override]):
        load_recipe(str(path))


ONE_LINE = {
    # RoBERTa on BERT
    "dynamic masking": ("bert", "masking.static=0", lambda recipe: recipe.masking.static == 0),
    "full sentences": ("bert", "data.blocks=full-sentences", lambda recipe: recipe.data.blocks == "full-sentences"),
    "no next sentence": ("bert", "objectives.nsp=0", lambda recipe: "nsp" not in recipe.active_objectives),
    "large batches": ("bert", "training.batch_size=8192", lambda recipe: recipe.training.batch_size == 8192),
    "longer": ("bert", "training.steps=2000000", lambda recipe: recipe.training.steps == 2_000_000),
    # ALBERT on BERT
    "factorised": ("bert", "encoder.embedding_width=128", lambda recipe: recipe.encoder["embedding_width"] == 128),
    "shared layers": ("bert", "encoder.layer_groups=1", lambda recipe: recipe.encoder["layer_groups"] == 1),
    "sentence order": ("bert", "objectives.sop=1", lambda recipe: "sop" in recipe.active_objectives),
    # SpanBERT on BERT
    "spans": ("bert", "masking.law=span", lambda recipe: recipe.masking.law == "span"),
    "boundaries": ("bert", "objectives.sbo=1", lambda recipe: "sbo" in recipe.active_objectives),
    "one segment": ("bert", "data.blocks=documents", lambda recipe: recipe.data.blocks == "documents"),
    "the original encoder": ("spanbert", "backbone=transformer", lambda recipe: recipe.backbone == "transformer"),
    "any backbone": ("spanbert", "backbone=albert", lambda recipe: recipe.backbone == "albert"),
}


@pytest.mark.parametrize("change", ONE_LINE)
def test_each_improvement_is_one_line(change: str) -> None:
    name, override, holds = ONE_LINE[change]
    assert not holds(load_recipe(name, ["encoder={embedding_width: 768, layer_groups: 12}"]))
    changed = load_recipe(name, [override])
    assert holds(changed)
    # Nothing else has changed.
    key = override.partition("=")[0].split(".")[0]
    before, after = to_mapping(load_recipe(name)), to_mapping(changed)
    assert [section for section in before if before[section] != after[section]] == [key]
