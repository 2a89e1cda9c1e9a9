"""Pairs of sentences that say the same, or look alike and do not."""

from collections.abc import Sequence

from spanlab.samples.exports.records import Record
from spanlab.samples.passage import Passage


def pairs(passages: Sequence[Passage]) -> list[Record]:
    """Every pair, labelled `same` or `different`."""
    return [
        {
            "id": f"{passage.id}-p{number}",
            "text_a": pair.text_a,
            "text_b": pair.text_b,
            "label": "same" if pair.same else "different",
        }
        for passage in passages
        for number, pair in enumerate(passage.pairs, start=1)
    ]
