"""Candidate mentions of a document: every span of whole units within a sentence, up to a width in pieces.

What enters are the units of a document (words, or finer where mentions end inside words), its sentences, and spans that
are mentions for sure because the user gave them. What leaves are index arrays into the document's tokens with the
characters they cover, in the order of the text. A sure span keeps the user's own offsets, even where they fall inside a
unit.

Shapes: U units, C candidates.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spanlab.tasks.spans.representation import enumerate_spans
from spanlab.tasks.spans.units import LabelUnits

Integers = NDArray[np.int64]
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
    sure: NDArray[np.bool_]
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

    def select(self, chosen: NDArray[np.bool_] | Integers) -> "Candidates":
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
