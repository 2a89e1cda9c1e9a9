"""Texts and their summaries: examples as users write them, and results.

Input: rows of one of three shapes: `{"sentences": [], "labels": []}` with a 1 for every sentence of the summary;
`{"text", "summary"}`; or SciTLDR's `{"source": [], "source_labels": [], "target": []}`. A summary may be a list of
alternatives. `limit` and `limit_by` of a row override those of the model. Output: problems of a row, examples, results.
A list of sentences is joined to one text, and offsets refer to that.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, get_args

from spanlab.errors import ConfigError, clip_repr
from spanlab.tasks.formats.row import Row
from spanlab.tasks.result import Result, result_id
from spanlab.tasks.spans.html import draw_spans
from spanlab.tasks.summarisation.config import Limit, LimitUnit
from spanlab.tasks.validation import Problem, text_problems
from spanlab.text.sentences import sentence_spans
from spanlab.text.words import script_language

_DOCUMENTS = ("text", "sentences", "source")
_LABELS = ("labels", "source_labels")
_SUMMARIES = ("summary", "target")
_SEPARATORS = {"en": " ", "ko": " ", "zh": ""}
"""Between two sentences."""


@dataclass(frozen=True, kw_only=True)
class SummaryExample:
    """A text with the offsets of its sentences, and labels of these or reference summaries."""

    id: str | None
    text: str
    spans: tuple[tuple[int, int], ...]
    labels: tuple[int, ...] | None = None
    """0 or 1 for each sentence; None if only references are given."""
    references: tuple[str, ...] = ()
    limit: Limit | None = None
    """Overrides the limit of the model."""

    @property
    def sentences(self) -> list[str]:
        """The texts of its sentences."""
        return [self.text[start:end] for start, end in self.spans]

    @cached_property
    def language(self) -> str:
        """The language, by the script of the text."""
        return script_language([self.text])

    def summary(self, chosen: Sequence[int]) -> str:
        """The summary of the chosen sentences."""
        sentences = self.sentences
        return _SEPARATORS[self.language].join(sentences[index] for index in chosen)


@dataclass(frozen=True, kw_only=True)
class SummarySentence:
    """A sentence of the summary: characters of the text, and its probability."""

    start: int
    end: int
    score: float
    index: int
    """Its index among the sentences of the text."""


@dataclass(frozen=True, kw_only=True)
class SummaryResult(Result):
    """The chosen sentences, in the order of the text."""

    sentences: tuple[SummarySentence, ...]
    summary: str
    text: str = field(default="", metadata={"json": False})

    def to_html(self) -> str:
        """The text, the chosen sentences marked."""
        return draw_spans(self.text, [(sentence.start, sentence.end, "summary") for sentence in self.sentences])


def example_problems(row: Row, *, labelled: bool) -> Iterator[Problem]:
    """Everything that is wrong with a row; with its labels and its summary only if `labelled`."""
    problems = list(_document_problems(row))
    yield from problems
    if labelled and not any(problem.serious for problem in problems):
        yield from _target_problems(row)


def _document_problems(row: Row) -> Iterator[Problem]:
    document = _first_value(row.values, _DOCUMENTS)
    if isinstance(document, list | tuple):
        yield from _sentence_problems(document)
    else:
        yield from text_problems(Row(values={"text": document}), "text")
    try:
        _read_limit(row)
    except ConfigError as error:
        yield Problem(kind="wrong limit", cause=error.cause, fix=error.fix)


def _sentence_problems(sentences: Sequence[Any]) -> Iterator[Problem]:
    wrong = [sentence for sentence in sentences if not isinstance(sentence, str)]
    if wrong:
        yield Problem(kind="wrong type", cause=f"a sentence is {clip_repr(wrong[0])}; it must be text")
    elif not any(sentence.strip() for sentence in sentences):
        yield Problem(kind="no sentence", cause="the document has no sentence", fix="leave it out", empty=True)
    else:
        yield from text_problems(Row(values={"sentences": " ".join(sentences)}), "sentences")
        blank = sum(not sentence.strip() for sentence in sentences)
        if blank:
            cause = f"{blank} of {len(sentences)} sentences are blank, and are skipped with their labels"
            yield Problem(kind="blank sentence", cause=cause, serious=False)


def _target_problems(row: Row) -> Iterator[Problem]:
    """Problems of labels and reference summaries."""
    labels, summary = _first_value(row.values, _LABELS), _first_value(row.values, _SUMMARIES)
    if labels is None and summary is None:
        fix = 'write "summary": "…", or "sentences" with "labels"'
        yield Problem(kind="missing field", cause="a summary or labels are missing", fix=fix)
    if labels is not None:
        yield from _label_problems(labels, _first_value(row.values, _DOCUMENTS))
    if summary is not None:
        for reference in _alternatives(summary):
            yield from text_problems(Row(values={"summary": reference}), "summary")
        if not _alternatives(summary):
            yield Problem(kind="empty text", cause="'summary' is an empty list", fix="write one, or leave it out")


def _label_problems(labels: Any, document: Any) -> Iterator[Problem]:  # noqa: ANN401 (anything JSON holds)
    if not isinstance(labels, list | tuple):
        yield Problem(kind="wrong type", cause=f"'labels' is {clip_repr(labels)}; it must be a list")
    elif not isinstance(document, list | tuple):
        fix = 'write the text as a list, "sentences": []'
        yield Problem(kind="labels without sentences", cause="there are labels, but no list of sentences", fix=fix)
    elif len(labels) != len(document):
        cause = f"{len(labels)} labels for {len(document)} sentences"
        yield Problem(kind="wrong number of labels", cause=cause, fix="give each sentence a label")
    elif any(not isinstance(label, int) or label not in (0, 1) for label in labels):
        yield Problem(kind="wrong label", cause=f"'labels' is {clip_repr(labels)}; a label is 0 or 1")
    elif not any(label and sentence.strip() for label, sentence in zip(labels, document, strict=True)):
        yield Problem(kind="no sentence labelled 1", cause="no sentence is labelled 1", serious=False)


def parse_example(row: Row, *, labelled: bool) -> SummaryExample:
    """A row without serious problems as an example."""
    values = row.values
    document = _first_value(values, _DOCUMENTS)
    text, spans = _joined(document) if not isinstance(document, str) else (document, tuple(sentence_spans(document)))
    name = values.get("id", values.get("paper_id"))
    example = SummaryExample(id=None if name is None else str(name), text=text, spans=spans, limit=_read_limit(row))
    if not labelled:
        return example
    labels, summary = _first_value(values, _LABELS), _first_value(values, _SUMMARIES)
    if labels is None:
        return replace(example, references=tuple(_alternatives(summary)))
    kept = tuple(int(label) for label, sentence in zip(labels, document, strict=True) if sentence.strip())
    if summary is None:
        summary = example.summary([index for index, label in enumerate(kept) if label])
    return replace(example, labels=kept, references=tuple(_alternatives(summary)))


def _joined(sentences: Sequence[str]) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Sentences as one text, and their offsets in it; blank ones are left out."""
    kept = [sentence.strip() for sentence in sentences if sentence.strip()]
    separator = _SEPARATORS[script_language(kept)]
    spans, position = [], 0
    for sentence in kept:
        spans.append((position, position + len(sentence)))
        position += len(sentence) + len(separator)
    return separator.join(kept), tuple(spans)


