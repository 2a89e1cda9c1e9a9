"""A document as arrays, and any run of its segments as a sample: all of them in prediction, a drawn window in training.

What enters are a document's units, segments and candidates; what leaves are samples whose positions count from the
first token of their own first segment.

Shapes: N tokens, C candidates, K segments.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from spanlab.tasks.coref.candidates import Candidates
from spanlab.tasks.coref.segments import locate_tokens
from spanlab.tasks.sample import Sample
from spanlab.tasks.windows import InputWindow
from spanlab.text.windows import Window

Integers = NDArray[np.int64]


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
        lengths = [len(each.sequence) for each in framed]
        places = locate_tokens(
            [Window(each.first.start - lowest, each.first.end - lowest) for each in framed],
            (np.cumsum(lengths) - lengths).tolist(),
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
