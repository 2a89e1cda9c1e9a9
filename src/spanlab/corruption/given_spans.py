"""Masking given spans: named entities, noun phrases, terms of a glossary.

As in SpanBERT's ablation, a share of the budget (half) is spent on given spans, masked whole and in random order, and
the rest on random whole words, also where a block has too few given spans.

Spans come from a `SpanFile` beside a prepared corpus, or from any callable on a batch.

Shapes: B blocks, G given spans, N tokens of all blocks.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from spanlab.arrays import Flags, Integers, concatenated_ranges, offsets
from spanlab.corpus.randomness import Draws, draw
from spanlab.corruption.special_tokens import TokenBatch
from spanlab.corruption.units import Units, pick_random_units
from spanlab.errors import InputError
from spanlab.strict_parsing import parse_json


@dataclass(frozen=True)
class SpanTable:
    """The given spans of a batch, sorted, without overlaps."""

    starts: Integers
    """(G,) the position of each span's first token in the packed batch."""
    lengths: Integers
    """(G,) in tokens."""


GivenSpans = Callable[[TokenBatch], SpanTable]
"""A function that finds the spans of a batch."""


def pick_given_spans(
    batch: TokenBatch, words: Units, spans: SpanTable, keys: Draws, budget: Integers, share: float
) -> Flags:
    """(N,) masked tokens: given spans for `share` of the budget (B,), random words for the rest."""
    _check(batch, spans)
    bounds = np.searchsorted(spans.starts, np.append(batch.starts, len(batch.ids)))
    units = Units(spans.starts, spans.lengths, np.diff(bounds), len(batch.ids))
    for_spans = np.floor(budget * share + 0.5).astype(np.int64)
    masked = units.to_tokens(pick_random_units(units, draw(keys, 0), for_spans))
    used = np.bincount(batch.block_of[masked], minlength=len(budget))
    taken = masked[words.starts]
    return masked | words.to_tokens(pick_random_units(words, draw(keys, 1), budget - used, barred=taken))


def _check(batch: TokenBatch, spans: SpanTable) -> None:
    """Refuse spans that overlap or are not whole words of one block."""
    ends = spans.starts + spans.lengths
    if len(spans.starts) and (spans.lengths.min() < 1 or spans.starts.min() < 0 or ends.max() > len(batch.ids)):
        raise InputError("a given span is empty or outside the batch")
    if (np.diff(spans.starts) < spans.lengths[:-1]).any():
        raise InputError("given spans overlap or are not in order")
    word_ends = np.append(batch.word_starts | ~batch.maskable, True)
    misaligned = ~batch.word_starts[spans.starts] | ~word_ends[ends]
    misaligned |= batch.block_of[spans.starts] != batch.block_of[np.maximum(ends - 1, 0)]
    if misaligned.any():
        start = int(spans.starts[misaligned][0])
        raise InputError(f"the given span at token {start} of the batch does not cover whole words of one block")


class SpanFile:
    """Spans of a prepared corpus from a JSON-lines side file: `{"start": 120, "end": 123}`, tokens of the corpus.

    Positions count all tokens of the corpus from 0, end exclusive. Every line is checked when the file is read; spans
    that are not whole words are all listed, by line.
    """

    def __init__(self, path: str | Path, word_starts: Flags) -> None:
        """`word_starts` (all tokens of the corpus) says where words begin."""
        starts, ends, lines = _read_spans(Path(path), len(word_starts))
        word_ends = np.append(word_starts, True)
        wrong = np.flatnonzero(~word_starts[starts] | ~word_ends[ends])
        if len(wrong):
            listed = ", ".join(str(lines[index]) for index in wrong[:20])
            more = f" and {len(wrong) - 20} more" if len(wrong) > 20 else ""
            raise InputError(
                f"{len(wrong)} spans do not cover whole words: lines {listed}{more}",
                path=path,
                fix="align or drop them",
            )
        order = np.argsort(starts, kind="stable")
        self.starts, self.ends = starts[order], ends[order]
        overlaps = np.flatnonzero(self.starts[1:] < self.ends[:-1])
        if len(overlaps):
            listed = ", ".join(str(lines[order[index + 1]]) for index in overlaps[:20])
            raise InputError(
                f"{len(overlaps)} spans overlap the one before: lines {listed}", path=path, fix="drop them"
            )

    def __call__(self, batch: TokenBatch) -> SpanTable:
        """The spans that lie whole inside the blocks of a batch."""
        if batch.sources is None:
            raise InputError("data.spans needs blocks of contiguous text", fix="set data.blocks=documents")
        first_text = np.flatnonzero(batch.maskable)[offsets(batch.text_lengths)]
        low = np.searchsorted(self.starts, batch.sources)
        high = np.maximum(low, np.searchsorted(self.ends, batch.sources + batch.text_lengths, side="right"))
        rows = np.repeat(np.arange(len(low)), high - low)
        inside = concatenated_ranges(low[high > low], (high - low)[high > low])
        starts = self.starts[inside] - batch.sources[rows] + first_text[rows]
        return SpanTable(starts, self.ends[inside] - self.starts[inside])


def _read_spans(path: Path, tokens: int) -> tuple[Integers, Integers, list[int]]:
    starts, ends, lines = [], [], []
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError("no such file", path=path) from None
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8 text (byte {error.start})", path=path) from None
    for line_number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            span = parse_json(line)
            start, end = int(span["start"]), int(span["end"])
        except (KeyError, TypeError, ValueError, OverflowError):
            raise InputError(
                "not a span", path=path, line=line_number, fix='write {"start": 120, "end": 123}'
            ) from None
        if not 0 <= start < end <= tokens:
            raise InputError(f"span {start} to {end} is not within the {tokens} tokens", path=path, line=line_number)
        starts.append(start)
        ends.append(end)
        lines.append(line_number)
    return np.array(starts, np.int64), np.array(ends, np.int64), lines
