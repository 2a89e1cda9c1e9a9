"""The orders of prediction of a recipe (XLNet): when each token is predicted, and which tokens it sees.

What enters are the examples of a corpus under a recipe with `masking.law: permutation`; what leaves is an `OrderReport`
of plain values, which the command line draws in the terminal and `orders_page` as a self-contained HTML page. An
attention mask has a row for every token and a column for every token it may see.
"""

import struct
import zlib
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from spanlab.arrays import Flags
from spanlab.pretraining.examples import Examples

Colour = tuple[int, int, int]


def palette_png(cells: NDArray[np.integer], palette: Sequence[Colour]) -> bytes:
    """A PNG of one pixel for each cell (rows, columns); cells are indices into the palette."""
    rows, columns = cells.shape
    # Every row starts with the number of its PNG filter, 0 for none.
    lines = np.zeros((rows, columns + 1), np.uint8)
    lines[:, 1:] = cells
    header = struct.pack(">IIBBBBB", columns, rows, 8, 3, 0, 0, 0)
    colours = bytes(value for colour in palette for value in colour)
    parts = ((b"IHDR", header), (b"PLTE", colours), (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, data) for name, data in parts)


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


_SAMPLE = 128
"""Maximum number of blocks in the statistics."""
_LONGEST_RUN = 12


@dataclass(frozen=True)
class OrderedToken:
    """One token of a block."""

    text: str
    begins_word: bool
    special: bool
    turn: int | None
    """Its rank among the predicted tokens of the block, from 1; None if it is not predicted."""
    sees: tuple[bool, ...]
    """For every token of the block, whether this one sees it."""


@dataclass(frozen=True)
class OrderedBlock:
    """One block with its order."""

    tokens: tuple[OrderedToken, ...]
    step: int
    stream: int
    backward: bool


@dataclass(frozen=True)
class OrderReport:
    """Blocks and statistics."""

    title: str
    blocks: tuple[OrderedBlock, ...]
    samples: int
    predicted_share: float
    """Predicted tokens over all tokens, special ones included."""
    seen_share: float
    """The share of its block that a predicted token sees, on average."""
    runs: tuple[float, ...]
    """Shares of runs of 1, 2, … adjacent predicted tokens; the last includes all longer ones."""


def report_orders(examples: Examples, *, blocks: int = 2, epoch: int = 0) -> OrderReport:
    """Sample blocks and statistics over the first samples of the corpus."""
    count = min(len(examples), max(blocks, _SAMPLE))
    ordered = [_order(examples, index, epoch) for index in range(count)]
    predicted = [[token.turn is not None for token in block.tokens] for block in ordered]
    runs = np.array([len(list(run)) for row in predicted for is_run, run in groupby(row) if is_run])
    counts = np.bincount(np.minimum(runs, _LONGEST_RUN), minlength=_LONGEST_RUN + 1)[1:]
    seen = [np.mean(token.sees) for block in ordered for token in block.tokens if token.turn is not None]
    law = examples.recipe.masking.permutation.law
    return OrderReport(
        title=f"{examples.recipe.system}, orders by the law {law}",
        blocks=tuple(ordered[:blocks]),
        samples=count,
        predicted_share=float(np.mean([np.mean(row) for row in predicted])),
        seen_share=float(np.mean(seen)) if seen else 0.0,
        runs=tuple((counts / max(1, counts.sum())).tolist()),
    )


def _order(examples: Examples, index: int, epoch: int) -> OrderedBlock:
    tokens, batch = examples.token_batch([index]), examples.batch([index], epoch)
    assert batch.order is not None
    rank = batch.order.rank
    visible: Flags = rank[None, :] < batch.order.visible_below[:, None]
    turns = {
        int(position): turn for turn, position in enumerate(batch.positions[np.argsort(rank[batch.positions])], start=1)
    }
    vocabulary = examples.corpus.tokenizer.vocabulary
    ordered = tuple(
        OrderedToken(
            text=vocabulary[token_id],
            begins_word=bool(tokens.word_starts[position]),
            special=not tokens.maskable[position],
            turn=turns.get(position),
            sees=tuple(visible[position].tolist()),
        )
        for position, token_id in enumerate(batch.input_ids.tolist())
    )
    step, stream = divmod(index, batch.streams)
    return OrderedBlock(ordered, step, stream, bool(batch.order.backward[0]))


