"""A document as arrays, and any range of its segments as a sample: all in prediction, a random range in training.

Input: the units, segments and candidates of a document. Output: samples whose positions count from the first token of
their first segment.

Shapes: N tokens, C candidates, K segments.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from spanlab.arrays import Flags, Integers, offsets
from spanlab.tasks.coref.data import Range
from spanlab.tasks.sample import Sample
from spanlab.tasks.spans.units import LabelUnits, enumerate_spans
from spanlab.tasks.windows import InputWindow
from spanlab.text.windows import Window, cut_windows


def cut_segments(count: int, size: int, sentence_ends: Integers, word_ends: Integers) -> list[Window]:
    """Windows that follow each other, each of at most `size` tokens.

    Args:
        count: N.
        size: The most tokens of a segment.
        sentence_ends: The token after the last of each sentence, ascending.
        word_ends: The same of each word; only a word longer than `size` is cut.
    """
    windows, start = [], 0
    while start < count:
        limit = min(start + size, count)
        end = limit
        if limit < count:
            end = _last_within(sentence_ends, start, limit) or _last_within(word_ends, start, limit) or limit
        windows.append(Window(start, end))
        start = end
    return windows


def _last_within(ends: Integers, start: int, limit: int) -> int | None:
    """The last end that lies after `start` and not after `limit`."""
    index = int(np.searchsorted(ends, limit, side="right")) - 1
    return int(ends[index]) if index >= 0 and ends[index] > start else None


def cut_overlapping(count: int, size: int) -> list[Window]:
    """Windows of `size` tokens, each beginning in the middle of the one before."""
    return cut_windows(count, length=size, stride=max(1, size // 2))


def locate_tokens(
    windows: Sequence[Window], sequence_starts: Sequence[int], text_starts: Sequence[int]
) -> tuple[Integers, Integers, Integers]:
    """The positions of a document's tokens in its concatenated sequences.

    Args:
        windows: (K,) the segments, which leave out no token.
        sequence_starts: (K,) where each one's sequence begins among all.
        text_starts: (K,) where the text begins in each sequence, after special tokens.

    Returns:
        (N,) the position in the first segment that holds the token; (N,) in the last one that does, which differs where
        segments overlap; (N,) the index of the first.
    """
    count = windows[-1].end
    first, second, segment = (np.full(count, -1, dtype=np.int64) for _ in range(3))
    for index, window in enumerate(windows):
        tokens = slice(window.start, window.end)
        positions = sequence_starts[index] + text_starts[index] + np.arange(len(window))
        is_new = first[tokens] < 0
        first[tokens][is_new] = positions[is_new]
        segment[tokens][is_new] = index
        second[tokens] = positions
    return first, second, segment


@dataclass(frozen=True, kw_only=True, eq=False)
class Candidates:
    """C candidate spans of a document."""

    first: Integers
    """(C,) their first tokens."""
    last: Integers
    """(C,) their last tokens, inclusive."""
    starts: Integers
    """(C,) their first characters."""
    ends: Integers
    """(C,) where they end, exclusive."""
    given: Flags
    """(C,) whether the user gave it as a mention."""

    def __len__(self) -> int:
        return len(self.first)

    def find(self, spans: Sequence[Range]) -> Integers:
        """(len(spans),) the index of the candidate with these characters; -1 where there is none."""
        queries = np.array(spans, dtype=np.int64).reshape(-1, 2)
        if not len(self):
            return np.full(len(queries), -1)
        base = int(max(self.ends.max(), queries.max(initial=0))) + 1
        keys, query_keys = self.starts * base + self.ends, queries[:, 0] * base + queries[:, 1]
        order = np.argsort(keys, kind="stable")
        nearest = order[np.minimum(np.searchsorted(keys, query_keys, sorter=order), len(keys) - 1)]
        return np.where(keys[nearest] == query_keys, nearest, -1)

    def select(self, chosen: Flags | Integers) -> "Candidates":
        """The candidates at `chosen`, a mask or indices."""
        return Candidates(
            first=self.first[chosen],
            last=self.last[chosen],
            starts=self.starts[chosen],
            ends=self.ends[chosen],
            given=self.given[chosen],
        )


def list_candidates(
    units: LabelUnits, sentences: Sequence[Range], max_width: int, given: Sequence[Range], *, whole_words: bool = True
) -> Candidates:
    """Every span within a sentence that is at most `max_width` pieces wide, and all `given` ones.

    With `whole_words` without those that begin or end inside a word.
    """
    begins = np.searchsorted(units.starts, [start for start, _ in sentences[1:]])
    edges = np.concatenate(([0], begins, [len(units)])).astype(np.int64)
    first_unit, last_unit = enumerate_spans(edges[:-1], np.diff(edges), max_width)
    first, last = units.first_tokens[first_unit], units.last_tokens[last_unit]
    chosen = last - first < max_width
    if whole_words:
        chosen &= ~(units.begins_inside[first_unit] | units.ends_inside[last_unit])
    enumerated = Candidates(
        first=first[chosen],
        last=last[chosen],
        starts=units.starts[first_unit[chosen]],
        ends=units.ends[last_unit[chosen]],
        given=np.zeros(int(chosen.sum()), dtype=bool),
    )
    return _joined(enumerated, given_candidates(units, given)) if given else enumerated


def given_candidates(units: LabelUnits, spans: Sequence[Range]) -> Candidates:
    """The spans that the user gave, each with the tokens of every unit it touches."""
    starts, ends = np.array(sorted(set(spans)), dtype=np.int64).reshape(-1, 2).T
    first = np.minimum(np.searchsorted(units.ends, starts, side="right"), len(units) - 1)
    last = np.maximum(np.searchsorted(units.starts, ends, side="left") - 1, first)
    return _in_order(
        Candidates(
            first=units.first_tokens[first],
            last=units.last_tokens[last],
            starts=starts,
            ends=ends,
            given=np.ones(len(starts), dtype=bool),
        )
    )


def _joined(enumerated: Candidates, given: Candidates) -> Candidates:
    """Both together, a span that is in both only once."""
    duplicates = enumerated.find(list(zip(given.starts.tolist(), given.ends.tolist(), strict=True)))
    is_unique = np.ones(len(enumerated), dtype=bool)
    is_unique[duplicates[duplicates >= 0]] = False
    rest = enumerated.select(is_unique)
    return _in_order(
        Candidates(
            first=np.concatenate([rest.first, given.first]),
            last=np.concatenate([rest.last, given.last]),
            starts=np.concatenate([rest.starts, given.starts]),
            ends=np.concatenate([rest.ends, given.ends]),
            given=np.concatenate([rest.given, given.given]),
        )
    )


def _in_order(candidates: Candidates) -> Candidates:
    return candidates.select(np.lexsort((candidates.last, candidates.first)))


@dataclass(frozen=True, kw_only=True, eq=False)
class DocumentArrays:
    """One document in segments."""

    example: int
    segments: Sequence[InputWindow]
    """(K,)"""
    candidates: Candidates
    speakers: Integers
    """(N,) the speaker of each token, from 1; 0 for none."""
    genre: int
    clusters: Integers | None = None
    """(C,) the cluster of each candidate, from 1; 0 for none; None without labels."""
    is_mention: Flags | None = None
    """(N,) whether a token is in a gold mention, which may be no candidate; None without labels."""
    truncated: bool = False

    def whole(self) -> Sample:
        """The sample of all segments."""
        return self.window(0, len(self.segments))

    def for_training(self, limit: int) -> Sample:
        """All segments; if there are more than `limit`, a random window of `limit` segments, drawn in every epoch."""
        if not limit or len(self.segments) <= limit:
            return self.whole()
        return replace(self.window(0, limit), draw=SegmentWindows(document=self, count=limit))

    def window(self, start: int, end: int) -> Sample:
        """Segments `start` to `end` (exclusive)."""
        chosen = self.segments[start:end]
        lowest, highest = chosen[0].first.start, chosen[-1].first.end
        lengths = np.array([len(segment.sequence) for segment in chosen])
        positions, second_positions, segments = locate_tokens(
            [Window(segment.first.start - lowest, segment.first.end - lowest) for segment in chosen],
            offsets(lengths).tolist(),
            [segment.first_start for segment in chosen],
        )
        inside = (self.candidates.first >= lowest) & (self.candidates.last < highest)
        candidates = self.candidates.select(inside)
        features = {
            "positions": positions,
            "second_positions": second_positions,
            "segments": segments,
            "speakers": self.speakers[lowest:highest],
            "genre": np.array([self.genre], dtype=np.int64),
            "first": candidates.first - lowest,
            "last": candidates.last - lowest,
            "starts": candidates.starts,
            "ends": candidates.ends,
            "given": candidates.given,
        }
        return Sample(
            example=self.example,
            sequences=tuple(segment.sequence for segment in chosen),
            features=features,
            fixed=np.concatenate([segment.flags(first=self.is_mention) for segment in chosen]),
            targets={} if self.clusters is None else {"clusters": self.clusters[inside]},
            truncated=self.truncated,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class SegmentWindows:
    """Draws windows of `count` segments from a long document, for training."""

    document: DocumentArrays
    count: int

    def __call__(self, random: np.random.Generator) -> Sample:
        """A window, drawn uniformly."""
        start = int(random.integers(len(self.document.segments) - self.count + 1))
        return self.document.window(start, start + self.count)
