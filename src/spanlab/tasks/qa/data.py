"""Questions, contexts and answers as users write them, and answers as results.

What enters is a row `{"question", "context", "answers": [{"text", "start"}]}`; `context` may be a list of documents,
and an answer then says which (`document`, from 0). What leaves are problems, examples, or results. An answer must stand
where it says; one that stands elsewhere once, or off by space at its edges, is mended without guessing.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from spanlab.tasks.formats.row import Row
from spanlab.tasks.result import Result
from spanlab.tasks.spans.html import draw_spans
from spanlab.tasks.validation import Problem, clip_repr, read_id, text_problems


@dataclass(frozen=True, kw_only=True)
class GoldAnswer:
    """A right answer: characters from `start` on of one of the documents."""

    text: str
    start: int
    document: int = 0

    @property
    def end(self) -> int:
        """Exclusive."""
        return self.start + len(self.text)


@dataclass(frozen=True, kw_only=True)
class QaExample:
    """A question, where its answer may stand, and its right answers; none: it has no answer there."""

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
    """Its probability among the best."""
    document: int | None = 0
    """Which of the question's documents it is from."""


@dataclass(frozen=True, kw_only=True)
class QaResult(Result):
    """The answer to one question: "" and no place where there is none."""

    answer: str
    start: int | None
    end: int | None
    document: int | None = None
    score: float
    no_answer: bool
    nbest: tuple[Answer, ...] = ()
    contexts: tuple[str, ...] = field(default=(), metadata={"json": False})

    def to_html(self) -> str:
        """The document the answer is from, the answer marked; without an answer the first document."""
        if self.start is None or self.end is None or self.document is None:
            return draw_spans(self.contexts[0] if self.contexts else "", [])
        return draw_spans(self.contexts[self.document], [(self.start, self.end, "answer")])


def context_list(context: Any) -> list[Any]:  # noqa: ANN401 (anything JSON holds)
    """The documents of a row, one or several."""
    return list(context) if isinstance(context, list | tuple) else [context]


def question_problems(row: Row) -> Iterator[Problem]:
    """What is wrong with a question and its documents."""
    yield from text_problems(row, "question")
    contexts = context_list(row.values.get("context"))
    if not contexts:
        yield Problem(kind="no context", cause="'context' is an empty list")
    for context in contexts:
        yield from text_problems(Row(values={"context": context}), "context")


def answer_problems(row: Row) -> Iterator[Problem]:
    """What is wrong with the answers of a row whose documents are right."""
    answers = row.values.get("answers")
    if not isinstance(answers, list):
        cause = "there is no 'answers'" if answers is None else f"'answers' is {clip_repr(answers)}; it must be a list"
        yield Problem(kind="no answers", cause=cause, fix='a question without an answer has "answers": []')
        return
    contexts = context_list(row.values["context"])
    mended = [_mended(answer, contexts) for answer in answers]
    written = [better if better is not None else answer for answer, better in zip(answers, mended, strict=True)]
    repaired = {**row.values, "answers": written}
    for number, (answer, better) in enumerate(zip(answers, mended, strict=True)):
        yield from _problems_of_one(number, answer, contexts, repaired if better is not None else None)


def _problems_of_one(
    number: int,
    answer: Any,  # noqa: ANN401
    contexts: list[str],
    repaired: Mapping[str, Any] | None,
) -> Iterator[Problem]:
    if not _is_complete(answer):
        yield Problem(
            kind="incomplete answer", cause=f"answer {number} is {clip_repr(answer)}", fix="give text and start"
        )
        return
    if not _has_document(answer, contexts):
        yield Problem(kind="no such document", cause=f"answer {number} is of document {clip_repr(answer['document'])}")
        return
    text, start, context = answer["text"], answer["start"], contexts[answer.get("document", 0)]
    if not text.strip():
        fix = 'a question without an answer has "answers": []'
        yield Problem(kind="empty answer", cause=f"answer {number} is empty", fix=fix)
    elif start < 0 or context[start : start + len(text)] != text:
        standing = context[max(0, start) : max(0, start) + len(text)]
        cause = f"answer {number} is {clip_repr(text)}, and at {start} the context has {clip_repr(standing)}"
        fix = "mend it with --fix" if repaired is not None else "correct 'start': it counts characters, from 0"
        yield Problem(kind="misaligned answer", cause=cause, fix=fix, repaired=repaired)
    elif text != text.strip():
        cause = f"answer {number} begins or ends with space: {clip_repr(text)}"
        fix = "mend it with --fix"
        yield Problem(kind="space at an answer's edge", cause=cause, fix=fix, serious=False, repaired=repaired)


def _is_complete(answer: Any) -> bool:  # noqa: ANN401
    text, start = (answer.get("text"), answer.get("start")) if isinstance(answer, Mapping) else (None, None)
    return isinstance(text, str) and type(start) is int


def _has_document(answer: Mapping[str, Any], contexts: list[str]) -> bool:
    document = answer.get("document", 0)
    return type(document) is int and 0 <= document < len(contexts)


def _mended(answer: Any, contexts: list[str]) -> dict[str, Any] | None:  # noqa: ANN401
    """The answer without space at its edges, at the one place where it stands; None if there is no such place."""
    if not _is_complete(answer) or not _has_document(answer, contexts) or not answer["text"].strip():
        return None
    text, context = answer["text"].strip(), contexts[answer.get("document", 0)]
    start = answer["start"] + len(answer["text"]) - len(answer["text"].lstrip())
    places = [place for place in (start, start - 1, start + 1) if place >= 0 and context.startswith(text, place)]
    if start not in places and len(places) != 1:
        places = [context.index(text)] if context.count(text) == 1 else []
    return {**answer, "text": text, "start": places[0]} if places else None


def read_question(row: Row, *, labelled: bool) -> QaExample:
    """A row without problems as an example."""
    values = row.values
    answers = tuple(
        GoldAnswer(text=answer["text"], start=answer["start"], document=answer.get("document", 0))
        for answer in (values["answers"] if labelled else ())
    )
    return QaExample(
        id=read_id(row),
        question=values["question"],
        contexts=tuple(context_list(values["context"])),
        answers=answers,
    )
