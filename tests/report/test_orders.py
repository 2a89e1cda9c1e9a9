"""Looking at orders of prediction: the report says what the examples hold, and the pictures what the report says."""

import base64
import json
import re
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest

from spanlab.corpus import PreparedCorpus
from spanlab.pretraining.examples import Examples
from spanlab.pretraining.recipe import load_recipe
from spanlab.report.orders import mask_cells, orders_page, report_orders
from tests.cli.run import run_spanlab

SHORT = ["data.length=40", "data.reuse=20", "data.streams=4", "masking.permutation.predictions=7"]
TEXT = "The ferry left at seven & nobody waved. A dog barked twice from the pier, then it ran off <home>.\n\n"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("orders")
    text = folder / "text.txt"
    text.write_text("".join(TEXT.replace("seven", str(number)) for number in range(60)))
    trained = run_spanlab(
        *("tokenizer", "train", str(text), "--type", "unigram", "--system", "xlnet"),
        *("--vocab-size", "90", "--out", str(folder / "tok")),
    )
    assert trained.returncode == 0, trained.stderr
    done = run_spanlab("prepare", str(text), "--tokenizer", str(folder / "tok"), "--out", str(folder / "corpus"))
    assert done.returncode == 0, done.stderr
    return folder / "corpus"


def test_the_layout_of_a_block(corpus: Path) -> None:
    """Text of the stream, <sep>, and <cls> last in a segment of its own."""
    examples = Examples(PreparedCorpus.open(corpus), load_recipe("xlnet", [*SHORT, "data.random_second=null"]))
    vocabulary = examples.corpus.tokenizer.vocabulary
    batch = examples.batch(np.arange(8))
    rows, segments = batch.input_ids.reshape(8, 40), batch.pairs.segment_ids
    assert segments is not None
    assert [vocabulary[token] for token in rows[0, -2:]] == ["<sep>", "<cls>"]
    assert segments.reshape(8, 40)[0].tolist() == [0] * 39 + [2]
    assert np.array_equal(rows[4, :18], rows[0, 20:38])  # the next block begins where the reused half ends
    assert "<eod>" in {vocabulary[token] for token in rows.ravel()}
    last = examples.batch(np.arange(len(examples) - 4, len(examples))).input_ids.reshape(4, 40)
    assert len(set(map(tuple, last[:, :38].tolist()))) == 4


def test_two_segments_behind_the_reused_part(corpus: Path) -> None:
    """[reused | first <sep> second <sep> <cls>], segments 0, 1 and 2; the reused part is always of the stream."""
    recipe = load_recipe("xlnet", SHORT)
    examples = Examples(PreparedCorpus.open(corpus), recipe)
    plain = Examples(PreparedCorpus.open(corpus), load_recipe("xlnet", [*SHORT, "data.random_second=null"]))
    vocabulary = examples.corpus.tokenizer.vocabulary
    count = min(len(examples), len(plain), 120)
    batch = examples.batch(np.arange(count))
    assert batch.pairs is not None
    rows, segments = batch.input_ids.reshape(count, 40), batch.pairs.segment_ids.reshape(count, 40)
    stream = plain.batch(np.arange(count)).input_ids.reshape(count, 40)
    follows = 0
    for row, segment, own in zip(rows, segments, stream, strict=True):
        second = int((segment == 0).sum())
        assert segment.tolist() == [0] * second + [1] * (39 - second) + [2]
        assert [vocabulary[row[place]] for place in (second - 1, 38, 39)] == ["<sep>", "<sep>", "<cls>"]
        assert second - 1 > 20
        assert np.array_equal(row[: second - 1], own[: second - 1])
        follows += np.array_equal(row[second:38], own[second - 1 : 37])
    assert 0.3 * count < follows < 0.8 * count
    assert (batch.pairs.labels == 0).sum() <= follows
    again = examples.batch([5, 4]).input_ids.reshape(2, 40)
    assert np.array_equal(again, rows[[5, 4]])


def test_the_report_says_what_the_examples_hold(corpus: Path) -> None:
    examples = Examples(PreparedCorpus.open(corpus), load_recipe("xlnet", SHORT))
    report = report_orders(examples, blocks=4)
    batch = examples.batch(np.arange(4))
    assert report.predicted_share == pytest.approx(7 / 40)
    assert sum(report.runs) == pytest.approx(1.0)
    assert [block.backward for block in report.blocks] == [False, False, True, True]
    for number, block in enumerate(report.blocks):
        turned = [place for place, token in enumerate(block.tokens) if token.turn is not None]
        assert turned == [p - 40 * number for p in batch.positions.tolist() if p // 40 == number]
        assert sorted(token.turn for token in block.tokens if token.turn is not None) == list(range(1, 8))
        for place in turned:
            assert not block.tokens[place].sees[place]
            for other in turned:
                earlier = block.tokens[other].turn < block.tokens[place].turn  # type: ignore[operator]
                assert block.tokens[place].sees[other] == earlier


def test_the_page_draws_the_mask_pixel_by_pixel(corpus: Path) -> None:
    report = report_orders(Examples(PreparedCorpus.open(corpus), load_recipe("xlnet", SHORT)), blocks=2)
    page = orders_page(report)
    assert "&amp;" in page
    pictures = re.findall(r"base64,([A-Za-z0-9+/=]+)", page)
    assert len(pictures) == 2
    for picture, block in zip(pictures, report.blocks, strict=True):
        png = base64.b64decode(picture)
        assert struct.unpack(">II", png[16:24]) == (40, 40)
        start = png.index(b"IDAT") + 4
        lines = np.frombuffer(zlib.decompress(png[start:]), np.uint8).reshape(40, 41)
        assert np.array_equal(lines[:, 1:], mask_cells(block))


def test_the_command(corpus: Path, tmp_path: Path) -> None:
    page = tmp_path / "orders.html"
    command = ("inspect", "masks", "--data", str(corpus), "--recipe", "xlnet", *SHORT)
    done = run_spanlab(*command, "--html", str(page), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["predicted_share"] == pytest.approx(7 / 40)
    assert page.read_text().startswith("<!doctype html>")
    drawn = run_spanlab(*command, "masking.permutation.law=tail")
    assert drawn.returncode == 0, drawn.stderr
    assert drawn.stdout.count("◆") >= 14


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("data.streams=3", "3 streams cannot be read half forwards"),
        ("data.reuse=40", "a stride of 40 does not fit"),
        ("data.streams=4000", "no whole block"),
        ("data.blocks=documents", "set data.blocks=streams"),
        ("masking.permutation.longest=0", "longest' is 0"),
        ("masking.permutation.lw=tail", "did you mean 'masking.permutation.law'"),
    ],
)
def test_wrong_input(override: str, message: str, corpus: Path) -> None:
    done = run_spanlab("inspect", "masks", "--data", str(corpus), "--recipe", "xlnet", *SHORT, override)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
