"""Documents with clusters of mentions: examples as users write them, and results.

Input: rows with a `text` and `clusters` of `[start, end]` in characters, the end exclusive; optionally `sentences`
`[[start, end], …]`, `words` likewise, `speakers` `[[start, end, name], …]`, a `genre`, and `mentions`
`[[start, end], …]`, which are resolved instead of predicted ones. A row of GAP has a `pronoun` and two names, `a` and
`b`, instead of clusters. Output: problems of a row, examples with mentions in the order of the text, results.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from spanlab.errors import clip_repr
from spanlab.tasks.coref.pronouns import gender, resolve_pronouns
from spanlab.tasks.formats.row import Row
from spanlab.tasks.result import Result
from spanlab.tasks.spans.html import draw_spans
from spanlab.tasks.spans.labelled import crossing_problems, offset_problems, strip_span
from spanlab.tasks.validation import Problem, read_id, text_problems
from spanlab.text.conll_coref import CorefDocument, format_conll_coref
from spanlab.text.sentences import sentence_spans
from spanlab.text.words import word_spans

Range = tuple[int, int]
"""Characters of a text, the end exclusive."""
Cluster = tuple[Range, ...]


@dataclass(frozen=True, kw_only=True)
class GapQuestion:
    """A question of GAP: a pronoun, two names, and which of them it refers to."""

    pronoun: Range
    names: tuple[Range, Range]
    gold: tuple[bool, bool] | None
    """None in an unlabelled row."""

    @property
    def spans(self) -> tuple[Range, ...]:
        """The pronoun and both names."""
        return (self.pronoun, *self.names)

    def answer(self, text: str, clusters: Sequence[Sequence[Range]]) -> tuple[bool, bool]:
        """Which names are in the pronoun's cluster: as a mention, as a part of one, or as another form of the name."""
        cluster = next((cluster for cluster in clusters if self.pronoun in cluster), ())
        first, second = (any(_names_same(text, name, mention) for mention in cluster) for name in self.names)
        if first and second:  # forms of a name do not decide between two people of one name
            exact = self.names[0] in cluster, self.names[1] in cluster
            return exact if any(exact) else (first, second)
        return first, second


def _names_same(text: str, name: Range, mention: Range) -> bool:
    """Whether a mention is a name, has it at its head (`Ms. Joesoef`), or is a shorter or longer form of it.

    `Anna's brother` begins with a name, and is not the person of that name.
    """
    if mention == name:
        return True
    words, others = (text[slice(*span)].lower().split() for span in (name, mention))
    if name[0] < mention[1] and mention[0] < name[1]:  # at the same place of the text
        begins = mention[0] == name[0] and text[name[1] : name[1] + 1] == ","
        return mention[0] <= name[0] and name[1] <= mention[1] and (begins or mention[1] == name[1])
    return bool(words and others) and (set(words) <= set(others) or set(others) <= set(words)) and words[-1] in others


@dataclass(frozen=True, kw_only=True)
class CorefExample:
    """A document and its annotation."""

    id: str | None
    text: str
    clusters: tuple[Cluster, ...] = ()
    """Mentions in the order of the text; empty in an unlabelled row."""
    sentences: tuple[Range, ...] | None = None
    """None: split by `sentence_spans`."""
    words: tuple[Range, ...] | None = None
    speakers: tuple[tuple[int, int, str], ...] = ()
    """Start, end and name."""
    genre: str | None = None
    mentions: tuple[Range, ...] | None = None
    """The mentions to resolve; None: they are predicted."""
    question: GapQuestion | None = None
    row: Row = field(repr=False, compare=False)

    @property
    def sentence_spans(self) -> tuple[Range, ...]:
        """The given sentences, or those of the sentence splitter."""
        return self.sentences or tuple(sentence_spans(self.text))


@dataclass(frozen=True, kw_only=True)
class Mention:
    """A span that refers to something."""

    start: int
    end: int
    text: str
    score: float
    """The probability of its antecedent, or of having none."""
    cluster: int
    """The index of its cluster."""


