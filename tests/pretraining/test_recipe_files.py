"""Recipes as files: copied, checked to the last key with its line, and compared setting by setting."""

from pathlib import Path

import pytest

from spanlab.encoder import SIZES
from spanlab.errors import ConfigError, InputError
from spanlab.pretraining.recipe import load_recipe
from spanlab.pretraining.recipe_files import check_recipe_file, copy_recipe, find_differences, summarise_recipes
from spanlab.recipes import recipe_path, shipped_recipes


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A copy of SpanBERT's recipe."""
    path = tmp_path / "mine.yaml"
    copy_recipe("spanbert", path)
    return path


def change(path: Path, old: str, new: str) -> int:
    """Replace a text in a file; the line it was in."""
    text = path.read_text()
    assert text.count(old) == 1, old
    path.write_text(text.replace(old, new))
    return text[: text.index(old)].count("\n") + 1


def test_the_list_has_every_recipe_with_what_it_trains() -> None:
    summaries = {summary.name: summary for summary in summarise_recipes()}
    assert list(summaries) == shipped_recipes()
    assert summaries["spanbert"].objectives == ("mlm", "sbo")
    assert summaries["spanbert"].adapted == ("tiny", "mini", "small")
    assert summaries["electra"].objectives == ("mlm", "rtd")
    assert all(summary.sizes == tuple(SIZES) and summary.description for summary in summaries.values())


@pytest.mark.parametrize("name", shipped_recipes())
def test_shipped_recipes_have_no_problem_at_any_size(name: str) -> None:
    report = check_recipe_file(name)
    assert report.problems == ()
    assert [row.size for row in report.sizes] == list(SIZES)
    assert all(row.parameters > 0 and row.layers > 0 for row in report.sizes)


def test_a_copy_is_the_file_itself_and_never_replaces_one_unasked(mine: Path, tmp_path: Path) -> None:
    assert mine.read_bytes() == recipe_path("spanbert").read_bytes()
    mine.write_text("mine")
    with pytest.raises(InputError, match=r"mine.yaml: file exists; choose another name, or use --overwrite"):
        copy_recipe("bert", mine)
    assert mine.read_text() == "mine"
    copy_recipe("bert", mine, overwrite=True)
    assert mine.read_bytes() == recipe_path("bert").read_bytes()
    with pytest.raises(InputError, match=r"no shipped recipe 'spanbrt' \(did you mean 'spanbert'\?\)"):
        copy_recipe("spanbrt", tmp_path / "other.yaml")
    with pytest.raises(InputError, match=r"a recipe is a YAML file; write mine\.txt\.yaml"):
        copy_recipe("bert", tmp_path / "mine.txt")


def test_every_problem_of_a_file_is_found_at_its_line(mine: Path) -> None:
    ratio = change(mine, "  ratio: 0.15\n", "  ratio: 1.5\n")
    law = change(mine, "  law: span ", "  law: spam ")
    unknown = change(mine, "  weight_decay: 0.1 ", "  weight_deacy: 0.1 ")
    report = check_recipe_file(str(mine))
    assert [(error.line, error.cause) for error in report.problems] == [
        (law, "'masking.law' is 'spam' (did you mean 'span'?); it must be one of subword, word, span, ngram, given, "
         "permutation"),
        (ratio, "'masking.ratio' is 1.5; it must be above 0 and at most 0.9"),
        (unknown, "unknown key 'training.weight_deacy' (did you mean 'training.weight_decay'?)"),
    ]  # fmt: skip
    assert all(error.path == str(mine) for error in report.problems)
    assert report.sizes == ()


def test_a_problem_of_one_size_has_the_line_of_that_size(mine: Path) -> None:
    line = change(mine, "    training: {steps: 100000, batch_size: 64,", "    training: {steps: -1, batch_size: 64,")
    report = check_recipe_file(str(mine))
    assert [error.line for error in report.problems] == [line]
    assert [row.size for row in report.sizes] == ["tiny", "mini", "base", "large"]
    assert check_recipe_file(str(mine), ["size=mini"]).problems == ()
    with pytest.raises(ConfigError, match=f"mine.yaml:{line}: "):
        load_recipe(str(mine), ["size=small"])


def test_sizes_and_encoder_settings_that_do_not_exist(mine: Path) -> None:
    line = change(mine, "  tiny:\n", "  tinny:\n")
    with mine.open("a") as file:
        file.write("encoder:\n  hidden_size: 12\n")
    report = check_recipe_file(str(mine))
    assert (report.problems[0].line, report.problems[0].cause[:40]) == (
        line,
        "unknown size 'tinny' (did you mean 'tiny",
    )
    last = mine.read_text().count("\n")
    assert any(error.line == last and "did you mean 'width'" in error.cause for error in report.problems)


def test_what_does_not_go_together_is_said_at_the_line_it_names(mine: Path) -> None:
    line = change(mine, "  sbo: 1.0\n", "  sbo: 1.0\n  clm: 1.0\n") - 1
    (problem,) = check_recipe_file(str(mine), ["size=base"]).problems
    assert problem.line == line
    assert "'mlm' cannot be combined with clm" in problem.cause
    (problem,) = check_recipe_file("spanbert", ["objectives.nsp=1", "size=base"]).problems
    assert "objectives.nsp needs sentence pairs" in problem.cause
    (problem,) = check_recipe_file("gpt", ["backbone=bert", "size=base"]).problems
    assert "the clm objective predicts the next token" in problem.cause


def test_memory_counts_at_the_size_that_is_trained() -> None:
    assert check_recipe_file("spanbert", memory_gb=64).problems == ()
    (problem,) = check_recipe_file("spanbert", memory_gb=3).problems
    assert "training needs at least" in problem.cause
    assert "there are 3 GB" in problem.cause
    assert check_recipe_file("spanbert", ["size=tiny"], memory_gb=3).problems == ()


def test_differences_are_those_of_the_resolved_settings(mine: Path) -> None:
    assert find_differences(str(mine)) == ("spanbert", [])
    line = change(mine, "  ratio: 0.15\n", "  ratio: 0.2\n")
    change(mine, "  sbo: 1.0\n", "")
    change(mine, "    training: {steps: 100000, batch_size: 64, lr: 5e-4,", "    training: {steps: 5, lr: 5e-4,")
    base, found = find_differences(str(mine))
    assert base == "spanbert"
    by_key = {difference.key: difference for difference in found}
    assert set(by_key) == {"masking.ratio", "objectives.sbo", "training.steps"}
    ratio = by_key["masking.ratio"]
    assert (ratio.published, ratio.own, ratio.sizes, ratio.line) == (0.15, 0.2, tuple(SIZES), line)
    assert (by_key["objectives.sbo"].published, by_key["objectives.sbo"].own) == (1.0, None)
    steps = by_key["training.steps"]
    assert (steps.published, steps.own, steps.sizes) == (100000, 5, ("small",))
    assert [difference.key for difference in find_differences(str(mine), ["size=mini"])[1]] == [
        "masking.ratio",
        "objectives.sbo",
    ]


def test_a_system_of_ones_own_needs_the_other_recipe(mine: Path) -> None:
    change(mine, "system: spanbert\n", "system: mine\nbackbone: bert\n")
    with pytest.raises(InputError, match="there is no published recipe of the system 'mine'; use --against albert"):
        find_differences(str(mine), ["size=base"])
    found = find_differences(str(mine), ["size=base"], against="spanbert")[1]
    assert {difference.key: difference.own for difference in found} == {"system": "mine", "backbone": "bert"}
