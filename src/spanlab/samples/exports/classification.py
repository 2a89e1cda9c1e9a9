"""Passages with one label: the topic, or the opinion of those that have one."""

from collections.abc import Sequence

from spanlab.samples.exports.records import Record
from spanlab.samples.passage import Passage


def topics(passages: Sequence[Passage]) -> list[Record]:
    """Every passage with its topic."""
    return [{"id": passage.id, "text": passage.text, "label": passage.topic} for passage in passages]


def sentiments(passages: Sequence[Passage]) -> list[Record]:
    """The reviews and letters with their sentiment."""
    return [
        {"id": passage.id, "text": passage.text, "label": passage.sentiment}
        for passage in passages
        if passage.sentiment
    ]
