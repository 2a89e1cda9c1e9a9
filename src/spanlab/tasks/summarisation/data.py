"""Texts and their summaries as users write them, and summaries as results.

What enters is a row of one of three shapes: `{"sentences": [], "labels": []}` with a 1 for every sentence of the
summary; `{"text", "summary"}`; or SciTLDR's own `{"source": [], "source_labels": [], "target": []}`. A summary may be a
list of alternatives. `limit` and `limit_by` may stand in a row in place of the model's own. What leaves are problems,
examples, or results; a text that came as a list is its sentences put together, and offsets count in that.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, get_args

from spanlab.errors import ConfigError
from spanlab.metrics.generation import rouge_words
from spanlab.tasks.formats.row import Row
from spanlab.tasks.result import Result
from spanlab.tasks.spans.html import draw_spans
from spanlab.tasks.summarisation.decode import Limit, LimitUnit, sentence_words
from spanlab.tasks.validation import Problem, clip_repr, text_problems
from spanlab.text.sentences import sentence_spans
from spanlab.text.words import script_language

_ORDERS = (1, 2)

Words = Sequence[str]
NGrams = Counter[tuple[str, ...]]


class RougeOracle:
    """The search for one language."""

    def __init__(self, language: str) -> None:
        self._cut: Callable[[str], list[str]] = rouge_words(language)

    def choose(self, sentences: Sequence[str], references: Sequence[str], limit: Limit) -> list[int]:
        """The numbers of the best sentences, in the order of the text; none where nothing is shared."""
        words = [self._cut(sentence) for sentence in sentences]
        wanted = [_count(self._cut(reference)) for reference in references]
        room = limit.room([len(sentence_words(sentence)) for sentence in sentences])
        chosen: list[int] = []
        best = 0.0
        while True:
            tried = {
                number: _gain([words[each] for each in sorted((*chosen, number))], wanted)
                for number in range(len(words))
                if number not in chosen and room.holds(chosen, number)
            }
            number = max(tried, key=lambda each: (tried[each], -each), default=None)
            if number is None or tried[number] <= best:
                return sorted(chosen)
            best = tried[number]
            chosen.append(number)

    def likeness(self, summary: str, references: Sequence[str]) -> float:
        """ROUGE-1 F1 of a summary against the reference it is most like, 0 to 1."""
        found = self._cut(summary)
        return max(_f1(_ngrams(found, 1), _ngrams(self._cut(reference), 1)) for reference in references)


def _count(words: Words) -> list[NGrams]:
    return [_ngrams(words, order) for order in _ORDERS]


def _gain(sentences: Sequence[Words], references: Sequence[Sequence[NGrams]]) -> float:
    """ROUGE-1 + ROUGE-2 of sentences put together, against the reference that is best."""
    found = _count([word for words in sentences for word in words])
    return max(sum(_f1(*pair) for pair in zip(found, wanted, strict=True)) for wanted in references)


def _f1(found: NGrams, wanted: NGrams) -> float:
    both = found.total() + wanted.total()
    return 2 * (found & wanted).total() / both if both else 0.0


def _ngrams(words: Words, order: int) -> NGrams:
    return Counter(tuple(words[start : start + order]) for start in range(len(words) - order + 1))


_DOCUMENTS = ("text", "sentences", "source")
_LABELS = ("labels", "source_labels")
_SUMMARIES = ("summary", "target")
_JOINTS = {"en": " ", "ko": " ", "zh": ""}
"""What stands between two sentences."""


@dataclass(frozen=True, kw_only=True)
class SummaryExample:
    """A text with the places of its sentences; which of them are key, and what others wrote in its place."""

    id: str | None
    text: str
    spans: tuple[tuple[int, int], ...]
    labels: tuple[int, ...] | None = None
    """0 or 1 a sentence; None where only a reference tells."""
    references: tuple[str, ...] = ()
    limit: Limit | None = None
    """Its own, if it brought one."""

    @property
    def sentences(self) -> list[str]:
        """Their texts."""
        return [self.text[start:end] for start, end in self.spans]

    @cached_property
    def language(self) -> str:
        """Whose words and sentences these are, told from the script."""
        return script_language([self.text])

    def put_together(self, chosen: Sequence[int]) -> str:
        """The summary that some of its sentences make."""
        sentences = self.sentences
        return _JOINTS[self.language].join(sentences[number] for number in chosen)


@dataclass(frozen=True, kw_only=True)
class SummarySentence:
    """A sentence of the summary: characters of the text, and how sure the model is of it."""

    start: int
    end: int
    score: float
    index: int
    """Which sentence of the text it is, from 0."""


@dataclass(frozen=True, kw_only=True)
class SummaryResult(Result):
    """The chosen sentences, in the order of the text."""

    sentences: tuple[SummarySentence, ...]
    summary: str
    text: str = field(default="", metadata={"json": False})

    def to_html(self) -> str:
        """The text, the chosen sentences marked."""
        return draw_spans(self.text, [(each.start, each.end, "summary") for each in self.sentences])


def document_problems(row: Row) -> Iterator[Problem]:
    """What is wrong with a text, or with the list of its sentences."""
    document = _first(row.values, _DOCUMENTS)
    if isinstance(document, list | tuple):
        yield from _list_problems(document)
    else:
        yield from text_problems(Row(values={"text": document}), "text")
    try:
        _read_limit(row)
    except ConfigError as error:
        yield Problem(kind="wrong limit", cause=error.cause, fix=error.fix)


def _list_problems(sentences: Sequence[Any]) -> Iterator[Problem]:
    wrong = next((each for each in sentences if not isinstance(each, str)), None)
    if wrong is not None:
        yield Problem(kind="wrong type", cause=f"a sentence is {clip_repr(wrong)}; it must be text")
    elif not any(each.strip() for each in sentences):
        yield Problem(kind="no sentence", cause="the document has no sentence", fix="leave it out")
    else:
        yield from text_problems(Row(values={"sentences": " ".join(sentences)}), "sentences")
        blank = sum(not each.strip() for each in sentences)
        if blank:
            cause = f"{blank} of {len(sentences)} sentences are blank, and are passed over with their labels"
            yield Problem(kind="blank sentence", cause=cause, serious=False)


def key_problems(row: Row) -> Iterator[Problem]:
    """What is wrong with the labels and the reference of a row whose document is right."""
    labels, summary = _first(row.values, _LABELS), _first(row.values, _SUMMARIES)
    if labels is None and summary is None:
        fix = 'write "summary": "…", or "labels": [] beside "sentences"'
        yield Problem(kind="missing field", cause="there is neither a summary nor labels", fix=fix)
    if labels is not None:
        yield from _label_problems(labels, _first(row.values, _DOCUMENTS))
    if summary is not None:
        for each in _alternatives(summary):
            yield from text_problems(Row(values={"summary": each}), "summary")
        if not _alternatives(summary):
            yield Problem(kind="empty text", cause="'summary' is an empty list", fix="write one, or leave it out")


def _label_problems(labels: Any, document: Any) -> Iterator[Problem]:  # noqa: ANN401 (anything JSON holds)
    if not isinstance(labels, list | tuple):
        yield Problem(kind="wrong type", cause=f"'labels' is {clip_repr(labels)}; it must be a list")
    elif not isinstance(document, list | tuple):
        fix = 'write the text as "sentences": [], so that it is clear which is which'
        yield Problem(kind="labels without sentences", cause="there are labels, but no list of sentences", fix=fix)
    elif len(labels) != len(document):
        cause = f"{len(labels)} labels for {len(document)} sentences"
        yield Problem(kind="labels of another length", cause=cause, fix="give each sentence its label")
    elif any(not isinstance(label, int) or label not in (0, 1) for label in labels):
        yield Problem(kind="wrong label", cause=f"'labels' is {clip_repr(labels)}; a label is 0 or 1")
    elif not any(label and each.strip() for label, each in zip(labels, document, strict=True)):
        yield Problem(kind="nothing key", cause="no sentence is labelled 1", serious=False)


def read_document(row: Row, *, labelled: bool) -> SummaryExample:
    """A row without problems as an example."""
    values = row.values
    document = _first(values, _DOCUMENTS)
    text, spans = _joined(document) if not isinstance(document, str) else (document, tuple(sentence_spans(document)))
    name = values.get("id", values.get("paper_id"))
    plain = SummaryExample(id=None if name is None else str(name), text=text, spans=spans, limit=_read_limit(row))
    if not labelled:
        return plain
    labels, summary = _first(values, _LABELS), _first(values, _SUMMARIES)
    if labels is None:
        return replace(plain, references=tuple(_alternatives(summary)))
    filled = tuple(int(label) for label, each in zip(labels, document, strict=True) if each.strip())
    if summary is None:
        summary = plain.put_together([number for number, label in enumerate(filled) if label])
    return replace(plain, labels=filled, references=tuple(_alternatives(summary)))


def _joined(sentences: Sequence[str]) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Sentences as one text, and where each of them is; blank ones are left out."""
    filled = [each.strip() for each in sentences if each.strip()]
    joint = _JOINTS[script_language(filled)]
    spans, place = [], 0
    for each in filled:
        spans.append((place, place + len(each)))
        place += len(each) + len(joint)
    return joint.join(filled), tuple(spans)


def _read_limit(row: Row) -> Limit | None:
    amount, unit = row.values.get("limit"), row.values.get("limit_by", "sentences")
    if amount is None:
        return None
    if unit not in get_args(LimitUnit):
        raise ConfigError(f"'limit_by' is {clip_repr(unit)}", fix=f"use one of {', '.join(get_args(LimitUnit))}")
    if isinstance(amount, bool) or not isinstance(amount, int | float):
        raise ConfigError(f"'limit' is {clip_repr(amount)}; it must be a number")
    return Limit(amount=float(amount), unit=unit)


def _first(values: Mapping[str, Any], names: Sequence[str]) -> Any:  # noqa: ANN401
    return next((values[name] for name in names if values.get(name) is not None), None)


def _alternatives(summary: Any) -> list[Any]:  # noqa: ANN401
    return list(summary) if isinstance(summary, list | tuple) else [summary]
