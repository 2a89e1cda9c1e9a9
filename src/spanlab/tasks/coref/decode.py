"""The clusters of a document as a result: for a program, for a reader, as text and as columns."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from spanlab.arrays import Integers
from spanlab.tasks.result import Result
from spanlab.tasks.sample import Arrays
from spanlab.tasks.spans.html import draw_spans
from spanlab.text.conll_coref import CorefDocument, format_conll_coref
from spanlab.text.words import word_spans

Range = tuple[int, int]

_POSSESSIVE = frozenset(["my", "your", "his", "her", "its", "our", "their", "mine", "yours", "hers", "ours", "theirs"])
_ENGLISH = frozenset(
    [
        *("i", "me", "myself", "you", "yourself", "yourselves", "he", "him", "himself", "she", "herself", "it"),
        *("itself", "we", "us", "ourselves", "they", "them", "themselves", "who", "whom", "thou", "thee"),
    ]
)
_EASTERN = frozenset(
    ["他", "她", "它", "他们", "她们", "它们", "我", "我们", "你", "你们", "그", "그녀", "그들", "그것", "나", "우리"]
)
_PRONOUNS = _ENGLISH | _POSSESSIVE | _EASTERN


def is_pronoun(text: str) -> bool:
    """Whether a mention is a pronoun and no more."""
    return text.lower() in _PRONOUNS


def resolve_pronouns(text: str, clusters: Sequence[Sequence[Range]]) -> str:
    """The text with its pronouns replaced."""
    changes = []
    for cluster in clusters:
        name = representative([text[start:end] for start, end in cluster])
        if name is not None:
            changes += [(start, end, name) for start, end in cluster if is_pronoun(text[start:end])]
    parts, place = [], 0
    for start, end, name in sorted(changes):
        if start >= place:
            parts += [text[place:start], _in_place_of(text, start, end, name)]
            place = end
    return "".join([*parts, text[place:]])


def representative(mentions: Sequence[str]) -> str | None:
    """The name that stands for a cluster: the most frequent capitalised mention, else the first that is no pronoun."""
    nouns = [mention for mention in mentions if not is_pronoun(mention)]
    names = Counter(mention for mention in nouns if mention[:1].isupper() and mention.split()[-1][:1].isupper())
    if names:
        return names.most_common(1)[0][0]
    return nouns[0] if nouns else None


def _in_place_of(text: str, start: int, end: int, name: str) -> str:
    pronoun = text[start:end].lower()
    if pronoun not in _POSSESSIVE or (pronoun == "her" and not _noun_follows(text, end)):
        return name
    return name + ("'" if name.endswith("s") else "'s")


def _noun_follows(text: str, place: int) -> bool:
    """Whether `her` owns something: another word stands right after it."""
    following = text[place : place + 2]
    return len(following) == 2 and following[0] == " " and following[1].isalpha()


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


@dataclass(frozen=True, eq=False, kw_only=True)
class Links:
    """What the head says of one document, on the host."""

    kept: Integers
    """(M,) the numbers of the kept candidates, in the order of the text."""
    mention_scores: NDArray[np.float32]
    """(M,) logits of being a mention."""
    antecedents: Integers
    """(M,) the number, among the kept, of what each refers to; -1 for nothing."""
    link_scores: NDArray[np.float32]
    """(M,) the probability of that choice."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """The clusters of a document."""

    clusters: tuple[tuple[tuple[int, int], ...], ...]
    scores: tuple[float, ...]
    mentions: tuple[Mention, ...]


def follow_links(antecedents: Integers) -> Integers:
    """(M,) the first mention of each one's chain; an antecedent is an earlier mention, or -1."""
    roots = np.arange(len(antecedents))
    for number, antecedent in enumerate(antecedents.tolist()):
        if antecedent >= 0:
            roots[number] = roots[antecedent]
    return roots


def join_links(text: str, features: Arrays, links: Links, *, singletons: bool) -> Found:
    """Clusters of all mentions that link; with `singletons` also those that are probably mentions, or were given."""
    starts, ends, sure = (features[name][links.kept] for name in ("starts", "ends", "sure"))
    roots = follow_links(links.antecedents)
    linked = np.bincount(roots, minlength=len(roots))[roots] > 1
    told = linked | (singletons & (sure.astype(bool) | (links.mention_scores > 0)))
    order = np.flatnonzero(told)
    order = order[np.lexsort((ends[order], starts[order]))]
    numbers: dict[int, int] = {}
    members: list[list[int]] = []
    mentions = []
    for place in order.tolist():
        number = numbers.setdefault(int(roots[place]), len(members))
        if number == len(members):
            members.append([])
        members[number].append(place)
        start, end = int(starts[place]), int(ends[place])
        score = round(float(links.link_scores[place]), 6)
        mentions.append(Mention(start=start, end=end, text=text[start:end], score=score, cluster=number))
    clusters = tuple(tuple((int(starts[place]), int(ends[place])) for place in places) for places in members)
    scores = tuple(_cluster_score(links, places) for places in members)
    return Found(clusters=clusters, scores=scores, mentions=tuple(mentions))


def _cluster_score(links: Links, places: Sequence[int]) -> float:
    """The mean probability of the links; of a single mention, that of being one."""
    linked = [float(links.link_scores[place]) for place in places if links.antecedents[place] >= 0]
    if not linked:
        return round(float(1 / (1 + np.exp(-links.mention_scores[places[0]]))), 6)
    return round(sum(linked) / len(linked), 6)
