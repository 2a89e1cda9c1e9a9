"""The labelled spans of a text as units, for heads that label units or spans of them.

What enters are spans by characters; what leaves is the first and last unit of each that fits. One that begins or ends
inside a unit, or is wider than a head looks, is refused with its row, or left out on request.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spanlab.tasks.formats.row import Row
from spanlab.tasks.spans.labelled import TextSpan
from spanlab.tasks.spans.units import LabelUnits

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False, kw_only=True)
class GoldUnits:
    """The entities of a text by units."""

    first: Integers
    last: Integers
    labels: Integers
    """By their place among the labels that were given."""
    numbers: Integers
    """Which of the spans each is: those left out are missing."""


def find_gold(
    spans: Sequence[TextSpan],
    row: Row,
    units: LabelUnits,
    labels: Sequence[str],
    *,
    max_width: int | None,
    refuse: bool,
    setting: str = "span.max_width",
) -> GoldUnits:
    """The spans as units; one that does not fit is refused, or left out without `refuse`.

    Args:
        spans: Of the row's text, in any order.
        row: Where they stand.
        units: Of the same text.
        labels: All labels.
        max_width: The widest span that can be told, in units; None: any.
        refuse: Whether one that does not fit is an error.
        setting: What the user calls `max_width`.
    """
    starts, ends = (np.array([getattr(span, end) for span in spans], np.int64) for end in ("start", "end"))
    number = {label: place for place, label in enumerate(labels)}
    first, last = units.find(starts, ends)
    too_wide = last - first >= (len(units) if max_width is None else max_width)
    if refuse:
        for place in np.flatnonzero(first < 0).tolist():
            span = spans[place]
            found = str(row.values["text"])[span.start : span.end]
            cause = f"the entity {found!r} ({span.start} to {span.end}) begins or ends inside a unit"
            raise row.error(cause, "correct it, take units=character, or data.bad_rows=drop")
        for place in np.flatnonzero(too_wide).tolist():
            width = int(last[place] - first[place]) + 1
            cause = f"an entity is {width} units wide, and {setting} is {max_width}"
            raise row.error(cause, f"take {setting}={width}, or data.bad_rows=drop")
    kept = np.flatnonzero((first >= 0) & ~too_wide)
    numbered = np.array([number[span.label] for span in spans], dtype=np.int64)
    return GoldUnits(first=first[kept], last=last[kept], labels=numbered[kept], numbers=kept)
