"""Attention visibility: which tokens of a block a predicted token sees, under any recipe.

What enters are the examples of a corpus under a recipe; what leaves is a square for each block, with a row for every
token and a column for every token it may see. It compares the objectives: masks, which hide a few tokens from all
others; one direction or both; an order of prediction.

Shapes: T tokens of a block.
"""

from dataclasses import dataclass
from enum import IntEnum
from html import escape

import numpy as np
from numpy.typing import NDArray

from spanlab.arrays import Flags
from spanlab.corruption import ExampleBatch
from spanlab.pretraining.examples import Examples

_SAMPLE = 128
"""Maximum number of blocks in the statistics."""


class Cell(IntEnum):
    """What the token of a row sees of the token of a column."""

    HIDDEN = 0
    SEEN_BY_OTHERS = 1
    """Seen by a token that is not predicted."""
    SEEN = 2
    SEEN_BACKWARD = 3
    """Seen by the backward model (ELMo)."""
    REPLACED = 4
    """Replaced by [MASK] or by another token."""
    ITSELF = 5
    """The predicted token itself."""


@dataclass(frozen=True)
class Visibility:
    """One block."""

    tokens: tuple[str, ...]
    """The original tokens."""
    cells: NDArray[np.uint8]
    """(T, T) a `Cell` for each pair: rows see columns."""
    readers: int = 1
    """How often each token is predicted: twice by a forward and a backward model."""

    @property
    def predicted(self) -> Flags:
        """(T,) which tokens are predicted."""
        flags: Flags = np.diagonal(self.cells) == Cell.ITSELF
        return flags

    @property
    def seen_share(self) -> float:
        """The share of the block that a predicted token sees, on average."""
        seen = np.isin(self.cells[self.predicted], (Cell.SEEN, Cell.SEEN_BACKWARD))
        return float(seen.mean()) / self.readers if seen.size else 0.0


@dataclass(frozen=True)
class VisibilityReport:
    """Sample blocks, and statistics over more of them."""

    title: str
    blocks: tuple[Visibility, ...]
    samples: int
    predicted_share: float
    """Predicted tokens over all tokens, special ones included."""
    seen_share: float


def report_visibility(examples: Examples, *, blocks: int = 1, epoch: int = 0) -> VisibilityReport:
    """Sample blocks and statistics over the first samples of the corpus."""
    count = min(len(examples), max(blocks, _SAMPLE))
    seen = [block_visibility(examples, index, epoch) for index in range(count)]
    objectives = " + ".join(examples.recipe.active_objectives)
    return VisibilityReport(
        title=f"{examples.recipe.system}, {objectives}",
        blocks=tuple(seen[:blocks]),
        samples=count,
        predicted_share=float(np.mean([block.predicted.mean() for block in seen])),
        seen_share=float(np.mean([block.seen_share for block in seen])),
    )


def block_visibility(examples: Examples, index: int, epoch: int = 0) -> Visibility:
    """The block of one sample."""
    if examples.recipe.corruption is None:
        ids, cells = examples.token_batch([index]).ids, None
    else:
        batch = examples.batch([index], epoch)
        ids, cells = batch.original_ids, _of_order(batch) if batch.order is not None else _of_masks(batch)
    vocabulary = examples.corpus.tokenizer.vocabulary
    tokens = tuple(vocabulary[token_id] for token_id in ids.tolist())
    if cells is not None:
        return Visibility(tokens, cells)
    both = examples.recipe.method.directions == 2
    return Visibility(tokens, _of_directions(len(tokens), both=both), readers=2 if both else 1)


def _of_directions(length: int, *, both: bool) -> NDArray[np.uint8]:
    """The tokens before each token and, with `both` directions, those after it."""
    cells = np.tril(np.full((length, length), Cell.SEEN, np.uint8), -1)
    if both:
        cells += np.triu(np.full((length, length), Cell.SEEN_BACKWARD, np.uint8), 1)
    # In one direction there is nothing to predict the first token from.
    predicted = np.arange(0 if both else 1, length)
    cells[predicted, predicted] = Cell.ITSELF
    return cells


def _of_order(batch: ExampleBatch) -> NDArray[np.uint8]:
    assert batch.order is not None
    sees: Flags = batch.order.rank[None, :] < batch.order.visible_below[:, None]
    cells = np.where(sees, Cell.SEEN_BY_OTHERS, Cell.HIDDEN).astype(np.uint8)
    cells[batch.positions] = np.where(sees[batch.positions], Cell.SEEN, Cell.HIDDEN)
    cells[batch.positions, batch.positions] = Cell.ITSELF
    return cells


