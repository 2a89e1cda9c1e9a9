"""The masks of a recipe: sample blocks token by token, and statistics compared with the masking law.

What enters are the examples of a corpus under a recipe; what leaves is a `MaskReport` of plain values, which the
command line draws in colours and `masks_page` as a self-contained HTML page. `draw_objectives` draws the two
objectives of SpanBERT on one block as an SVG: every masked token is predicted from its own position (MLM), and every
token of a span also from the two tokens just outside it and its position in it (SBO, drawn for the longest span).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Literal

import numpy as np

from spanlab.arrays import offsets
from spanlab.corruption import ExampleBatch, Masking, TokenBatch
from spanlab.corruption.ngram import ngram_probabilities
from spanlab.errors import ConfigError
from spanlab.pretraining.examples import Examples
from spanlab.report.svg import BLUE, FAINT, GREEN, INK, PALE, RED, YELLOW, arrow, box, picture, width_of, words

Fate = Literal["text", "special", "masked", "replaced", "kept"]
_SAMPLE = 512
"""Maximum number of blocks in the statistics."""
_DRAWS = 64
"""Draws per block in the statistics of lengths: the masks are made of the first of them."""
_FILLS = {"masked": BLUE, "replaced": RED, "kept": GREEN}
_MARGIN, _GAP, _ROW = 20.0, 6.0, 34.0
"""Of the picture of the objectives, in pixels."""


@dataclass(frozen=True)
class ShownToken:
    """One token of a sample block."""

    text: str
    """The original: a token, or all tokens of a collapsed span."""
    seen: str
    """What the encoder sees."""
    fate: Fate
    begins_word: bool
    begins_span: bool
    ends_span: bool
    boundary: bool
    """Just outside a span."""


@dataclass(frozen=True)
class Histogram:
    """Shares of lengths 1, 2, …: as observed, and as the law says (empty if there is none)."""

    title: str
    found: tuple[float, ...]
    expected: tuple[float, ...]


@dataclass(frozen=True)
class MaskReport:
    """Sample blocks and statistics."""

    title: str
    blocks: tuple[tuple[ShownToken, ...], ...]
    samples: int
    masked_share: float
    """Masked tokens over tokens of text."""
    fates: dict[str, float]
    """Shares of masked tokens that are masked, replaced and kept."""
    spans_per_block: float
    mean_span_tokens: float
    drawn: Histogram | None
    """Lengths as the law draws them."""
    merged: Histogram
    """Lengths of masked runs in tokens."""


def report_masks(examples: Examples, *, blocks: int = 3, epoch: int = 0) -> MaskReport:
    """Sample blocks and statistics over the first samples of the corpus."""
    if examples.masking is None:
        cause = (
            f"the {examples.recipe.system} recipe masks nothing: each token is predicted from those on one side of it"
        )
        raise ConfigError(cause, fix="use a recipe with masks, such as spanbert")
    count = min(len(examples), max(blocks, _SAMPLE))
    batch = examples.batch(np.arange(count), epoch)
    fate = _fates(batch, _mask_id(examples))
    masked_share = len(batch.targets) / max(1, int(examples.token_batch(np.arange(count)).text_lengths.sum()))
    assert batch.boundaries is not None
    spans = np.unique(batch.boundaries.first, return_counts=True)[1]
    shares = {name: float(np.mean(fate == name)) if len(fate) else 0.0 for name in ("masked", "replaced", "kept")}
    return MaskReport(
        title=f"{examples.recipe.system}, law {examples.recipe.masking.law}",
        blocks=tuple(_show(examples, index, epoch) for index in range(min(blocks, count))),
        samples=count,
        masked_share=masked_share,
        fates=shares,
        spans_per_block=len(spans) / max(1, count),
        mean_span_tokens=float(spans.mean()) if len(spans) else 0.0,
        drawn=_drawn(examples, count, epoch),
        merged=Histogram("masked runs, in tokens", _shares_of(spans, 20), ()),
    )


def _fates(batch: ExampleBatch, mask_id: int) -> np.ndarray[tuple[int], np.dtype[np.str_]]:
    """(K,) what was done to each predicted token."""
    seen = batch.input_ids[batch.positions]
    return np.where(seen == mask_id, "masked", np.where(seen != batch.targets, "replaced", "kept"))


def _shares_of(lengths: np.ndarray[tuple[int], np.dtype[np.int64]], longest: int) -> tuple[float, ...]:
    counts = np.bincount(np.minimum(lengths, longest), minlength=longest + 1)[1:]
    return tuple((counts / max(1, counts.sum())).tolist())


def _drawn(examples: Examples, count: int, epoch: int) -> Histogram | None:
    """Lengths as drawn, before merging, block ends and the budget, beside the law that they follow."""
    config = examples.recipe.masking
    if config.law == "ngram" and config.mixture is None:
        expected = ngram_probabilities(config.max_length, favour_short=config.favour_short)
        return Histogram("n-grams as the law says, in words", (), tuple(expected.tolist()))
    assert isinstance(examples.masking, Masking)
    tokens = examples.token_batch(np.arange(count))
    drawn = examples.masking.span_draws(tokens, seed=examples.recipe.seed, epoch=epoch, count=_DRAWS)
    if drawn is None:
        return None
    law = examples.masking.lengths
    unit = "words" if config.unit == "word" else "tokens"
    found = _shares_of(drawn[1].ravel(), config.max_length)
    return Histogram(f"spans as drawn, in {unit}", found, tuple(law.probabilities.tolist()))


def _mask_id(examples: Examples) -> int:
    mask_id = examples.corpus.tokenizer.mask_id
    assert mask_id is not None, "without a mask token nothing is masked"
    return mask_id


def _show(examples: Examples, index: int, epoch: int) -> tuple[ShownToken, ...]:
    tokens, batch = examples.token_batch([index]), examples.batch([index], epoch)
    vocabulary = examples.corpus.tokenizer.vocabulary
    # How many tokens of the text each token of the input stands for: the mask of a collapsed span for all of them.
    sizes = np.ones(len(batch.input_ids), np.int64)
    if batch.offsets is not None:
        np.add.at(sizes, batch.positions[batch.offsets > 0], 1)
    starts = offsets(sizes)
    fate = np.where(tokens.maskable[starts], "text", "special").astype("<U8")
    fate[batch.positions] = _fates(batch, _mask_id(examples))
    assert batch.boundaries is not None
    first, last = set(batch.boundaries.first.tolist()), set(batch.boundaries.last.tolist())
    outside = {*batch.boundaries.left.tolist(), *batch.boundaries.right.tolist()}
    return tuple(
        ShownToken(
            text=_text(tokens, vocabulary, int(start), int(size)),
            seen=vocabulary[seen],
            fate=fate[position].item(),
            begins_word=bool(tokens.word_starts[start]),
            begins_span=position in first,
            ends_span=position in last,
            boundary=position in outside,
        )
        for position, (start, size, seen) in enumerate(zip(starts, sizes, batch.input_ids, strict=True))
    )


def _text(tokens: TokenBatch, vocabulary: Sequence[str], start: int, size: int) -> str:
    """The tokens that stand at one position of the input, with a space before each word but the first."""
    text: str = vocabulary[tokens.ids[start]]
    for place in range(start + 1, start + size):
        text += (" " if tokens.word_starts[place] else "") + vocabulary[tokens.ids[place]]
    return text


_STYLE = """
body { font: 16px/1.7 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #1c2733; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
.block { background: #f7f8fa; border-radius: 8px; padding: 1rem; margin: 1rem 0; }
.t { padding: 1px 3px; border-radius: 3px; margin: 0 1px; display: inline-block; line-height: 1.4; }
.special { color: #8a95a3; } .masked { background: #2456a6; color: #fff; }
.replaced { background: #c4561b; color: #fff; } .kept { background: #2e7d4f; color: #fff; }
.boundary { outline: 2px solid #d9a400; } .legend span { margin-right: 1rem; }
.first { border-left: 4px solid #111; } .last { border-right: 4px solid #111; }
table { border-collapse: collapse; } td, th { padding: 2px 12px; text-align: right; }
.bar { display: inline-block; height: 12px; background: #2456a6; vertical-align: middle; border-radius: 2px; }
.law { background: #d9a400; } small { color: #5b6875; } .replaced small { color: #ffe6d9; }
"""


def masks_page(report: MaskReport) -> str:
    """The report as one self-contained HTML page."""
    facts = [
        ("blocks sampled", f"{report.samples:,}"),
        ("share of text masked", f"{report.masked_share:.2%}"),
        ("runs of masked tokens per block", f"{report.spans_per_block:.1f}"),
        ("their mean length", f"{report.mean_span_tokens:.2f} tokens"),
        *((f"{name} among them", f"{share:.1%}") for name, share in report.fates.items()),
    ]
    table = "".join(f"<tr><td>{escape(name)}</td><td><b>{escape(value)}</b></td></tr>" for name, value in facts)
    legend = "".join(
        f'<span><span class="t {css}">{label}</span></span>'
        for css, label in (
            ("masked", "[MASK] is seen"),
            ("replaced", "another token is seen"),
            ("kept", "kept, and predicted"),
            ("boundary", "boundary of a span"),
        )
    )
    blocks = "".join(f'<div class="block">{"".join(map(_token, block))}</div>' for block in report.blocks)
    charts = "".join(_chart(histogram) for histogram in (report.drawn, report.merged) if histogram is not None)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Masks: {escape(report.title)}</title>'
        f"<style>{_STYLE}</style><h1>Masks: {escape(report.title)}</h1><table>{table}</table>"
        f'<h2>Blocks</h2><p class="legend">{legend}</p>{blocks}{charts}</html>\n'
    )


def _token(token: ShownToken) -> str:
    marks = [token.fate, *(["boundary"] if token.boundary else [])]
    marks += ["first"] if token.begins_span else []
    marks += ["last"] if token.ends_span else []
    shown = (
        f"{escape(token.text)} <small>→ {escape(token.seen)}</small>"
        if token.fate == "replaced"
        else escape(token.text)
    )
    space = " " if token.begins_word or token.fate == "special" else ""
    return f'{space}<span class="t {" ".join(marks)}" title="{escape(token.seen)}">{shown}</span>'


def _chart(histogram: Histogram) -> str:
    top = max((*histogram.found, *histogram.expected, 1e-9))
    rows = []
    for index in range(max(len(histogram.found), len(histogram.expected))):
        bars = []
        for shares, css in ((histogram.found, "bar"), (histogram.expected, "bar law")):
            if index < len(shares):
                width = 360 * shares[index] / top
                bars.append(f'<div><span class="{css}" style="width:{width:.0f}px"></span> {shares[index]:.2%}</div>')
        rows.append(f'<tr><th>{index + 1}</th><td style="text-align:left">{"".join(bars)}</td></tr>')
    note = "<p><small>Blue: observed. Yellow: the law.</small></p>" if histogram.expected else ""
    return f"<h2>Lengths: {escape(histogram.title)}</h2>{note}<table>{''.join(rows)}</table>"


def draw_objectives(tokens: Sequence[ShownToken]) -> str:
    """Three rows: the targets, below them the input of the encoder, and at the bottom the span boundary objective."""
    edges = [_MARGIN]
    for token in tokens:
        edges.append(edges[-1] + max(width_of(token.text), width_of(token.seen)) + 14 + _GAP)
    columns = [(left, right - _GAP) for left, right in pairwise(edges)]
    parts = [
        words(_MARGIN, 22, "MLM: each masked token from its own position", colour=BLUE, size=12),
        *(part for token, column in zip(tokens, columns, strict=True) for part in _objective_token(token, column)),
        *_boundary_objective(tokens, columns),
    ]
    return picture(edges[-1] + _MARGIN - _GAP, 258, parts, title="The objectives of SpanBERT on a block")


def _objective_token(token: ShownToken, column: tuple[float, float]) -> list[str]:
    left, right = column
    middle = (left + right) / 2
    fill = _FILLS.get(token.fate, PALE)
    line = YELLOW if token.boundary else "none"
    ink = "#ffffff" if token.fate in _FILLS else FAINT if token.fate == "special" else INK
    parts = [box(left, 90, right - left, _ROW, fill=fill, line=line)]
    parts.append(words(middle, 112, token.seen, colour=ink, anchor="middle"))
    if token.fate in _FILLS:
        parts += [arrow(middle, 88, middle, 56, colour=fill), words(middle, 50, token.text, anchor="middle")]
    return parts


def _boundary_objective(tokens: Sequence[ShownToken], columns: Sequence[tuple[float, float]]) -> list[str]:
    span = longest_span(tokens)
    if span is None:
        return []
    first, last = span
    outside = [sum(columns[position]) / 2 for position in (first - 1, last + 1)]
    parts = []
    for position in range(first, last + 1):
        middle = sum(columns[position]) / 2
        parts += [arrow(x, 126, middle, 196, colour=YELLOW) for x in outside]
        parts.append(words(middle, 214, tokens[position].text, anchor="middle"))
        parts.append(words(middle, 232, f"p{position - first + 1}", size=11, colour=FAINT, anchor="middle"))
    caption = "SBO: each token of a span from the two tokens outside it and its position p"
    return [*parts, words(_MARGIN, 250, caption, colour=YELLOW, size=12)]


def longest_span(tokens: Sequence[ShownToken]) -> tuple[int, int] | None:
    """The first and the last position of the longest span that has a token on both sides."""
    spans: list[tuple[int, int]] = []
    first = 0
    for position, token in enumerate(tokens):
        first = position if token.begins_span else first
        if token.ends_span and first > 0 and position + 1 < len(tokens):
            spans.append((first, position))
    return max(spans, key=lambda span: span[1] - span[0], default=None)
