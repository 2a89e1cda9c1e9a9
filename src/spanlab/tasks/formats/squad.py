"""SQuAD 1.1 and 2.0: articles of paragraphs with their questions, in one JSON document.

The line of a question is where its id stands, so that a fault can be found in a file of any size.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from spanlab.errors import InputError
from spanlab.tasks.formats.lines import read_text
from spanlab.tasks.formats.row import Row

_FIX = 'SQuAD\'s JSON is {"data": [{"paragraphs": [{"context": …, "qas": [{"id", "question", "answers"}]}]}]}'


def is_squad(line: str) -> bool:
    """Whether a JSON file that begins with this line is SQuAD's; otherwise the line is a whole object of JSON lines."""
    return not line.rstrip().endswith("}") or '"data"' in line[:1000]


def read_squad(path: str) -> Iterator[Row | InputError]:
    """One row a question: id, question, context, answers with their start, and whether there is none."""
    text = read_text(path)
    if not text.strip():
        return
    places = _Places(text)
    for paragraph in _paragraphs(path, text):
        context = paragraph.get("context")
        for question in paragraph.get("qas") or ():
            if not isinstance(question, Mapping):
                yield InputError("a question is no object", path=path, fix=_FIX)
                continue
            line = places.line_of(question.get("id"))
            yield Row(values=_values(question, context), path=path, line=line)


def _paragraphs(path: str, text: str) -> Iterator[Mapping[str, Any]]:
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        cut = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated")
        cause = "the file is cut short" if cut else f"not valid JSON: {error.msg}"
        raise InputError(cause, path=path, line=error.lineno, column=error.colno, fix="fetch it again") from None
    articles = document.get("data") if isinstance(document, dict) else None
    if not isinstance(articles, list):
        raise InputError("not a SQuAD file: no list 'data'", path=path, line=1, fix=_FIX)
    for number, article in enumerate(articles):
        paragraphs = article.get("paragraphs") if isinstance(article, dict) else None
        if not isinstance(paragraphs, list) or not all(isinstance(each, dict) for each in paragraphs):
            raise InputError(f"article {number} has no list 'paragraphs'", path=path, fix=_FIX)
        yield from paragraphs


def _values(question: Mapping[str, Any], context: object) -> dict[str, Any]:
    values = {"question": question.get("question"), "context": context}
    if question.get("id") is not None:
        values["id"] = str(question["id"])
    if "answers" in question:
        answers = question["answers"]
        values["answers"] = [_answer(answer) for answer in answers] if isinstance(answers, list) else answers
    # SQuAD 2.0 keeps the tempting wrong answers of such a question elsewhere, and it may carry them as answers.
    if question.get("is_impossible") is True:
        values["answers"] = []
    return values


def _answer(answer: object) -> object:
    if not isinstance(answer, Mapping):
        return answer
    return {"text": answer.get("text"), "start": answer.get("answer_start")}


class _Places:
    """Where ids stand in the document; they come in order, so each is looked for after the one before."""

    def __init__(self, text: str) -> None:
        self._text, self._position, self._line = text, 0, 1

    def line_of(self, name: object) -> int | None:
        """The line of an id; None where it is written in some way of its own."""
        if name is None:
            return None
        found = self._text.find(json.dumps(name, ensure_ascii=False), self._position)
        if found < 0:
            return None
        self._line += self._text.count("\n", self._position, found)
        self._position = found
        return self._line
