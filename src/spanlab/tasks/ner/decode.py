"""Logits of BIO tags to entities: the best valid sequence of tags, and its spans.

Tag 0 is O; label i has the tags B = 1 + 2i and I = 2 + 2i. A sequence is valid if every I follows a B or an I of the
same label. `best_tags` is Viterbi under that constraint alone: where the argmax of every unit is a valid sequence, it
is the answer, and only other sequences are searched. Because only I is constrained, a step costs one maximum over all
tags and one comparison a label, not tags squared.

Shapes: U units of all sequences, C tags, L labels, B sequences.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spanlab.arrays import Flags, Integers, concatenated_ranges, offsets

Scores = NDArray[np.floating]


def tag_names(labels: Sequence[str]) -> tuple[str, ...]:
    """(C,) the names of the tags, in their order."""
    return ("O", *(f"{prefix}-{label}" for label in labels for prefix in "BI"))


def spans_to_tags(first: Integers, last: Integers, labels: Integers, count: int) -> Integers:
    """(U,) the tags of `count` units; the spans, (S,) each with first and last unit, must not overlap."""
    tags = np.zeros(count, dtype=np.int64)
    widths = last - first + 1
    tags[concatenated_ranges(first, widths)] = np.repeat(2 + 2 * labels, widths)
    tags[first] = 1 + 2 * labels
    return tags


def tags_to_spans(tags: Integers) -> tuple[Integers, Integers, Integers]:
    """(S,) first units, last units and labels of the entities of a valid sequence of tags."""
    first = np.flatnonzero(tags % 2 == 1)
    inside = (tags > 0) & (tags % 2 == 0)
    stops = np.append(np.flatnonzero(~inside), len(tags))
    last = stops[np.searchsorted(stops, first, side="right")] - 1
    return first, last, (tags[first] - 1) // 2


def is_valid(tags: Integers, lengths: Integers) -> Flags:
    """(B,) whether each of the concatenated sequences of tags is valid."""
    before = np.append(0, tags[:-1])
    before[offsets(lengths)[lengths > 0]] = 0
    is_wrong = (tags > 0) & (tags % 2 == 0) & (before != tags) & (before != tags - 1)
    wrong = np.append(0, np.cumsum(is_wrong))
    starts = offsets(lengths)
    valid: Flags = wrong[starts + lengths] == wrong[starts]
    return valid


def best_tags(scores: Scores, lengths: Integers | None = None) -> Integers:
    """(U,) the valid tags with the highest sum of scores.

    Args:
        scores: (U, C) scores of all sequences, concatenated.
        lengths: (B,) units of each sequence; they add up to U. None: there is one sequence.
    """
    lengths = np.array([len(scores)]) if lengths is None else lengths
    tags: Integers = scores.argmax(axis=1).astype(np.int64)
    starts = offsets(lengths)
    for sequence in np.flatnonzero(~is_valid(tags, lengths)).tolist():
        units = slice(starts[sequence], starts[sequence] + lengths[sequence])
        tags[units] = _viterbi(scores[units].tolist())
    return tags


def best_word_tags(scores: Scores, begins_inside: Flags) -> Integers:
    """(U,) the valid tags with the highest sum of scores among those that have a word in an entity whole or not at all.

    A word is then O, B I I … or I I I …, so its tag is that of its first unit: a word's scores are sums, and words are
    searched as units are.

    Args:
        scores: (U, C) scores of one sequence.
        begins_inside: (U,) whether a unit begins inside a word.
    """
    firsts = np.flatnonzero(~begins_inside | (np.arange(len(scores)) == 0))
    if len(firsts) == len(scores):
        return best_tags(scores)
    tags = np.arange(scores.shape[1])
    inside = np.where(tags % 2 == 1, tags + 1, tags)  # B goes on as I
    word_scores = np.add.reduceat(scores[:, inside], firsts, axis=0) + scores[firsts] - scores[firsts][:, inside]
    sizes = np.diff(np.append(firsts, len(scores)))
    word_tags = best_tags(word_scores)
    unit_tags = np.repeat(inside[word_tags], sizes)
    unit_tags[firsts] = word_tags
    return unit_tags


def _viterbi(scores: list[list[float]]) -> list[int]:
    """The best valid tags of one sequence.

    Plain lists: a row of some ten tags is too short for arrays to pay off.
    """
    begins, insides = range(1, len(scores[0]), 2), range(2, len(scores[0]), 2)
    best = [score if tag not in insides else -math.inf for tag, score in enumerate(scores[0])]
    back_pointers: list[list[int]] = []  # for each step after the first and each tag, the tag before it
    for row in scores[1:]:
        highest = max(best)
        previous = [best.index(highest)] * len(row)
        current = [highest + score for score in row]
        for begin, inside in zip(begins, insides, strict=True):
            previous[inside] = inside if best[inside] > best[begin] else begin
            current[inside] = best[previous[inside]] + row[inside]
        back_pointers.append(previous)
        best = current
    path = [best.index(max(best))]
    for previous in reversed(back_pointers):
        path.append(previous[path[-1]])
    return path[::-1]


def span_scores(scores: Scores, tags: Integers, first: Integers, last: Integers) -> NDArray[np.float64]:
    """(S,) the mean probability of the tags of each span's units."""
    if not len(first):
        return np.zeros(0)
    shifted = np.exp(scores.astype(np.float64) - scores.max(axis=1, keepdims=True))
    chosen = shifted[np.arange(len(tags)), tags] / shifted.sum(axis=1)
    sums = np.append(0.0, np.cumsum(chosen))
    means: NDArray[np.float64] = (sums[last + 1] - sums[first]) / (last - first + 1)
    return means
