"""Looking at masks: the figures are those of the examples, and the page holds what it draws."""

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spanlab.corpus import PreparedCorpus
from spanlab.corruption import Masking
from spanlab.corruption.units import Units, tokens_of, words_of
from spanlab.errors import ConfigError
from spanlab.pretraining.examples import Examples
from spanlab.pretraining.recipe import load_recipe
from spanlab.recipes import shipped_recipes
from spanlab.report.masks import Histogram, masks_page, report_masks
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


def made_by(first_R: Any, length_R: Any, units: Units, row: int, budget: int) -> set[int]:
    """The tokens that the draws of a block mask, up to a budget, cutting the last word."""
    masked: set[int] = set()
    start, count = int(units.firsts[row]), int(units.counts[row])
    for first, length in zip(first_R.tolist(), length_R.tolist(), strict=True):
        if int(units.starts[start + first]) in masked:
            continue
        for unit in range(start + first, start + min(first + length, count)):
            for token in range(int(units.starts[unit]), int(units.starts[unit] + units.lengths[unit])):
                if len(masked) < budget:
                    masked.add(token)
    return masked


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


@pytest.mark.parametrize("overrides", [[], ["masking.static=2"]])
@pytest.mark.parametrize("unit", ["word", "token-from-word"])
def test_lengths_are_the_draws_behind_the_masks(overrides: list[str], unit: str, corpus: Path) -> None:
    """The masks of every block, made again from the draws that are shown, one by one."""
    settings = ["data.length=64", "masking.cut_last_word=true", f"masking.unit={unit}", *overrides]
    examples = Examples(PreparedCorpus.open(corpus), load_recipe("spanbert", settings))
    masking, count = examples.masking, len(examples)
    assert isinstance(masking, Masking)
    tokens = examples.token_batch(np.arange(count))
    draws = masking.span_draws(tokens, seed=0, epoch=3, count=64)
    assert draws is not None
    batch = examples.batch(np.arange(count), 3)
    masked = [set((batch.positions[tokens.block_of[batch.positions] == row]).tolist()) for row in range(count)]
    units = words_of(tokens) if unit == "word" else tokens_of(tokens)
    assert len(draws[0]) == count
    for row in range(count):
        assert made_by(draws[0][row], draws[1][row], units, row, len(masked[row])) == masked[row]
    histogram = report_masks(examples, epoch=3).drawn
    assert histogram is not None
    shares = np.bincount(draws[1].ravel(), minlength=11)[1:] / draws[1].size
    assert histogram.found == pytest.approx(tuple(shares))


def test_markup_in_the_text_is_text_in_the_page(corpus: Path) -> None:
    report = report_masks(Examples(PreparedCorpus.open(corpus), load_recipe("spanbert")), blocks=4)
    page = masks_page(report)
    assert "&lt;" in page
    assert "&amp;" in page


def test_a_mixture_shows_the_lengths_of_its_samples_of_spans(corpus: Path) -> None:
    def drawn(*settings: str) -> Histogram | None:
        return report_masks(Examples(PreparedCorpus.open(corpus), load_recipe("spanbert", list(settings)))).drawn

    alone, mixed = drawn("data.length=32"), drawn("data.length=32", "masking.mixture={span: 1, word: 1}")
    assert alone is not None
    assert mixed is not None
    assert alone.expected == mixed.expected
    assert alone.found != mixed.found
    assert drawn("data.length=32", "masking.mixture={subword: 1, word: 1}") is None


def test_a_collapsed_span_is_one_mask_that_holds_all_its_tokens(corpus: Path) -> None:
    settings = ["data.length=64", "masking.collapse=true", "masking.ratio=0.3"]
    examples = Examples(PreparedCorpus.open(corpus), load_recipe("spanbert", settings))
    report = report_masks(examples, blocks=6)
    vocabulary = examples.corpus.tokenizer.vocabulary
    for row, block in enumerate(report.blocks):
        batch, tokens = examples.batch([row]), examples.token_batch([row])
        assert batch.offsets is not None
        assert [token.seen for token in block] == [vocabulary[seen] for seen in batch.input_ids]
        shown = "".join(token.text.replace(" ", "") for token in block)
        assert shown == "".join(vocabulary[token] for token in tokens.ids)
        assert all(token.begins_word for token in block if token.fate == "masked")
        masks = [token for token in block if token.seen == "[MASK]"]
        assert {token.fate for token in masks} <= {"masked"}
        assert all(token.begins_span and token.ends_span for token in masks)
    assert set(report.fates) == {"masked", "replaced", "kept"}
    assert 0.6 < report.fates["masked"] < 0.95
    assert report.fates["replaced"] > 0
    assert report.fates["kept"] > 0
    assert any(" " in token.text for block in report.blocks for token in block)


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
