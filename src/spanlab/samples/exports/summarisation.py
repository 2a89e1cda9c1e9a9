"""Summaries: which sentences are key, or the key sentences as the summary of the text."""

from collections.abc import Sequence

from spanlab.samples.exports.records import Record, json_lines
from spanlab.samples.markup import JOINTS
from spanlab.samples.passage import Passage


def key_sentences(passages: Sequence[Passage]) -> list[Record]:
    """Every passage as its sentences, labelled 1 where they are key."""
    return [
        {
            "id": passage.id,
            "sentences": [passage.span(sentence) for sentence in passage.sentences],
            "labels": [int(sentence.key) for sentence in passage.sentences],
        }
        for passage in passages
    ]


def summaries(passages: Sequence[Passage]) -> str:
    """JSON lines of texts, each with its key sentences put together as the summary."""
    return json_lines([{"id": passage.id, "text": passage.text, "summary": _summary(passage)} for passage in passages])


def _summary(passage: Passage) -> str:
    return JOINTS[passage.language].join(passage.span(sentence) for sentence in passage.sentences if sentence.key)
