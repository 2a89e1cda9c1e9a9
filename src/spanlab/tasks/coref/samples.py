"""A document as arrays, and any run of its segments as a sample: all of them in prediction, a drawn window in training.

What enters are a document's units, segments and candidates; what leaves are samples whose positions count from the
first token of their own first segment.

Shapes: N tokens, C candidates, K segments.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from spanlab.arrays import Flags, Integers, offsets
from spanlab.tasks.sample import Sample
from spanlab.tasks.spans.representation import enumerate_spans
from spanlab.tasks.spans.units import LabelUnits
from spanlab.tasks.windows import InputWindow
from spanlab.text.windows import Window, cut_windows


def cut_segments(count: int, room: int, sentence_ends: Integers, word_ends: Integers) -> list[Window]:
    """Windows that follow each other, each of at most `room` tokens.

    Args:
        count: N.
        room: the most tokens of a segment.
        sentence_ends: token numbers after the last token of each sentence, ascending.
        word_ends: the same of each word; only a word longer than `room` is cut.
    """
    windows, start = [], 0
    while start < count:
        limit = min(start + room, count)
        end = limit
        if limit < count:
            end = _last_within(sentence_ends, start, limit) or _last_within(word_ends, start, limit) or limit
        windows.append(Window(start, end))
        start = end
    return windows


def _last_within(ends: Integers, start: int, limit: int) -> int | None:
    """The last end that lies after `start` and not after `limit`."""
    place = int(np.searchsorted(ends, limit, side="right")) - 1
    return int(ends[place]) if place >= 0 and ends[place] > start else None


def cut_overlapping(count: int, room: int) -> list[Window]:
    """Windows of `room` tokens, each beginning in the middle of the one before."""
    return cut_windows(count, length=room, stride=max(1, room // 2))


@dataclass(frozen=True, kw_only=True, eq=False)
class TokenPlaces:
    """Where the tokens of a document stand among the tokens of all its sequences, laid end to end."""

    first: Integers
    """(N,) in the first segment that holds the token."""
    second: Integers
    """(N,) in the last one that does: another where segments overlap."""
    segment: Integers
    """(N,) the number of the first."""


def locate_tokens(windows: Sequence[Window], sequence_starts: Sequence[int], text_starts: Sequence[int]) -> TokenPlaces:
    """The places of all tokens.

    Args:
        windows: (K,) the segments, which leave out no token.
        sequence_starts: (K,) where each one's sequence begins among all.
        text_starts: (K,) where the text begins in each sequence, after special tokens.
    """
    count = windows[-1].end
    first, second, segment = (np.full(count, -1, dtype=np.int64) for _ in range(3))
    for number, window in enumerate(windows):
        here = slice(window.start, window.end)
        places = sequence_starts[number] + text_starts[number] + np.arange(len(window))
        new = first[here] < 0
        first[here][new] = places[new]
        segment[here][new] = number
        second[here] = places
    return TokenPlaces(first=first, second=second, segment=segment)


Range = tuple[int, int]


@dataclass(frozen=True, kw_only=True, eq=False)
class Candidates:
    """C spans of a document."""

    first: Integers
    """(C,) their first tokens."""
    last: Integers
    """(C,) their last tokens, inclusive."""
    starts: Integers
    """(C,) their first characters."""
    ends: Integers
    """(C,) where they end, exclusive."""
    sure: Flags
    """(C,) whether the user said that it is a mention."""

    def __len__(self) -> int:
        return len(self.first)

    def find(self, spans: Sequence[Range]) -> Integers:
        """(len(spans),) the number of the candidate with these characters; -1 where there is none."""
        wanted = np.array(spans, dtype=np.int64).reshape(-1, 2)
        if not len(self):
            return np.full(len(wanted), -1)
        width = int(max(self.ends.max(), wanted.max(initial=0))) + 1
        keys, searched = self.starts * width + self.ends, wanted[:, 0] * width + wanted[:, 1]
        order = np.argsort(keys, kind="stable")
        places = np.minimum(np.searchsorted(keys, searched, sorter=order), len(keys) - 1)
        found = order[places]
        return np.where(keys[found] == searched, found, -1)

    def select(self, chosen: Flags | Integers) -> "Candidates":
        """Some of them."""
        return Candidates(
            first=self.first[chosen],
            last=self.last[chosen],
            starts=self.starts[chosen],
            ends=self.ends[chosen],
            sure=self.sure[chosen],
        )


def list_candidates(units: LabelUnits, sentences: Sequence[Range], max_width: int, sure: Sequence[Range]) -> Candidates:
    """Every span within a sentence that is at most `max_width` pieces wide, and all `sure` ones."""
    begins = np.searchsorted(units.starts, [start for start, _ in sentences[1:]])
    edges = np.concatenate(([0], begins, [len(units)])).astype(np.int64)
    first_unit, last_unit = enumerate_spans(edges[:-1], np.diff(edges), max_width)
    first, last = units.first_tokens[first_unit], units.last_tokens[last_unit]
    narrow = last - first < max_width
    found = Candidates(
        first=first[narrow],
        last=last[narrow],
        starts=units.starts[first_unit[narrow]],
        ends=units.ends[last_unit[narrow]],
        sure=np.zeros(int(narrow.sum()), dtype=bool),
    )
    return _joined(found, only_sure(units, sure)) if sure else found


def only_sure(units: LabelUnits, spans: Sequence[Range]) -> Candidates:
    """The spans that the user gave, each with the tokens of every unit it touches."""
    given = np.array(sorted(set(spans)), dtype=np.int64).reshape(-1, 2)
    starts, ends = given[:, 0], given[:, 1]
    first = np.minimum(np.searchsorted(units.ends, starts, side="right"), len(units) - 1)
    last = np.maximum(np.searchsorted(units.starts, ends, side="left") - 1, first)
    return _in_order(
        Candidates(
            first=units.first_tokens[first],
            last=units.last_tokens[last],
            starts=starts,
            ends=ends,
            sure=np.ones(len(given), dtype=bool),
        )
    )


def _joined(found: Candidates, sure: Candidates) -> Candidates:
    """Both together, a span that is in both only once."""
    doubled = found.find(list(zip(sure.starts.tolist(), sure.ends.tolist(), strict=True)))
    others = np.ones(len(found), dtype=bool)
    others[doubled[doubled >= 0]] = False
    rest = found.select(others)
    return _in_order(
        Candidates(
            first=np.concatenate([rest.first, sure.first]),
            last=np.concatenate([rest.last, sure.last]),
            starts=np.concatenate([rest.starts, sure.starts]),
            ends=np.concatenate([rest.ends, sure.ends]),
            sure=np.concatenate([rest.sure, sure.sure]),
        )
    )


def _in_order(candidates: Candidates) -> Candidates:
    return candidates.select(np.lexsort((candidates.last, candidates.first)))


@dataclass(frozen=True, kw_only=True, eq=False)
class DocumentArrays:
    """One document, cut and framed."""

    example: int
    framed: Sequence[InputWindow]
    """(K,) its segments."""
    candidates: Candidates
    speakers: Integers
    """(N,) who says each token; 0 for nobody."""
    genre: int
    clusters: Integers | None = field(default=None)
    """(C,) the cluster of each candidate, from 1; 0 for none; None where nothing is known."""
    truncated: bool = False

    def whole(self) -> Sample:
        """All segments."""
        return self.window(0, len(self.framed))

    def for_training(self, most: int) -> Sample:
        """All segments, or where there are more than `most`, a window of so many, drawn anew each time."""
        if not most or len(self.framed) <= most:
            return self.whole()
        return replace(self.window(0, most), draw=SegmentWindows(document=self, count=most))

    def window(self, start: int, end: int) -> Sample:
        """Segments `start` to `end` (exclusive)."""
        framed = self.framed[start:end]
        lowest, highest = framed[0].first.start, framed[-1].first.end
        lengths = np.array([len(each.sequence) for each in framed])
        places = locate_tokens(
            [Window(each.first.start - lowest, each.first.end - lowest) for each in framed],
            offsets(lengths).tolist(),
            [each.first_start for each in framed],
        )
        inside = (self.candidates.first >= lowest) & (self.candidates.last < highest)
        chosen = self.candidates.select(inside)
        features = {
            "places": places.first,
            "second_places": places.second,
            "segments": places.segment,
            "speakers": self.speakers[lowest:highest],
            "genre": np.array([self.genre], dtype=np.int64),
            "first": chosen.first - lowest,
            "last": chosen.last - lowest,
            "starts": chosen.starts,
            "ends": chosen.ends,
            "sure": chosen.sure,
        }
        return Sample(
            example=self.example,
            sequences=tuple(each.sequence for each in framed),
            features=features,
            targets={} if self.clusters is None else {"clusters": self.clusters[inside]},
            truncated=self.truncated,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class SegmentWindows:
    """Windows of a long document's segments, as training draws them."""

    document: DocumentArrays
    count: int

    def __call__(self, random: np.random.Generator) -> Sample:
        """A window, each as likely as the others."""
        start = int(random.integers(len(self.document.framed) - self.count + 1))
        return self.document.window(start, start + self.count)
