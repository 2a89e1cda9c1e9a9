"""Coreference documents as users write them: what can be wrong with one, and the document once nothing is.

What enters is a row with a `text` and `clusters` of `[start, end]` in characters, the end exclusive; beside them may
stand `sentences` `[[start, end], …]`, `words` likewise, `speakers` `[[start, end, name], …]`, a `genre`, and `mentions`
`[[start, end], …]` that are to be resolved in place of those the model would find. What leaves are problems, or the
document with its mentions in the order of the text.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from spanlab.tasks.formats.row import Row
from spanlab.tasks.spans.labelled import crossing_problems, offset_problems, strip_span
from spanlab.tasks.validation import Problem, clip_repr, read_id, text_problems
from spanlab.text.sentences import sentence_spans

Range = tuple[int, int]
_MASCULINE = frozenset(["he", "him", "his", "himself"])
_FEMININE = frozenset(["she", "her", "hers", "herself"])


@dataclass(frozen=True, kw_only=True)
class GapQuestion:
    """A pronoun, two names, and which of them it means."""

    pronoun: Range
    names: tuple[Range, Range]
    meant: tuple[bool, bool] | None
    """None where nobody says."""

    @property
    def spans(self) -> tuple[Range, ...]:
        """All three."""
        return (self.pronoun, *self.names)

    def answer(self, clusters: Sequence[Sequence[Range]]) -> tuple[bool, bool]:
        """Which names are in the pronoun's cluster."""
        home = next((set(cluster) for cluster in clusters if self.pronoun in cluster), set[Range]())
        return self.names[0] in home, self.names[1] in home


def gender(pronoun: str) -> str | None:
    """`masculine`, `feminine`, or None for any other word."""
    word = pronoun.lower()
    return "masculine" if word in _MASCULINE else "feminine" if word in _FEMININE else None


def read_gap_question(values: Mapping[str, Any]) -> GapQuestion:
    """The question of a row without problems."""
    pronoun, a, b = ((int(values[name][0]), int(values[name][1])) for name in ("pronoun", "a", "b"))
    meant = values.get("a_coref"), values.get("b_coref")
    told = None if None in meant else (bool(meant[0]), bool(meant[1]))
    return GapQuestion(pronoun=pronoun, names=(a, b), meant=told)


def gap_problems(text: str, values: Mapping[str, Any], *, labelled: bool) -> Iterator[Problem]:
    """Spans outside the text, a pronoun of no gender, and what nobody says."""
    for name in ("pronoun", "a", "b"):
        span = values.get(name)
        if not isinstance(span, list | tuple) or len(span) != 2 or not 0 <= span[0] < span[1] <= len(text):
            yield Problem(kind="span outside the text", cause=f"'{name}' is {span}, in {len(text)} characters")
            return
    start, end = values["pronoun"]
    if gender(text[start:end]) is None:
        yield Problem(kind="no pronoun", cause=f"the pronoun is '{text[start:end]}'", fix="GAP asks about he and she")
    for name in ("a_coref", "b_coref"):
        if labelled and not isinstance(values.get(name), bool):
            yield Problem(kind="missing field", cause=f"'{name}' is {values.get(name)}", fix="write TRUE or FALSE")


"""Characters of a text, the end exclusive."""
Cluster = tuple[Range, ...]


@dataclass(frozen=True, kw_only=True)
class CorefExample:
    """A document and what is known about it."""

    id: str | None
    text: str
    clusters: tuple[Cluster, ...] = ()
    """Mentions in the order of the text; empty where nothing is known."""
    sentences: tuple[Range, ...] | None = None
    """None: they are told by rule."""
    words: tuple[Range, ...] | None = None
    speakers: tuple[tuple[int, int, str], ...] = ()
    """Who says which characters."""
    genre: str | None = None
    mentions: tuple[Range, ...] | None = None
    """The mentions to resolve; None: the model finds them."""
    question: GapQuestion | None = None
    """A pronoun and two names, where the document is a question of GAP."""
    row: Row = field(repr=False, compare=False)


