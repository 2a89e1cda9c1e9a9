"""Pictures say what the numbers say, and those in the documentation are the ones the code draws."""

import re
import runpy
from itertools import permutations
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

from spanlab.encoder import Encoder, TransformerEncoder, preset
from spanlab.errors import InputError
from spanlab.report.attention import attention_of, draw_head, look_at_attention
from spanlab.report.masks import ShownToken, draw_objectives, longest_span
from spanlab.text import Tokenizer

DOCS = Path(__file__).resolve().parents[2] / "docs"
SVG = "{http://www.w3.org/2000/svg}"
FIGURES = runpy.run_path(str(DOCS / "draw_figures.py"))
draw_sharing, draw_streams, visible_pairs = (
    FIGURES[name] for name in ("draw_sharing", "draw_streams", "visible_pairs")
)


def _texts(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def _token(text: str, fate: str = "text", *, first: bool = False, last: bool = False, edge: bool = False) -> ShownToken:
    seen = "[MASK]" if fate == "masked" else text
    return ShownToken(text, seen, fate, True, first, last, edge)  # type: ignore[arg-type]


def test_objectives_name_every_target_twice_in_the_longest_span() -> None:
    tokens = [
        _token("[CLS]", "special"),
        _token("a<b", "masked", first=True, last=True),
        _token("old", edge=True),
        _token("red", "masked", first=True),
        _token("ship", "masked", last=True),
        _token("sank", edge=True),
    ]
    texts = _texts(draw_objectives(tokens))
    assert longest_span(tokens) == (3, 4)
    assert [texts.count(word) for word in ("a<b", "red", "ship", "old", "p1", "p2", "p3")] == [1, 2, 2, 1, 1, 1, 0]
    assert texts.count("[MASK]") == 3


def test_a_block_without_spans_has_no_boundary_objective() -> None:
    assert longest_span([_token("a"), _token("b")]) is None
    assert not any(text.startswith("SBO") for text in _texts(draw_objectives([_token("a"), _token("b")])))


@pytest.mark.parametrize("given_tokens", range(5))
@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_streams_follow_the_order(order: tuple[int, ...], given_tokens: int) -> None:
    turns = [None if place < given_tokens else place - given_tokens + 1 for place in order]
    query, content = visible_pairs(turns, itself=False), visible_pairs(turns, itself=True)
    for row, turn in enumerate(turns):
        for column, other in enumerate(turns):
            before = other is None or (turn is not None and other < turn)
            assert query[row, column] == before
            assert content[row, column] == (before or row == column)


def test_streams_draw_one_square_a_pair_and_stream() -> None:
    root = ElementTree.fromstring(draw_streams(["a", "b", "c"], [None, 2, 1]))
    fills = [element.get("fill") for element in root.iter(f"{SVG}rect")][1:]
    assert len(fills) == 2 * 9
    # Content: every token itself, and what comes before it. Query: nothing for the given token, nothing of itself.
    assert [fill != "#eef1f5" for fill in fills] == [
        *(True, False, False, True, True, True, True, False, True),
        *(False, False, False, True, False, True, True, False, False),
    ]


def test_sharing_counts_the_parameters_of_the_encoder() -> None:
    config = preset("albert", "tiny", vocab_size=1000)
    texts = _texts(draw_sharing({"small": config}))
    count = sum(parameter.numel() for parameter in TransformerEncoder(config).parameters())
    assert f"{count / 1e6:,.1f} M parameters" in texts
    assert [text for text in texts if text.startswith("layer")] == ["layer 1: weights 1", "layer 2: weights 1"]


def test_attention_is_that_of_the_encoder(tiny_model: Path) -> None:
    report = look_at_attention(tiny_model, "The comet returns.")
    tokenizer, encoder = Tokenizer.load(tiny_model), Encoder.from_pretrained(tiny_model).eval()
    ids = [tokenizer.cls_id, *tokenizer.encode("The comet returns.").ids.tolist(), tokenizer.sep_id]
    with torch.inference_mode():
        attentions = encoder(torch.tensor([ids]), output_attentions=True).attentions
    assert attentions is not None
    np.testing.assert_array_equal(report.head(2, 3), attentions[1][0, 2].numpy())
    np.testing.assert_allclose(report.weights_LHTT.sum(axis=-1), 1.0, rtol=1e-5)
    assert len(report.tokens) == len(ids)
    told = re.findall(r"<title>([\d.]+)</title></rect>", draw_head(report, 2, 3))
    assert told == [f"{weight:.2f}" for weight in report.head(2, 3).ravel()]
    assert [report.tokens[index + 1] for index, (start, _) in enumerate(report.spans[1:-1]) if start == 0] == ["the"]
    assert report.spans[0] == report.spans[-1] == (0, 0)


def test_attention_leaves_the_encoder_as_it_was(tiny_model: Path) -> None:
    encoder = Encoder.from_pretrained(tiny_model).train()
    attention_of(encoder, Tokenizer.load(tiny_model), "The comet returns.")
    assert encoder.training


def test_a_head_or_a_text_beyond_the_model_is_refused(tiny_model: Path) -> None:
    with pytest.raises(InputError, match=r"2 layers of 4 heads"):
        look_at_attention(tiny_model, "The comet returns.").head(3, 1)
    with pytest.raises(InputError, match="128"):
        look_at_attention(tiny_model, "The comet returns. " * 60)


def test_figures_of_the_documentation_are_what_the_code_draws(minilm: Path) -> None:
    drawn = FIGURES["FIGURES"]
    for name in ("objectives", "sharing", "streams"):
        assert (DOCS / "images" / f"{name}.svg").read_text(encoding="utf-8") == drawn[name](), name
    # The last digits of a weight are the machine's.
    assert _texts((DOCS / "images" / "attention.svg").read_text(encoding="utf-8")) == _texts(drawn["attention"]())


def test_the_memory_of_a_step_is_what_earlier_blocks_kept() -> None:
    svg = FIGURES["draw_memory"](512, 256, 384, 4)
    shown = [text for text in _texts(svg) if text.startswith("memory: ")]
    assert shown == ["memory: 256", "memory: 384", "memory: 384"]
    assert FIGURES["memory"]() == (DOCS / "images" / "memory.svg").read_text()
