"""Looking at masks: the figures are those of the examples, and the page holds what it draws."""

import json
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from spanlab.corpus import PreparedCorpus
from spanlab.errors import ConfigError
from spanlab.pretraining.examples import Examples
from spanlab.pretraining.recipe import load_recipe
from spanlab.recipes import shipped_recipes
from spanlab.report.masks import masks_page, report_masks
from tests.cli.run import run_spanlab

TEXT = """The ferry left at seven. Nobody waved, but a dog barked twice from the pier & ran off.

Rain fell on the mountains for three days <without a pause>. The river rose, and the miller moved his sacks upstairs.
Then the sun came back. Children sailed walnut shells along the gutters of Mill Street.
"""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("masks")
    for number in range(4):
        (folder / f"{number}.txt").write_text(TEXT.replace("seven", f"{number} o'clock") * 6)
    files = [str(path) for path in sorted(folder.glob("*.txt"))]
    trained = run_spanlab(
        "tokenizer", "train", *files, "--type", "wordpiece", "--vocab-size", "200", "--out", str(folder / "tok")
    )
    assert trained.returncode == 0, trained.stderr
    done = run_spanlab("prepare", *files, "--tokenizer", str(folder / "tok"), "--out", str(folder / "corpus"))
    assert done.returncode == 0, done.stderr
    return folder / "corpus"


class Tokens(HTMLParser):
    """The classes of the drawn tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.fates: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        classes = (dict(attrs).get("class") or "").split()
        if tag == "span" and classes[:1] == ["t"] and "title" in dict(attrs):
            self.fates.append(classes[1])


MASKED = [name for name in shipped_recipes() if name not in {"elmo", "gpt", "xlnet"}]


def test_a_recipe_without_masks_says_so(corpus: Path) -> None:
    examples = Examples(PreparedCorpus.open(corpus), load_recipe("gpt", ["data.streams=2"]))
    with pytest.raises(ConfigError, match="the gpt recipe masks nothing"):
        report_masks(examples)


@pytest.mark.parametrize("name", MASKED)
def test_figures_are_those_of_the_examples(name: str, corpus: Path) -> None:
    recipe = load_recipe(name, ["data.length=64"])
    examples = Examples(PreparedCorpus.open(corpus), recipe)
    report = report_masks(examples, blocks=2)
    batch = examples.batch(np.arange(report.samples))
    text = int(examples.token_batch(np.arange(report.samples)).text_lengths.sum())
    assert report.masked_share == pytest.approx(len(batch.positions) / text)
    assert sum(report.fates.values()) == pytest.approx(1.0)
    assert sum(report.merged.found) == pytest.approx(1.0)
    page = Tokens()
    page.feed(masks_page(report))
    drawn = [token.fate for block in report.blocks for token in block]
    assert page.fates == drawn
    in_first = batch.positions < batch.lengths[0]
    assert sum(token.fate in {"masked", "replaced", "kept"} for token in report.blocks[0]) == in_first.sum()


def test_markup_in_the_text_is_text_in_the_page(corpus: Path) -> None:
    report = report_masks(Examples(PreparedCorpus.open(corpus), load_recipe("spanbert")), blocks=4)
    page = masks_page(report)
    assert "&lt;" in page
    assert "&amp;" in page


def test_the_command(corpus: Path, tmp_path: Path) -> None:
    page = tmp_path / "masks.html"
    done = run_spanlab("inspect", "masks", "--data", str(corpus), "--recipe", "spanbert", "--html", str(page), "--json")
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert 0.1 < figures["masked_share"] < 0.16
    assert figures["drawn"]["law"][0] == pytest.approx(0.2241, abs=1e-4)
    assert page.read_text().startswith("<!doctype html>")
    drawn = run_spanlab("inspect", "masks", "--data", str(corpus), "masking.ratio=0.3", "data.length=32")
    assert drawn.returncode == 0, drawn.stderr
    assert "share of text masked" in drawn.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--recipe", "spanbret"), "did you mean 'spanbert'"),
        (("--recipe", "spanbert", "masking.ratio=2"), "'masking.ratio' is 2"),
        (("--recipe", "spanbert", "masking.law=given"), "no spans are given"),
    ],
)
def test_wrong_input(arguments: tuple[str, ...], message: str, corpus: Path) -> None:
    done = run_spanlab("inspect", "masks", "--data", str(corpus), *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
