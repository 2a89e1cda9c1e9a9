"""Entities as tags of words, and the best valid sequence of tags.

Tag 0 is outside; label i has the tags 1 + 2i where an entity begins (B) and 2 + 2i inside it (I). A sequence is valid
if every I follows a B or an I of its own label. `best_tags` is Viterbi under that law alone: where the best tag of each
unit makes a valid sequence already, it is the answer; the rest is decoded together, one step a unit for all sequences.
Because only I is bound, a step costs one maximum over all tags and one comparison a label, not tags squared.

Shapes: U units of all sequences, C tags, L labels, B sequences.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spanlab.corpus.ragged import flat_ranges, offsets

Integers = NDArray[np.int64]
Scores = NDArray[np.floating]


def tag_names(labels: Sequence[str]) -> tuple[str, ...]:
    """(C,) the names of the tags, in their order."""
    return ("O", *(f"{place}-{label}" for label in labels for place in "BI"))


def spans_to_tags(first: Integers, last: Integers, labels: Integers, count: int) -> Integers:
    """(U,) the tags of `count` units; the spans, (S,) each with first and last unit, must not overlap."""
    tags = np.zeros(count, dtype=np.int64)
    widths = last - first + 1
    tags[flat_ranges(first, widths)] = np.repeat(2 + 2 * labels, widths)
    tags[first] = 1 + 2 * labels
    return tags


def tags_to_spans(tags: Integers) -> tuple[Integers, Integers, Integers]:
    """(S,) first units, last units and labels of the entities of a valid sequence of tags."""
    first = np.flatnonzero(tags % 2 == 1)
    inside = (tags > 0) & (tags % 2 == 0)
    stops = np.append(np.flatnonzero(~inside), len(tags))
    last = stops[np.searchsorted(stops, first, side="right")] - 1
    return first, last, (tags[first] - 1) // 2


def is_valid(tags: Integers, lengths: Integers) -> NDArray[np.bool_]:
    """(B,) whether each sequence of tags, laid end to end, is valid."""
    before = np.append(0, tags[:-1])
    before[offsets(lengths)[lengths > 0]] = 0
    wrong = (tags > 0) & (tags % 2 == 0) & (before != tags) & (before != tags - 1)
    faults = np.append(0, np.cumsum(wrong))
    starts = offsets(lengths)
    valid: NDArray[np.bool_] = faults[starts + lengths] == faults[starts]
    return valid


def best_tags(scores: Scores, lengths: Integers) -> Integers:
    """(U,) the valid tags with the highest sum of scores.

    Args:
        scores: (U, C) of all sequences laid end to end.
        lengths: (B,) units of each; they add up to U.
    """
    tags: Integers = scores.argmax(axis=1).astype(np.int64)
    repair = np.flatnonzero(~is_valid(tags, lengths))
    if not len(repair):
        return tags
    order = repair[np.argsort(-lengths[repair], kind="stable")]  # longest first: those still running are a prefix
    places = flat_ranges(offsets(lengths)[order], lengths[order])
    tags[places] = _viterbi(scores[places], lengths[order])
    return tags


def _viterbi(scores: Scores, lengths: Integers) -> Integers:
    """`best_tags` for sequences in order of length, the longest first."""
    starts = offsets(lengths)
    steps = int(lengths[0])
    running = len(lengths) - np.searchsorted(lengths[::-1], np.arange(steps), side="right")  # (T,) longer than t
    best = scores[starts].astype(np.float64)  # (B, C) the best sum that ends in each tag
    best[:, 2::2] = -np.inf
    finals = np.zeros(len(lengths), dtype=np.int64)
    anywhere = np.zeros((steps, len(lengths)), dtype=np.int64)  # the best tag before an O or a B
    from_inside = np.zeros((steps, len(lengths), best.shape[1] // 2), dtype=bool)  # before an I: I rather than B
    for step in range(1, steps):
        active = int(running[step])
        finals[active : len(best)] = best[active:].argmax(axis=1)
        best = best[:active]
        anywhere[step, :active] = best.argmax(axis=1)
        from_inside[step, :active] = best[:, 2::2] > best[:, 1::2]
        inside = np.maximum(best[:, 1::2], best[:, 2::2])
        best = np.repeat(best.max(axis=1, keepdims=True), best.shape[1], axis=1)
        best[:, 2::2] = inside
        best += scores[starts[:active] + step]
    finals[: len(best)] = best.argmax(axis=1)
    return _trace_back(finals, anywhere, from_inside, lengths)


def _trace_back(finals: Integers, anywhere: Integers, from_inside: NDArray[np.bool_], lengths: Integers) -> Integers:
    """(U,) the tags of every sequence, from its last one back along what led to it."""
    starts, tags = offsets(lengths), np.zeros(int(lengths.sum()), dtype=np.int64)
    current = finals.copy()
    rows = np.arange(len(lengths))
    for step in range(len(anywhere) - 1, -1, -1):
        active = rows[: int((lengths > step).sum())]
        tag = current[active]
        tags[starts[active] + step] = tag
        label = np.maximum(tag - 1, 0) // 2
        from_label = np.where(from_inside[step, active, label], 2 + 2 * label, 1 + 2 * label)
        inside = (tag > 0) & (tag % 2 == 0)
        current[active] = np.where(inside, from_label, anywhere[step, active])
    return tags


def span_scores(scores: Scores, tags: Integers, first: Integers, last: Integers) -> NDArray[np.float64]:
    """(S,) how sure a span is: the mean probability of its units' tags."""
    if not len(first):
        return np.zeros(0)
    shifted = np.exp(scores.astype(np.float64) - scores.max(axis=1, keepdims=True))
    chosen = shifted[np.arange(len(tags)), tags] / shifted.sum(axis=1)
    sums = np.append(0.0, np.cumsum(chosen))
    means: NDArray[np.float64] = (sums[last + 1] - sums[first]) / (last - first + 1)
    return means
