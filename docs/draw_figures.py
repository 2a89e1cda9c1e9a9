"""Draw the figures of the documentation: `python docs/draw_figures.py [FOLDER]`.

The attention is that of the packaged MiniLM (the `minilm` extra); the other figures need no model.

Shapes: T tokens.
"""

import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from spanlab.corpus import PrepareConfig, PreparedCorpus, plan_preparation, run_preparation
from spanlab.encoder import EncoderConfig, build_encoder, preset
from spanlab.encoder.flops import count_cost
from spanlab.pretraining.examples import Examples
from spanlab.pretraining.recipe import load_recipe
from spanlab.report.attention import draw_head, look_at_attention
from spanlab.report.masks import draw_objectives, report_masks
from spanlab.report.svg import BLUE, FAINT, GREEN, PALE, RED, YELLOW, box, picture, width_of, words
from spanlab.text.train import TokenizerConfig, train_tokenizer

SENTENCE = "The harbour master wrote the names of seventeen old ships in a notebook before breakfast ."

_COLOURS = (BLUE, GREEN, RED, YELLOW, "#7a4fa3", "#3a8f8f")
_WIDTH, _LAYER, _LAYERS_TOP, _TABLE = 250.0, 22.0, 64.0, 44.0
_CELL, _STREAMS_TOP = 26.0, 66.0
_MEMORY_LEFT = 80.0


def draw_sharing(configs: Mapping[str, EncoderConfig]) -> str:
    """Which layers share their weights: encoders side by side, one colour a set of weights, with their parameters."""
    highest = max(config.layers for config in configs.values())
    parts = [
        part for index, (name, config) in enumerate(configs.items()) for part in _tower(index, name, config, highest)
    ]
    height = _LAYERS_TOP + highest * _LAYER + _TABLE + 20
    return picture(_WIDTH * len(configs), height, parts, title="Layers and their weights")


def _tower(index: int, name: str, config: EncoderConfig, highest: int) -> list[str]:
    with torch.device("meta"):
        cost = count_cost(build_encoder(config))
    left, floor = _WIDTH * index + 24, _LAYERS_TOP + highest * _LAYER
    parts = [
        words(left, 24, name, size=15),
        words(left, 44, f"{cost.total / 1e6:,.1f} M parameters", size=12, colour=FAINT),
        *_layers(left, floor, config),
        box(left, floor + 4, _WIDTH - 48, _TABLE - 8, fill=PALE),
    ]
    projected = "" if config.table_width == config.width else f" → {config.width}"
    embedding = f"{config.vocab_size:,} × {config.table_width}{projected}"
    return [*parts, words(left + (_WIDTH - 48) / 2, floor + 27, embedding, size=12, anchor="middle")]


def _layers(left: float, floor: float, config: EncoderConfig) -> list[str]:
    parts = []
    for layer in range(config.layers):
        group = layer * config.groups // config.layers
        y = floor - (layer + 1) * _LAYER
        parts.append(box(left, y, _WIDTH - 48, _LAYER - 3, fill=_COLOURS[group % len(_COLOURS)]))
        parts.append(words(left + 10, y + 14, f"layer {layer + 1}: weights {group + 1}", size=11, colour="#ffffff"))
    return parts


def visible_pairs(turns: Sequence[int | None], *, itself: bool) -> NDArray[np.bool_]:
    """(T, T) whether the token of a row sees the token of a column in XLNet's query stream, or, with `itself`, content.

    A turn says when a token is predicted, from 1; None is a token that is given, which all others see.
    """
    rank = np.array([0 if turn is None else turn for turn in turns])
    seen: NDArray[np.bool_] = rank[None, :] < rank[:, None]
    seen |= rank[None, :] == 0
    return seen | np.eye(len(rank), dtype=bool) if itself else seen


def draw_streams(tokens: Sequence[str], turns: Sequence[int | None]) -> str:
    """Who sees whom in XLNet's two streams over one order of prediction, side by side."""
    side = max(width_of(token, size=12) for token in tokens) + 34
    square = _CELL * len(tokens)
    parts = [
        *_square(16, side, "content stream: what a position holds", tokens, turns, itself=True),
        *_square(46 + side + square, side, "query stream: what predicts it", tokens, turns, itself=False),
    ]
    return picture(2 * (side + square) + 70, _STREAMS_TOP + side + square, parts, title="The two streams of XLNet")


