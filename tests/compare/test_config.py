"""Studies as they are written: files, command lines, grids, and what is refused with one line."""

import shlex
from pathlib import Path

import pytest

from spanlab.compare.budget import Budget
from spanlab.compare.config import load_study, resolve_recipes
from spanlab.compare.studies import describe_studies, shipped_studies, study_path
from spanlab.errors import InputError

READY = ("albert-sharing", "ar-vs-ae", "backbone", "masking-schemes", "roberta-steps", "sbo", "span-length")


def test_recipes_of_the_command_line() -> None:
    study = load_study(None, recipes=["bert", "spanbert"], settings=["size=tiny"], data=["corpus"], seeds="5,7")
    first, second = resolve_recipes(study)
    assert (first.name, first.recipe.system, first.recipe.size) == ("bert", "bert", "tiny")
    assert (second.name, second.data) == ("spanbert", ("corpus",))
    assert study.seed_list == (5, 7)


def test_a_grid_is_every_combination() -> None:
    grid = ["masking.geometric_p=0.1,0.4", "masking.ratio=0.15,0.3"]
    study = load_study(None, recipes=["spanbert"], grid=grid, data=["corpus"])
    resolved = resolve_recipes(study)
    assert [recipe.name for recipe in resolved] == [
        "spanbert geometric_p=0.1 ratio=0.15",
        "spanbert geometric_p=0.1 ratio=0.3",
        "spanbert geometric_p=0.4 ratio=0.15",
        "spanbert geometric_p=0.4 ratio=0.3",
    ]
    assert [recipe.recipe.masking.geometric_p for recipe in resolved] == [0.1, 0.1, 0.4, 0.4]


def test_settings_and_corpora_of_one_variant(tmp_path: Path) -> None:
    study = load_study(
        "masking-schemes",
        settings=["size=mini", "spans.masking.geometric_p=0.5", "entities.data.spans=entities.jsonl"],
        data=["corpus", "word=other"],
    )
    recipes = {recipe.name: recipe for recipe in resolve_recipes(study)}
    assert list(recipes) == ["subword", "word", "spans", "entities"]  # no file for noun phrases
    assert {recipe.recipe.size for recipe in recipes.values()} == {"mini"}
    assert [recipe.recipe.masking.geometric_p for recipe in recipes.values()] == [0.2, 0.2, 0.5, 0.2]
    assert recipes["entities"].recipe.data.spans == "entities.jsonl"
    assert [recipe.data for recipe in recipes.values()] == [("corpus",), ("other",), ("corpus",), ("corpus",)]


def test_tasks_of_the_command_line() -> None:
    study = load_study(None, recipes=["bert"], tasks=["qa-squad=a.json:b.json:c.json", "ner=a.conll:b.conll"])
    squad, entities = study.tasks.values()
    assert (squad.task, squad.train, squad.dev, squad.test) == ("qa", "a.json", "b.json", "c.json")
    assert (entities.task, entities.train, entities.dev, entities.test) == ("ner", "a.conll", None, "b.conll")


@pytest.mark.parametrize(
    ("text", "amount", "unit"),
    [
        ("10m", 600.0, "seconds"),
        ("1.5h", 5400.0, "seconds"),
        ("20M tokens", 2e7, "tokens"),
        ("500 tokens", 500.0, "tokens"),
        ("300ktokens", 3e5, "tokens"),
        ("3e15 FLOPs", 3e15, "FLOPs"),
        ("2 Pflops", 2e15, "FLOPs"),
    ],
)
def test_budgets(text: str, amount: float, unit: str) -> None:
    budget = Budget.parse(text)
    assert (budget.amount, budget.unit) == (pytest.approx(amount), unit)


@pytest.mark.parametrize("text", ["10M", "ten minutes", "5 tokenz", "", "-3m"])
def test_what_is_no_budget(text: str) -> None:
    with pytest.raises(InputError, match=r"is not a budget; write 10m, 1\.5h, 20M tokens or 3e15 FLOPs"):
        Budget.parse(text)


def test_ready_studies_open_with_their_command() -> None:
    assert tuple(shipped_studies()) == READY
    for name, description in describe_studies().items():
        lines = study_path(name).read_text(encoding="utf-8").splitlines()
        assert lines[0] == f"# {description}."
        words = shlex.split(lines[1].removeprefix("#"))
        assert words[:4] == ["spanlab", "compare", "--study", name]
        assert {"--data", "--task", "--out"} <= set(words)


@pytest.mark.parametrize("name", READY)
def test_ready_studies_resolve(name: str) -> None:
    extra = ["ELMo=words"] if name == "ar-vs-ae" else []
    recipes = resolve_recipes(load_study(name, data=["corpus", *extra]))
    assert len(recipes) >= 3
    assert len({(recipe.recipe, recipe.data) and str(recipe.recipe) for recipe in recipes}) == len(recipes)
    assert {recipe.recipe.size for recipe in recipes} == {"tiny"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"name": "maskings-schemes"},
            r"unknown study 'maskings-schemes' \(did you mean 'masking-schemes'\?\); shipped",
        ),
        ({"name": "sbo", "recipes": ["bert"]}, "the study 'sbo' has its own recipes, and bert is given, too"),
        ({"recipes": ["bert"]}, "there is nothing to compare; name two recipes, --study NAME, or --grid"),
        ({"recipes": ["bert", "brt"]}, r"unknown recipe 'brt' \(did you mean 'bert'\?\)"),
        ({"recipes": ["bert", "bert"]}, "two recipes have the same name"),
        ({"grid": ["size=tiny,mini"]}, "no recipe given"),
        ({"recipes": ["bert"], "grid": ["masking.ratio=0.1,0.1"]}, "two recipes of the study are called"),
        ({"recipes": ["bert"], "grid": [f"seed={','.join(map(str, range(1001)))}"]}, "the grid has 1,001 combinations"),
        ({"recipes": ["bert"], "grid": ["masking.ratio"]}, "'masking.ratio' is not a grid; write KEY=V1,V2"),
        ({"recipes": ["bert"], "grid": ["masking.ration=0.1,0.2"]}, "unknown key 'masking.ration'"),
        ({"recipes": ["bert"], "tasks": ["ner"]}, "'ner' is not a task; write NAME=TRAIN:DEV"),
        ({"recipes": ["bert"], "tasks": ["nr=a:b"]}, r"unknown task 'nr' \(did you mean 'ner'\?\)"),
        ({"recipes": ["bert"], "seeds": "three"}, "'three' is not a number of seeds"),
        (
            {"recipes": ["bert", "gpt"], "budget": "1m", "settings": ["training.steps=5"]},
            "the budget sets the number of steps, and so does training.steps",
        ),
    ],
)
def test_refusals(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        resolve_recipes(load_study(options.pop("name", None), **{"data": ["corpus"], **options}))  # type: ignore[arg-type]


@pytest.mark.parametrize("seeds", ["1", "7,7"])
def test_one_seed_is_an_error_that_says_why(seeds: str) -> None:
    with pytest.raises(InputError, match=r"one seed is not enough: the difference .* one run of each cannot tell; use"):
        _ = load_study(None, recipes=["bert"], seeds=seeds).seed_list


def test_a_study_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("recipe: bert\nvariants:\n  a: {}\n  b: {setings: {size: tiny}}\n")
    with pytest.raises(InputError, match=r"mine.yaml:4: unknown key 'variants.b.setings' \(did you mean"):
        load_study(str(path))