_PALETTE = ((238, 241, 245), (176, 196, 226), (36, 86, 166), (217, 164, 0))
"""Hidden; seen by a token that is not predicted; seen by one that is; the predicted token itself."""
_STYLE = """
body { font: 16px/1.7 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #1c2733; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
.block { background: #f7f8fa; border-radius: 8px; padding: 1rem; margin: 1rem 0; }
.t { padding: 1px 3px; border-radius: 3px; margin: 0 1px; display: inline-block; line-height: 1.4; }
.special { color: #8a95a3; } .predicted { background: #2456a6; color: #fff; } .predicted sup { color: #ffe08a; }
.mask { image-rendering: pixelated; width: 512px; max-width: 100%; border: 1px solid #ccd3db; }
.key { display: inline-block; width: 0.9rem; height: 0.9rem; margin: 0 0.3rem 0 1rem; vertical-align: middle; }
table { border-collapse: collapse; } td, th { padding: 2px 12px; text-align: right; }
"""


def mask_cells(block: OrderedBlock) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    """(T, T) the palette index of each pair: rows see columns."""
    sees = np.array([token.sees for token in block.tokens])
    predicted = np.array([token.turn is not None for token in block.tokens])
    cells = sees.astype(np.uint8) * np.where(predicted, 2, 1)[:, None].astype(np.uint8)
    cells[predicted, predicted.nonzero()[0]] = 3
    return cells


def orders_page(report: OrderReport) -> str:
    """The report as one self-contained HTML page."""
    facts = [
        ("blocks sampled", f"{report.samples:,}"),
        ("share of tokens predicted", f"{report.predicted_share:.2%}"),
        ("share of its block that a predicted token sees", f"{report.seen_share:.1%}"),
        *((f"runs of {_run_name(length)}", f"{share:.1%}") for length, share in enumerate(report.runs, start=1)),
    ]
    table = "".join(f"<tr><td>{escape(name)}</td><td><b>{escape(value)}</b></td></tr>" for name, value in facts)
    names = (
        "hidden",
        "seen by a token that is not predicted",
        "seen by a predicted token",
        "the predicted token itself",
    )
    legend = "".join(
        f'<span class="key" style="background:rgb{colour}"></span>{name}'
        for colour, name in zip(_PALETTE, names, strict=True)
    )
    blocks = "".join(_draw_block(block) for block in report.blocks)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Orders: {escape(report.title)}</title>'
        f"<style>{_STYLE}</style><h1>Orders: {escape(report.title)}</h1><table>{table}</table>"
        f"<h2>Blocks</h2><p>Predicted tokens carry their turn. Each row of a mask is a token, each column one that it "
        f"may see.</p><p>{legend}</p>{blocks}</html>\n"
    )


def block_title(block: OrderedBlock) -> str:
    """The position of a block in its text stream."""
    return f"stream {block.stream}, step {block.step}" + (", read backwards" if block.backward else "")


def _draw_block(block: OrderedBlock) -> str:
    picture = b64encode(palette_png(mask_cells(block), _PALETTE)).decode()
    title = block_title(block)
    return (
        f'<h2>{title}</h2><div class="block">{"".join(map(_token, block.tokens))}</div>'
        f'<img class="mask" alt="who sees whom in {title}" src="data:image/png;base64,{picture}">'
    )


def _token(token: OrderedToken) -> str:
    css = "predicted" if token.turn is not None else "special" if token.special else "plain"
    turn = "" if token.turn is None else f"<sup>{token.turn}</sup>"
    space = " " if token.begins_word or token.special else ""
    return f'{space}<span class="t {css}">{escape(token.text)}{turn}</span>'


def _run_name(length: int) -> str:
    return f"{length} tokens or more" if length == _LONGEST_RUN else f"{length} token{'s' if length > 1 else ''}"