def _of_masks(batch: ExampleBatch) -> NDArray[np.uint8]:
    """Every token sees every position; some hold a mask or another token."""
    cells = np.full((len(batch.input_ids),) * 2, Cell.SEEN_BY_OTHERS, np.uint8)
    cells[batch.positions] = Cell.SEEN
    cells[:, batch.input_ids != batch.original_ids] = Cell.REPLACED
    cells[batch.positions, batch.positions] = Cell.ITSELF
    return cells


_COLOURS = {
    Cell.HIDDEN: "#eef1f5",
    Cell.SEEN_BY_OTHERS: "#c3d2ea",
    Cell.SEEN: "#2456a6",
    Cell.SEEN_BACKWARD: "#2e7d4f",
    Cell.REPLACED: "#e2a07c",
    Cell.ITSELF: "#d9a400",
}
_NAMES = {
    Cell.HIDDEN: "hidden",
    Cell.SEEN_BY_OTHERS: "seen by a token that is not predicted",
    Cell.SEEN: "seen by a predicted token",
    Cell.SEEN_BACKWARD: "seen by the backward model",
    Cell.REPLACED: "replaced",
    Cell.ITSELF: "the predicted token itself",
}
_SIDE = 18
_LETTER = 7.3
"""The average width of a letter in the labels."""
_LINE = 20


def visibility_page(report: VisibilityReport) -> str:
    """The pictures of all blocks on one self-contained HTML page."""
    title = f"Who sees whom: {escape(report.title)}"
    shares = (
        f"{report.predicted_share:.2%} of the tokens of {report.samples:,} blocks are predicted, "
        f"and a predicted token sees {report.seen_share:.1%} of its block."
    )
    pictures = "".join(f"<p>{_picture(report.title, block)}</p>" for block in report.blocks)
    head = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
    return (
        f'{head}<body style="font: 16px/1.7 system-ui, sans-serif"><h1>{title}</h1><p>{shares}</p>{pictures}</html>\n'
    )


def visibility_svg(report: VisibilityReport) -> str:
    """The first block of the report as one self-contained SVG."""
    return _picture(report.title, report.blocks[0])


def _picture(title: str, block: Visibility) -> str:
    margin = 14 + _LETTER * max(map(len, block.tokens))
    side = _SIDE * len(block.tokens)
    present = [cell for cell in Cell if (block.cells == cell).any()]
    width = max(margin + side, _LETTER * max(len(_NAMES[cell]) for cell in present) + 30) + 12
    height = 34 + margin + side + 10 + _LINE * len(present)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'font-family="system-ui, sans-serif" font-size="13" role="img" aria-label="who sees whom: {escape(title)}">',
        '<rect width="100%" height="100%" fill="#ffffff"/><g fill="#1c2733">',
        f'<text x="8" y="22" font-size="15" font-weight="600">{escape(title)}</text>',
        *_labels(block, margin),
        f'</g><g stroke="#ffffff">{"".join(_squares(block, margin))}</g><g fill="#1c2733">',
        *(_legend(cell, 34 + margin + side + 18 + _LINE * line) for line, cell in enumerate(present)),
        "</g></svg>\n",
    ]
    return "".join(parts)


def _labels(block: Visibility, margin: float) -> list[str]:
    labels = []
    for position, (token, predicted) in enumerate(zip(block.tokens, block.predicted.tolist(), strict=True)):
        weight = ' font-weight="700"' if predicted else ""
        middle, top = margin + _SIDE * (position + 0.5), 34 + margin
        labels.append(
            f'<text x="{margin - 6:.1f}" y="{top + _SIDE * (position + 0.75):.1f}" text-anchor="end"{weight}>'
            f"{escape(token)}</text>"
            f'<text transform="translate({middle + 4:.1f} {top - 6:.1f}) rotate(-90)">{escape(token)}</text>'
        )
    return labels


def _squares(block: Visibility, margin: float) -> list[str]:
    return [
        f'<rect x="{margin + _SIDE * column:.1f}" y="{34 + margin + _SIDE * row:.1f}" width="{_SIDE}" '
        f'height="{_SIDE}" fill="{_COLOURS[Cell(cell)]}"/>'
        for row, cells in enumerate(block.cells.tolist())
        for column, cell in enumerate(cells)
    ]


def _legend(cell: Cell, y: float) -> str:
    square = f'<rect x="8" y="{y - 11:.1f}" width="13" height="13" fill="{_COLOURS[cell]}"/>'
    return f'{square}<text x="28" y="{y:.1f}">{_NAMES[cell]}</text>'
