"""Who sees whom: what is drawn is what a model computes with, whatever its objective."""

import json
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

from spanlab.corpus import PreparedCorpus
from spanlab.encoder import CausalLMHead, TransformerEncoder, preset
from spanlab.pretraining.examples import Examples
from spanlab.pretraining.recipe import load_recipe
from spanlab.report.orders import mask_cells, report_orders
from spanlab.report.visibility import Cell, block_visibility, report_visibility, visibility_svg
from spanlab.text.tokenizer import Kind
from tests.cli.run import run_here
from tests.pretraining.making import make_tokenizer, prepare, write_text

KINDS: dict[str, Kind] = {"bert": "wordpiece", "gpt": "bpe", "elmo": "word", "xlnet": "unigram"}
SHORT = {
    "bert": ("data.length=20", "data.phases=[]"),
    "gpt": ("data.length=20",),
    "elmo": ("data.length=20", "training.batch_size=2"),
    "xlnet": ("data.length=20", "data.reuse=10", "training.batch_size=2", "masking.permutation.predictions=5"),
}


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("sight")
    text = write_text(folder / "text.txt")
    return {name: prepare(text, make_tokenizer(text, kind, 300), folder / name) for name, kind in KINDS.items()}


def examples_of(name: str, corpora: dict[str, Path], *overrides: str) -> Examples:
    recipe = load_recipe(name, ["size=tiny", *SHORT[name], *overrides])
    return Examples(PreparedCorpus.open(corpora[name]), recipe)


def test_gpt_is_drawn_as_the_model_reads(corpora: dict[str, Path]) -> None:
    """A token is coloured as seen where the prediction of another has a gradient through it, and nowhere else."""
    examples = examples_of("gpt", corpora)
    sight, batch = block_visibility(examples, 3), examples.batch([3])
    encoder = TransformerEncoder(preset("gpt", "tiny", vocab_size=300).without_dropout())
    head = CausalLMHead(encoder.config)
    read = encoder.word_table[torch.from_numpy(batch.input_ids)][None].detach().requires_grad_()
    losses = torch.nn.functional.cross_entropy(
        head(encoder(inputs_embeds=read).hidden[0], encoder.word_table),
        torch.from_numpy(batch.targets),
        reduction="none",
    )
    for place, loss in enumerate(losses, start=1):
        (gradient,) = torch.autograd.grad(loss, read, retain_graph=True)
        through = gradient[0].abs().sum(dim=1) > 0
        assert (sight.cells[place, :-1] == Cell.SEEN).tolist() == through.tolist()
        assert sight.cells[place, place] == Cell.ITSELF
    assert sight.predicted.sum() == len(batch.targets)


def test_elmo_sees_one_side_with_each_reader(corpora: dict[str, Path]) -> None:
    sight = block_visibility(examples_of("elmo", corpora), 1)
    rows, columns = np.indices(sight.cells.shape)
    assert ((sight.cells == Cell.SEEN) == (columns < rows)).all()
    assert ((sight.cells == Cell.SEEN_BACKWARD) == (columns > rows)).all()
    assert sight.predicted.all()
    assert sight.seen_share == pytest.approx((1 - 1 / len(rows)) / 2)


def test_orders_are_those_of_the_order_report(corpora: dict[str, Path]) -> None:
    examples = examples_of("xlnet", corpora)
    for sight, block in zip(
        report_visibility(examples, blocks=8).blocks, report_orders(examples, blocks=8).blocks, strict=True
    ):
        expected = mask_cells(block)
        for cell, number in ((Cell.HIDDEN, 0), (Cell.SEEN_BY_OTHERS, 1), (Cell.SEEN, 2), (Cell.ITSELF, 3)):
            assert ((sight.cells == cell) == (expected == number)).all()


def test_masks_hide_a_token_from_all(corpora: dict[str, Path]) -> None:
    examples = examples_of("bert", corpora)
    for number in range(20):
        sight, batch = block_visibility(examples, number), examples.batch([number])
        assert np.flatnonzero(sight.predicted).tolist() == batch.positions.tolist()
        changed, itself = batch.input_ids != batch.original_ids, np.eye(len(batch.input_ids), dtype=bool)
        assert ((sight.cells == Cell.REPLACED) == (changed[None] & ~(itself & sight.predicted[:, None]))).all()
        assert not (sight.cells == Cell.HIDDEN).any()


@pytest.mark.parametrize("name", KINDS)
def test_the_picture_holds_every_pair_and_every_token(name: str, corpora: dict[str, Path]) -> None:
    report = report_visibility(examples_of(name, corpora))
    picture = ElementTree.fromstring(visibility_svg(report))
    space = "{http://www.w3.org/2000/svg}"
    size, kinds = len(report.blocks[0].tokens), len(np.unique(report.blocks[0].cells))
    assert len(list(picture.iter(f"{space}rect"))) == 1 + size**2 + kinds
    texts = [element.text for element in picture.iter(f"{space}text")]
    assert texts[1 : 1 + 2 * size : 2] == texts[2 : 2 + 2 * size : 2] == list(report.blocks[0].tokens)
    assert 0 < report.predicted_share <= 1
    assert 0 < report.seen_share < 1


@pytest.mark.parametrize("name", ["gpt", "elmo", "xlnet", "bert"])
def test_the_command_draws_any_recipe(name: str, corpora: dict[str, Path], tmp_path: Path) -> None:
    given = ["inspect", "masks", "--data", str(corpora[name]), "--recipe", name, "size=tiny", *SHORT[name]]
    drawn = run_here(*given, "--svg", str(tmp_path / "sight.svg"), "--html", str(tmp_path / "page.html"))
    assert drawn.returncode == 0, drawn.stderr
    assert (tmp_path / "sight.svg").read_text().startswith("<svg")
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")
    if name in ("gpt", "elmo"):
        assert "who sees whom" in drawn.stdout
        found = json.loads(run_here(*given, "--json").stdout)
        assert found["predicted_share"] == pytest.approx(1 if name == "elmo" else 20 / 21)
        assert 0.4 < found["seen_share"] <= 0.5
