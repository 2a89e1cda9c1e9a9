"""The clusters of a document as a result: for a program, for a reader, as text and as columns."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from spanlab.tasks.coref.pronouns import resolve_pronouns
from spanlab.tasks.result import Result
from spanlab.tasks.spans.html import draw_spans
from spanlab.text.conll_coref import CorefDocument, format_conll_coref
from spanlab.text.words import word_spans

Range = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class Mention:
    """A span that refers to something."""

    start: int
    end: int
    text: str
    score: float
    """The probability of what it was taken to refer to: an earlier mention, or nothing before it."""
    cluster: int
    """The number of its cluster."""


@dataclass(frozen=True, kw_only=True)
class CorefResult(Result):
    """The clusters of one document."""

    clusters: tuple[tuple[Range, ...], ...]
    """In the order of their first mentions, and mentions in the order of the text."""
    cluster_scores: tuple[float, ...]
    """The mean probability of each cluster's links; of a single mention, that of being one."""
    mentions: tuple[Mention, ...]
    """All of them in the order of the text."""
    source: str = field(metadata={"json": False})
    """The text they are of."""
    sentences: tuple[Range, ...] = field(default=(), metadata={"json": False})
    words: tuple[Range, ...] | None = field(default=None, metadata={"json": False})
    """None: they are told by rule."""

    def resolved(self) -> str:
        """The text with pronouns replaced by what they refer to."""
        return resolve_pronouns(self.source, self.clusters)

    def to_html(self) -> str:
        """The text with its clusters marked."""
        return draw_spans(self.source, [(m.start, m.end, str(m.cluster)) for m in self.mentions])

    def to_conll(self) -> str:
        """The document in the columns of CoNLL-2012; a mention that cuts a word takes the whole of it."""
        words = list(self.words if self.words is not None else word_spans(self.source))
        starts, ends = np.array([word[0] for word in words]), np.array([word[1] for word in words])

        def in_words(span: Range) -> Range:
            first = int(np.searchsorted(ends, span[0], side="right"))
            return first, max(first + 1, int(np.searchsorted(starts, span[1], side="left")))

        document = CorefDocument(
            id=self.id,
            part=0,
            sentences=tuple(_by_sentence(self.source, words, self.sentences)),
            clusters=tuple(tuple(sorted({in_words(span) for span in cluster})) for cluster in self.clusters),
        )
        return format_conll_coref(document)


def _by_sentence(text: str, words: Sequence[Range], sentences: Sequence[Range]) -> list[tuple[str, ...]]:
    """The words of each sentence."""
    begins = np.searchsorted([word[0] for word in words], [start for start, _ in sentences[1:]])
    edges = [0, *begins.tolist(), len(words)]
    spelt = [text[start:end] for start, end in words]
    return [tuple(spelt[a:b]) for a, b in pairwise(edges) if a < b]
