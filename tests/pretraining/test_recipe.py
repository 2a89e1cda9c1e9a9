"""Shipped recipes say what was published; files and overrides are read strictly."""

from pathlib import Path

import pytest

from spanlab.errors import ConfigError
from spanlab.pretraining.recipe import load_recipe, shipped_recipes


def test_the_shipped_recipes_are_the_published_systems() -> None:
    assert shipped_recipes() == ["albert", "bert", "electra", "elmo", "gpt", "roberta", "spanbert", "xlnet"]
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
    assert (gpt.objectives, gpt.data.blocks, gpt.data.length) == ({"clm": 1.0}, "columns", 512)
    elmo = load_recipe("elmo")
    assert (elmo.objectives, elmo.data.length, elmo.columns) == ({"bilm": 1.0}, 20, 384)


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