def _read_limit(row: Row) -> Limit | None:
    amount, unit = row.values.get("limit"), row.values.get("limit_by", "sentences")
    if amount is None:
        return None
    if unit not in get_args(LimitUnit):
        raise ConfigError(f"'limit_by' is {clip_repr(unit)}", fix=f"use one of {', '.join(get_args(LimitUnit))}")
    if isinstance(amount, bool) or not isinstance(amount, int | float):
        raise ConfigError(f"'limit' is {clip_repr(amount)}; it must be a number")
    return Limit(amount=float(amount), unit=unit)


def _first_value(values: Mapping[str, Any], names: Sequence[str]) -> Any:  # noqa: ANN401
    """The value of the first of these fields that the row has."""
    return next((values[name] for name in names if values.get(name) is not None), None)


def _alternatives(summary: Any) -> list[Any]:  # noqa: ANN401
    return list(summary) if isinstance(summary, list | tuple) else [summary]


def read_prediction(row: Row, index: int, example: SummaryExample) -> SummaryResult:
    """A summary of any system, from a file."""
    summary = row.values.get("summary")
    if not isinstance(summary, str):
        raise row.error(f"'summary' is {clip_repr(summary)}; it must be text", 'write {"summary": "…"}')
    return SummaryResult(id=result_id(index, example.id), sentences=(), summary=summary, text=example.text)
