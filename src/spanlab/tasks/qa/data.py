"""Questions, contexts and answers: examples as users write them, and results.

Input: rows `{"question", "context", "answers": [{"text", "start"}]}`; `context` may be a list of documents, and each
answer then has the index of its `document`. Output: problems of a row, examples, results. The text of an answer must be
at its `start`; `--fix` repairs spaces at its edges, and a wrong start if the text occurs only once in the context.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html import escape
from typing import Any

from spanlab.errors import clip_repr
from spanlab.tasks.formats.row import Row
from spanlab.tasks.result import Result, result_id
from spanlab.tasks.spans.html import draw_spans
from spanlab.tasks.validation import REPAIRABLE, Problem, read_id, text_problems


@dataclass(frozen=True, kw_only=True)
class GoldAnswer:
    """A gold answer: characters from `start` on of one of the documents."""

    text: str
    start: int
    document: int = 0

    @property
    def end(self) -> int:
        """Exclusive."""
        return self.start + len(self.text)


@dataclass(frozen=True, kw_only=True)
class QaExample:
    """A question, its documents, and its gold answers; none: the documents have no answer."""

    id: str | None
    question: str
    contexts: tuple[str, ...]
    answers: tuple[GoldAnswer, ...]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One of the best answers."""

    answer: str
    start: int | None
    end: int | None
    score: float
    """Its probability among the best answers."""
    document: int | None = 0
    """The index of its document."""


@dataclass(frozen=True, kw_only=True)
class QaResult(Result):
    """The answer to one question: "" without offsets if there is none."""

    answer: str
    start: int | None
    end: int | None
    document: int | None = None
    score: float
    no_answer: bool
    nbest: tuple[Answer, ...] = ()
    contexts: tuple[str, ...] = field(default=(), metadata={"json": False})
    question: str = field(default="", metadata={"json": False})

    def to_html(self) -> str:
        """The question, and the document the answer is from, the answer marked; without one the first document."""
        question = f"<p><b>{escape(self.question)}</b></p>" if self.question else ""
        if self.start is None or self.end is None or self.document is None:
            none = "<p>no answer</p>" if self.no_answer else ""
            return f"{question}{none}{draw_spans(self.contexts[0] if self.contexts else '', [])}"
        return question + draw_spans(self.contexts[self.document], [(self.start, self.end, "answer")])


def _contexts(context: Any) -> list[Any]:  # noqa: ANN401 (anything JSON holds)
    """The documents of a row, one or several."""
    return list(context) if isinstance(context, list | tuple) else [context]


def example_problems(row: Row, *, labelled: bool) -> Iterator[Problem]:
    """Everything that is wrong with a row; with its answers only if `labelled`."""
    problems = list(_question_problems(row))
    yield from problems
    if labelled and not any(problem.serious for problem in problems):
        yield from _answers_problems(row)


def _question_problems(row: Row) -> Iterator[Problem]:
    yield from text_problems(row, "question")
    contexts = _contexts(row.values.get("context"))
    if not contexts:
        fix = "give at least one document"
        yield Problem(kind="no context", cause="'context' is an empty list", fix=fix, empty=True)
    for context in contexts:
        yield from text_problems(Row(values={"context": context}), "context")


def _answers_problems(row: Row) -> Iterator[Problem]:
    answers = row.values.get("answers")
    if not isinstance(answers, list):
        cause = "'answers' is missing" if answers is None else f"'answers' is {clip_repr(answers)}; it must be a list"
        yield Problem(kind="no answers", cause=cause, fix='a question without an answer has "answers": []')
        return
    contexts = _contexts(row.values["context"])
    repairs = [_repaired(answer, contexts) for answer in answers]
    written = [answer if repair is None else repair for answer, repair in zip(answers, repairs, strict=True)]
    repaired = {**row.values, "answers": written}
    for index, (answer, repair) in enumerate(zip(answers, repairs, strict=True)):
        yield from _answer_problems(index, answer, contexts, repaired if repair is not None else None)


def _answer_problems(
    index: int,
    answer: Any,  # noqa: ANN401
    contexts: list[str],
    repaired: Mapping[str, Any] | None,
) -> Iterator[Problem]:
    if not _is_complete(answer):
        yield Problem(
            kind="incomplete answer", cause=f"answer {index} is {clip_repr(answer)}", fix="give text and start"
        )
        return
    if not _has_document(answer, contexts):
        cause = f"answer {index} has document {clip_repr(answer['document'])}, and there are {len(contexts)} documents"
        yield Problem(kind="no such document", cause=cause, fix="count documents from 0")
        return
    text, start, context = answer["text"], answer["start"], contexts[answer.get("document", 0)]
    if not text.strip():
        fix = 'a question without an answer has "answers": []'
        yield Problem(kind="empty answer", cause=f"answer {index} is empty", fix=fix)
    elif start < 0 or context[start : start + len(text)] != text:
        covered = context[max(0, start) : max(0, start) + len(text)]
        cause = f"answer {index} is {clip_repr(text)}, but at {start} the context has {clip_repr(covered)}"
        fix = REPAIRABLE if repaired is not None else "correct 'start': it counts characters, from 0"
        yield Problem(kind="misaligned answer", cause=cause, fix=fix, repaired=repaired)
    elif text != text.strip():
        cause = f"answer {index} begins or ends with space: {clip_repr(text)}"
        yield Problem(kind="space at an answer's edge", cause=cause, fix=REPAIRABLE, serious=False, repaired=repaired)


def _is_complete(answer: Any) -> bool:  # noqa: ANN401
    text, start = (answer.get("text"), answer.get("start")) if isinstance(answer, Mapping) else (None, None)
    return isinstance(text, str) and type(start) is int


def _has_document(answer: Mapping[str, Any], contexts: list[str]) -> bool:
    document = answer.get("document", 0)
    return type(document) is int and 0 <= document < len(contexts)


def _repaired(answer: Any, contexts: list[str]) -> dict[str, Any] | None:  # noqa: ANN401
    """The answer without spaces at its edges, at the only offset where it stands; None if there is none."""
    if not _is_complete(answer) or not _has_document(answer, contexts) or not answer["text"].strip():
        return None
    text, context = answer["text"].strip(), contexts[answer.get("document", 0)]
    start = answer["start"] + len(answer["text"]) - len(answer["text"].lstrip())
    near = [offset for offset in (start, start - 1, start + 1) if offset >= 0 and context.startswith(text, offset)]
    if start not in near and len(near) != 1:
        near = [context.index(text)] if context.count(text) == 1 else []
    return {**answer, "text": text, "start": near[0]} if near else None


def parse_example(row: Row, *, labelled: bool) -> QaExample:
    """A row without serious problems as an example."""
    values = row.values
    answers = tuple(
        GoldAnswer(text=answer["text"], start=answer["start"], document=answer.get("document", 0))
        for answer in (values["answers"] if labelled else ())
    )
    return QaExample(
        id=read_id(row),
        question=values["question"],
        contexts=tuple(_contexts(values["context"])),
        answers=answers,
    )


def read_prediction(row: Row, index: int, example: QaExample) -> QaResult:
    """A prediction of any system, from a file."""
    answer = row.values.get("answer")
    if not isinstance(answer, str):
        raise row.error(f"'answer' is {clip_repr(answer)}; it must be text", 'give the text of the answer, "" for none')
    return QaResult(
        id=result_id(index, example.id),
        answer=answer,
        start=None,
        end=None,
        score=1.0,
        no_answer=not answer,
        contexts=example.contexts,
        question=example.question,
    )