def read_document(row: Row, *, labelled: bool) -> CorefExample:
    """A row without problems as a document."""
    values = row.values
    question = read_gap_question(values) if "pronoun" in values else None
    clusters = values.get("clusters") if labelled and question is None else None
    return CorefExample(
        id=read_id(row),
        text=str(values["text"]),
        clusters=tuple(_ranges(cluster) for cluster in clusters or () if cluster),
        sentences=None if values.get("sentences") is None else _ranges(values["sentences"]),
        words=None if values.get("words") is None else _ranges(values["words"]),
        speakers=tuple((a, b, str(name)) for a, b, name in values.get("speakers") or () if name is not None),
        genre=None if values.get("genre") is None else str(values["genre"]),
        mentions=None if values.get("mentions") is None else tuple(sorted(set(_ranges(values["mentions"])))),
        question=question,
        row=row,
    )


def sentences_of(example: CorefExample) -> tuple[Range, ...]:
    """Its sentences, as given or by rule."""
    return example.sentences or tuple(sentence_spans(example.text))


def _ranges(values: Sequence[Sequence[int]]) -> tuple[Range, ...]:
    return tuple(sorted({(int(value[0]), int(value[1])) for value in values}))


def document_problems(row: Row, *, labelled: bool) -> Iterator[Problem]:
    """Everything that is wrong with a row; of clusters only if it is `labelled`."""
    told = list(text_problems(row, "text"))
    yield from told
    if any(problem.serious for problem in told):
        return
    text = str(row.values["text"])
    yield from _context_problems(text, row.values)
    if "pronoun" in row.values:
        yield from gap_problems(text, row.values, labelled=labelled)
    elif labelled:
        yield from cluster_problems(text, row.values)


def _context_problems(text: str, values: Mapping[str, Any]) -> Iterator[Problem]:
    """Of what stands beside the clusters."""
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
    """What is wrong with clusters: their shape, their offsets, mentions that cross or are in two of them."""
    clusters = values.get("clusters")
    if not isinstance(clusters, list | tuple):
        cause = (
            "there is no 'clusters'" if clusters is None else f"'clusters' is {clip_repr(clusters)}; it must be a list"
        )
        yield Problem(kind="no clusters", cause=cause, fix='write "clusters": [[[start, end], …], …]')
        return
    repaired = {**values, "clusters": [[_repair(text, value) for value in c] for c in clusters if _is_list(c)]}
    home: dict[Range, int] = {}
    for number, cluster in enumerate(clusters):
        if not _is_list(cluster) or not cluster:
            yield Problem(kind="empty cluster", cause=f"cluster {number} is {clip_repr(cluster)}", fix="leave it out")
            continue
        wrong = [p for value in cluster for p in _range_problems(text, f"of cluster {number}", value, repaired)]
        yield from wrong
        if not wrong:
            yield from _membership_problems(number, [(value[0], value[1]) for value in cluster], home)


def _is_list(value: object) -> bool:
    return isinstance(value, list | tuple)


def _range_problems(
    text: str, where: str, value: object, repaired: Mapping[str, Any] | None = None
) -> Iterator[Problem]:
    edges = _edges(value)
    if edges is None:
        cause = f"a span {where} is {clip_repr(value)}"
        yield Problem(kind="span is no pair of numbers", cause=cause, fix="write [start, end]")
        return
    start, end = edges
    yield from offset_problems(text, start, end, f"the span {start} to {end} {where}", repaired)


def _edges(value: object) -> Range | None:
    """Start and end, if the value is such a pair."""
    if not isinstance(value, list | tuple) or len(value) != 2 or any(type(edge) is not int for edge in value):
        return None
    return value[0], value[1]


def _repair(text: str, value: object) -> object:
    """A span without space at its edges."""
    edges = _edges(value)
    return value if edges is None else list(strip_span(text, *edges))


def _membership_problems(number: int, cluster: Sequence[Range], home: dict[Range, int]) -> Iterator[Problem]:
    for start, end in sorted(set(cluster)):
        other = home.setdefault((start, end), number)
        if other != number:
            cause = f"the span {start} to {end} is in the clusters {other} and {number}"
            yield Problem(kind="mention in two clusters", cause=cause, fix="a mention belongs to one entity")
    yield from crossing_problems(sorted(set(cluster)), f" of cluster {number}")
