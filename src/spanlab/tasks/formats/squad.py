"""SQuAD 1.1 and 2.0: articles of paragraphs with their questions, in one JSON document.

A file enters; each question leaves as a row with its context. The line of a row is that of the question's id, so that
errors can be found in a large file.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from spanlab.errors import InputError, clip_repr
from spanlab.strict_parsing import parse_json
from spanlab.tasks.formats.lines import read_text
from spanlab.tasks.formats.row import Row

_FIX = 'write {"data": [{"paragraphs": [{"context": …, "qas": [{"id", "question", "answers"}]}]}]}'


def is_squad(line: str) -> bool:
    """Whether the first line of a JSON file begins a SQuAD document; otherwise the file holds JSON lines."""
    return not line.rstrip().endswith("}") or '"data"' in line[:1000]


def read_squad(path: str) -> Iterator[Row | InputError]:
    """One row per question: id, question, context, and answers with their start; no answers if it is impossible."""
    text = read_text(path)
    if not text.strip():
        return
    id_lines = _IdLines(text)
    for paragraph in _paragraphs(path, text):
        context = paragraph.get("context")
        questions = paragraph.get("qas") or []
        if not isinstance(questions, list):
            yield InputError(f"'qas' is {clip_repr(questions)}; it must be a list", path=path, fix=_FIX)
            continue
        for question in questions:
            if not isinstance(question, Mapping):
                yield InputError("a question is not an object", path=path, fix=_FIX)
                continue
            yield Row(values=_values(question, context), path=path, line=id_lines.find(question.get("id")))


def _paragraphs(path: str, text: str) -> Iterator[Mapping[str, Any]]:
    document = parse_json(text, path=path, fix="download it again")
    articles = document.get("data") if isinstance(document, dict) else None
    if not isinstance(articles, list):
        raise InputError("not a SQuAD file: no list 'data'", path=path, line=1, fix=_FIX)
    for index, article in enumerate(articles):
        paragraphs = article.get("paragraphs") if isinstance(article, dict) else None
        if not isinstance(paragraphs, list) or not all(isinstance(paragraph, dict) for paragraph in paragraphs):
            raise InputError(f"article {index} has no list 'paragraphs'", path=path, fix=_FIX)
        yield from paragraphs


def _values(question: Mapping[str, Any], context: object) -> dict[str, Any]:
    values = {"question": question.get("question"), "context": context}
    if question.get("id") is not None:
        values["id"] = str(question["id"])
    if "answers" in question:
        answers = question["answers"]
        values["answers"] = [_answer(answer) for answer in answers] if isinstance(answers, list) else answers
    # Some files list the plausible wrong answers of SQuAD 2.0 under `answers` of an impossible question.
    if question.get("is_impossible") is True:
        values["answers"] = []
    return values


def _answer(answer: object) -> object:
    if not isinstance(answer, Mapping):
        return answer
    return {"text": answer.get("text"), "start": answer.get("answer_start")}


class _IdLines:
    """The lines of ids in the document; ids are asked for in order, so each search starts at the previous hit."""

    def __init__(self, text: str) -> None:
        self._text, self._position, self._line = text, 0, 1

    def find(self, question_id: object) -> int | None:
        """The line of an id; None if there is none, or if it is written with JSON escapes."""
        if question_id is None:
            return None
        position = self._text.find(json.dumps(question_id, ensure_ascii=False), self._position)
        if position < 0:
            return None
        self._line += self._text.count("\n", self._position, position)
        self._position = position
        return self._line