@dataclass(frozen=True, kw_only=True)
class CorefResult(Result):
    """The clusters of one document."""

    clusters: tuple[Cluster, ...]
    """In the order of their first mentions, and mentions in the order of the text."""
    cluster_scores: tuple[float, ...]
    """The mean probability of each cluster's links; of a single mention, that of being one."""
    mentions: tuple[Mention, ...]
    """All mentions in the order of the text."""
    source: str = field(metadata={"json": False})
    """The text."""
    sentences: tuple[Range, ...] = field(default=(), metadata={"json": False})
    words: tuple[Range, ...] | None = field(default=None, metadata={"json": False})
    """None: split by `word_spans`."""

    def resolved(self) -> str:
        """The text with pronouns replaced by what they refer to."""
        return resolve_pronouns(self.source, self.clusters)

    def to_html(self) -> str:
        """The text with its clusters marked."""
        return draw_spans(self.source, [(m.start, m.end, str(m.cluster)) for m in self.mentions])

    def to_conll(self) -> str:
        """The document in the columns of CoNLL-2012; a mention that ends inside a word takes all of it."""
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
    begins = np.searchsorted([word[0] for word in words], [start for start, _ in sentences[1:]])
    edges = [0, *begins.tolist(), len(words)]
    spelled = [text[start:end] for start, end in words]
    return [tuple(spelled[a:b]) for a, b in pairwise(edges) if a < b]


def parse_example(row: Row, *, labelled: bool) -> CorefExample:
    """A row without serious problems as an example."""
    values = row.values
    question = _read_gap_question(values) if "pronoun" in values else None
    clusters = values.get("clusters") if labelled and question is None else None
    return CorefExample(
        id=read_id(row),
        text=row.values["text"],
        clusters=tuple(_ranges(cluster) for cluster in clusters or () if cluster),
        sentences=None if values.get("sentences") is None else _ranges(values["sentences"]),
        words=None if values.get("words") is None else _ranges(values["words"]),
        speakers=tuple(
            (turn[0], turn[1], str(turn[2])) for turn in values.get("speakers") or () if turn[2] is not None
        ),
        genre=None if values.get("genre") is None else str(values["genre"]),
        mentions=None if values.get("mentions") is None else tuple(sorted(set(_ranges(values["mentions"])))),
        question=question,
        row=row,
    )


def _ranges(values: Sequence[Sequence[int]]) -> tuple[Range, ...]:
    return tuple(sorted({(int(value[0]), int(value[1])) for value in values}))


def example_problems(row: Row, *, labelled: bool) -> Iterator[Problem]:
    """Everything that is wrong with a row; with its clusters only if `labelled`."""
    problems = list(text_problems(row, "text"))
    yield from problems
    if any(problem.serious and (labelled or not problem.empty) for problem in problems):
        return
    text = str(row.values["text"])
    yield from _context_problems(text, row.values)
    if "pronoun" in row.values:
        yield from _gap_problems(text, row.values, labelled=labelled)
    elif labelled:
        yield from cluster_problems(text, row.values)


def _read_gap_question(values: Mapping[str, Any]) -> GapQuestion:
    pronoun, a, b = ((int(values[name][0]), int(values[name][1])) for name in ("pronoun", "a", "b"))
    refers = values.get("a_coref"), values.get("b_coref")
    gold = None if None in refers else (bool(refers[0]), bool(refers[1]))
    return GapQuestion(pronoun=pronoun, names=(a, b), gold=gold)


def _gap_problems(text: str, values: Mapping[str, Any], *, labelled: bool) -> Iterator[Problem]:
    for name in ("pronoun", "a", "b"):
        span = values.get(name)
        if not isinstance(span, list | tuple) or len(span) != 2 or not 0 <= span[0] < span[1] <= len(text):
            yield Problem(kind="span outside the text", cause=f"'{name}' is {span}, in {len(text)} characters")
            return
    start, end = values["pronoun"]
    if gender(text[start:end]) is None:
        cause = f"the pronoun is '{text[start:end]}'"
        yield Problem(kind="no pronoun", cause=cause, fix="GAP has forms of he and she only")
    for name in ("a_coref", "b_coref"):
        if labelled and not isinstance(values.get(name), bool):
            yield Problem(kind="missing field", cause=f"'{name}' is {values.get(name)}", fix="write TRUE or FALSE")