def _square(
    left: float, side: float, title: str, tokens: Sequence[str], turns: Sequence[int | None], *, itself: bool
) -> list[str]:
    seen = visible_pairs(turns, itself=itself)
    top = _STREAMS_TOP + side - 20
    parts = [words(left, 24, title, size=14)]
    for row, (token, turn) in enumerate(zip(tokens, turns, strict=True)):
        predicted = itself or turn is not None
        middle = (row + 0.5) * _CELL
        name = token if turn is None else f"{token} {'①②③④⑤⑥⑦⑧⑨⑩⑪⑫'[turn - 1] if turn <= 12 else f'({turn})'}"
        parts.append(words(left + side - 6, top + middle + 4, name, size=12, anchor="end"))
        parts.append(words(left + side + middle + 4, top - 6, name, size=12, turned=True))
        for column in range(len(tokens)):
            visible = YELLOW if row == column else BLUE
            fill = visible if predicted and seen[row, column] else PALE
            parts.append(box(left + side + column * _CELL, top + row * _CELL, _CELL - 2, _CELL - 2, fill=fill))
        if not predicted:
            parts.append(words(left + side + 8, top + middle + 4, "given: nothing to predict", size=11, colour=FAINT))
    return parts


def objectives() -> str:
    """SpanBERT's law on one sentence, masked as a run with seed 33 would mask it."""
    tokenizer = train_tokenizer([SENTENCE] * 4, TokenizerConfig(kind="wordpiece", vocab_size=400))
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "text.txt"
        text.write_text(SENTENCE, encoding="utf-8")
        plan = plan_preparation([str(text)], PrepareConfig(documents="file"))
        run_preparation(plan, tokenizer=tokenizer, out=Path(folder) / "corpus", workers=1)
        recipe = load_recipe("spanbert", ["seed=33", "data.length=64", "masking.ratio=0.3"])
        examples = Examples(PreparedCorpus.open(Path(folder) / "corpus"), recipe)
        return draw_objectives(report_masks(examples, blocks=1).blocks[0])


def attention() -> str:
    """A head of MiniLM that joins a pronoun with its noun."""
    report = look_at_attention("minilm", "The miller sold his flour because it was fresh .")
    return draw_head(report, 4, 2)


def sharing() -> str:
    """BERT and ALBERT in base size."""
    return draw_sharing({"BERT base": preset("bert", "base"), "ALBERT base": preset("albert", "base")})


def streams() -> str:
    """A sentence of which four tokens are predicted in the order ships, old, names, notebook."""
    tokens = ("The", "names", "of", "old", "ships", "in", "a", "notebook")
    return draw_streams(tokens, (None, 3, None, 2, 1, None, None, 4))


def draw_memory(length: int, reused: int, remembered: int, steps: int) -> str:
    """The blocks of one stream and the memory each of them reads: a row for each step, the text from left to right."""
    scale = 640 / (reused * (steps - 1) + length)
    parts = [words(_MEMORY_LEFT, 24, "the text of one stream, from left to right", size=13, colour=FAINT)]
    for step in range(steps):
        top, begin = 44 + 66 * step, step * reused
        kept = max(0, begin - remembered)
        left, middle, right = (_MEMORY_LEFT + scale * at for at in (begin, begin + reused, begin + length))
        parts.append(words(16, top + 22, f"step {step + 1}", size=13))
        if step:
            memory = _MEMORY_LEFT + scale * kept
            parts.append(box(memory, top, left - memory - 2, 34, fill=PALE, line=FAINT))
            parts.append(words((memory + left) / 2, top + 22, f"memory: {begin - kept}", size=12, anchor="middle"))
        parts.append(box(left, top, middle - left - 2, 34, fill=BLUE))
        parts.append(
            words((left + middle) / 2, top + 22, f"{reused}: kept", size=12, colour="#ffffff", anchor="middle")
        )
        parts.append(box(middle, top, right - middle - 2, 34, fill=GREEN))
        parts.append(
            words((middle + right) / 2, top + 22, f"{length - reused}", size=12, colour="#ffffff", anchor="middle")
        )
    caption = "blue goes into the memory, and sees no green; green sees blue; no gradient goes into the memory"
    parts.append(words(_MEMORY_LEFT, 44 + 66 * steps + 6, caption, size=12, colour=FAINT))
    return picture(_MEMORY_LEFT + 640 + 20, 44 + 66 * steps + 26, parts, title="The memory of Transformer-XL in XLNet")


def memory() -> str:
    """Three steps with the lengths of the published recipe."""
    data = load_recipe("xlnet").data
    assert data.reuse is not None
    assert data.memory is not None
    return draw_memory(data.length, data.reuse, data.memory, steps=3)


FIGURES = {"objectives": objectives, "attention": attention, "sharing": sharing, "streams": streams, "memory": memory}


def main(folder: Path) -> None:
    """Write them all."""
    for name, draw in FIGURES.items():
        (folder / f"{name}.svg").write_text(draw(), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "images")
