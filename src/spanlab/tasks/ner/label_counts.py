"""How often each output of an entity head is right in the training data: what class weights are made of.

Counted on the texts alone, before there is a tokenizer: in words or characters, as the labels are carried; pieces are
counted as words. A tag is counted a unit, a label of candidate spans a candidate, the many without a label included.
"""

from collections.abc import Sequence

import numpy as np

from spanlab.tasks.spans.labelled import TextSpan
from spanlab.tasks.spans.units import Integers, UnitKind, unit_spans


def tag_counts(
    texts: Sequence[str], spans: Sequence[Sequence[TextSpan]], labels: Sequence[str], kind: UnitKind
) -> tuple[int, ...]:
    """(C,) of every tag, in the order of `tagging.tag_names`."""
    place = {label: number for number, label in enumerate(labels)}
    counts = np.zeros(1 + 2 * len(labels), dtype=np.int64)
    for text, own in zip(texts, spans, strict=True):
        starts, ends = unit_spans(text, kind)
        counts[0] += len(starts)
        for span in own:
            width = int(_touched(starts, ends, span))
            counts[1 + 2 * place[span.label]] += 1
            counts[2 + 2 * place[span.label]] += max(0, width - 1)
            counts[0] -= width
    return tuple(counts.clip(min=0).tolist())


def candidate_counts(
    texts: Sequence[str], spans: Sequence[Sequence[TextSpan]], labels: Sequence[str], kind: UnitKind, max_width: int
) -> tuple[int, ...]:
    """(L,) of candidate spans without a label, then of every label."""
    place = {label: number for number, label in enumerate(labels)}
    counts = np.zeros(1 + len(labels), dtype=np.int64)
    for text, own in zip(texts, spans, strict=True):
        units = len(unit_spans(text, kind)[0])
        widest = min(units, max_width)
        counts[0] += widest * units - widest * (widest - 1) // 2 - len(own)
        for span in own:
            counts[1 + place[span.label]] += 1
    return tuple(counts.clip(min=0).tolist())


def _touched(starts: Integers, ends: Integers, span: TextSpan) -> np.int64:
    """How many units share a character with a span."""
    return np.searchsorted(starts, span.end) - np.searchsorted(ends, span.start, side="right")