def _context_problems(text: str, values: Mapping[str, Any]) -> Iterator[Problem]:
    """Problems of the optional fields."""
    for name in ("sentences", "words", "mentions"):
        if values.get(name) is not None:
            yield from _list_problems(text, name, values[name])
    speakers = values.get("speakers")
    if speakers is None:
        return
    if not isinstance(speakers, list | tuple) or not all(_is_turn(turn) for turn in speakers):
        cause = f"'speakers' is {clip_repr(speakers)}"
        yield Problem(kind="speakers", cause=cause, fix="write [[start, end, name], …]")
        return
    yield from _list_problems(text, "speakers", [turn[:2] for turn in speakers])


def _is_turn(value: object) -> bool:
    return isinstance(value, list | tuple) and len(value) == 3 and isinstance(value[2], str | None)


def _list_problems(text: str, name: str, values: object) -> Iterator[Problem]:
    if not isinstance(values, list | tuple):
        yield Problem(kind=f"no {name}", cause=f"'{name}' is {clip_repr(values)}; it must be a list")
        return
    for value in values:
        yield from _range_problems(text, f"in '{name}'", value)


def cluster_problems(text: str, values: Mapping[str, Any]) -> Iterator[Problem]:
    """What is wrong with clusters: their type, their offsets, mentions that cross or are in two clusters."""
    clusters = values.get("clusters")
    if not isinstance(clusters, list | tuple):
        cause = (
            "'clusters' is missing" if clusters is None else f"'clusters' is {clip_repr(clusters)}; it must be a list"
        )
        yield Problem(kind="no clusters", cause=cause, fix='write "clusters": [[[start, end], …], …]')
        return
    repaired = {**values, "clusters": [[_repaired(text, value) for value in c] for c in clusters if _is_list(c)]}
    cluster_of: dict[Range, int] = {}
    for index, cluster in enumerate(clusters):
        if not _is_list(cluster) or not cluster:
            yield Problem(kind="empty cluster", cause=f"cluster {index} is {clip_repr(cluster)}", fix="leave it out")
            continue
        problems = [p for value in cluster for p in _range_problems(text, f"of cluster {index}", value, repaired)]
        yield from problems
        if not problems:
            yield from _membership_problems(index, [(value[0], value[1]) for value in cluster], cluster_of)


def _is_list(value: object) -> bool:
    return isinstance(value, list | tuple)


def _range_problems(
    text: str, where: str, value: object, repaired: Mapping[str, Any] | None = None
) -> Iterator[Problem]:
    edges = _edges(value)
    if edges is None:
        cause = f"a span {where} is {clip_repr(value)}"
        yield Problem(kind="span is not a pair of numbers", cause=cause, fix="write [start, end]")
        return
    start, end = edges
    yield from offset_problems(text, start, end, f"the span {start} to {end} {where}", repaired)


def _edges(value: object) -> Range | None:
    """Start and end, if the value is a pair of integers."""
    if not isinstance(value, list | tuple) or len(value) != 2 or any(type(edge) is not int for edge in value):
        return None
    return value[0], value[1]


def _repaired(text: str, value: object) -> object:
    """A span without space at its edges."""
    edges = _edges(value)
    return value if edges is None else list(strip_span(text, *edges))


def _membership_problems(index: int, cluster: Sequence[Range], cluster_of: dict[Range, int]) -> Iterator[Problem]:
    for start, end in sorted(set(cluster)):
        other = cluster_of.setdefault((start, end), index)
        if other != index:
            cause = f"the span {start} to {end} is in the clusters {other} and {index}"
            yield Problem(kind="mention in two clusters", cause=cause, fix="a mention belongs to one entity")
    yield from crossing_problems(sorted(set(cluster)), f" of cluster {index}")
