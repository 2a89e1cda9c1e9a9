"""Texts to be turned into other texts: a passage into its title."""

from collections.abc import Sequence

from spanlab.samples.exports.records import Record
from spanlab.samples.passage import Passage


def titles(passages: Sequence[Passage]) -> list[Record]:
    """Every passage as the source, its title as the target."""
    return [{"id": passage.id, "source": passage.text, "target": passage.title} for passage in passages]
