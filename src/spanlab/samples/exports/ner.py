"""Entities: all of them, nested ones too, in JSON lines; the outermost in columns, which cannot nest."""

from collections.abc import Sequence

from spanlab.samples.exports.records import Record
from spanlab.samples.exports.tokens import Span, token_range, tokenize
from spanlab.samples.passage import Mention, Passage, Sentence
from spanlab.text.tag_schemes import spans_to_tags


def entities(passages: Sequence[Passage]) -> list[Record]:
    """Every passage with its typed spans, outer before inner."""
    return [{"id": passage.id, "text": passage.text, "spans": typed_spans(passage)} for passage in passages]


def typed_spans(passage: Passage) -> list[Record]:
    """The entities of a passage, in the order of the text."""
    return [{"start": entity.start, "end": entity.end, "label": entity.label} for entity in passage.entities]


def columns(passages: Sequence[Passage]) -> str:
    """CoNLL columns, word and IOB2 tag: a `-DOCSTART-` before each passage, a blank line after each sentence."""
    lines = []
    for passage in passages:
        lines += ["-DOCSTART- O", ""]
        for sentence in passage.sentences:
            tokens = tokenize(passage, sentence)
            tags = _tags(passage, sentence, tokens)
            words = (passage.text[start:end] for start, end in tokens)
            lines += [*(f"{word} {tag}" for word, tag in zip(words, tags, strict=True)), ""]
    return "\n".join(lines) + "\n"


def outermost(passage: Passage, sentence: Sentence) -> list[Mention]:
    """The entities of a sentence that stand in no other entity."""
    kept: list[Mention] = []
    for entity in passage.entities:
        inside = sentence.start <= entity.start < sentence.end
        if inside and (not kept or entity.start >= kept[-1].end):
            kept.append(entity)
    return kept


def _tags(passage: Passage, sentence: Sentence, tokens: list[Span]) -> list[str]:
    spans = []
    for entity in outermost(passage, sentence):
        first, last = token_range(passage, tokens, entity)
        spans.append((first, last + 1, entity.label or ""))
    return spans_to_tags(spans, len(tokens), "IOB2")
