"""Questions with their answers: one a JSON line, or by passage in the JSON of SQuAD 2.0."""

import json
from collections.abc import Sequence

from spanlab.samples.exports.records import Record
from spanlab.samples.passage import Answer, Passage, Question


def questions(passages: Sequence[Passage]) -> list[Record]:
    """Every question with its context; no answers where the passage does not give one."""
    return [
        {
            "id": question.id,
            "question": question.text,
            "context": passage.text,
            "answers": [{"text": answer.text, "start": answer.start} for answer in question.answers],
        }
        for passage in passages
        for question in passage.questions
    ]


def squad(passages: Sequence[Passage]) -> str:
    """SQuAD 2.0: an article a passage, with the tempting wrong span of an unanswerable question as plausible."""
    articles = [
        {
            "title": passage.title,
            "paragraphs": [
                {"context": passage.text, "qas": [_squad_question(question) for question in passage.questions]}
            ],
        }
        for passage in passages
    ]
    return json.dumps({"version": "v2.0", "data": articles}, ensure_ascii=False, indent=1) + "\n"


def _squad_question(question: Question) -> Record:
    record: dict[str, object] = {
        "id": question.id,
        "question": question.text,
        "is_impossible": not question.answers,
        "answers": [_squad_answer(answer) for answer in question.answers],
    }
    if question.tempting:
        record["plausible_answers"] = [_squad_answer(question.tempting)]
    return record


def _squad_answer(answer: Answer) -> Record:
    return {"text": answer.text, "answer_start": answer.start}
