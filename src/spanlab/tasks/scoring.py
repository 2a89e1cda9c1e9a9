"""Scores of a file of predictions by any system against a gold file: matched by id if both have ids, else by order."""

from collections.abc import Sequence
from dataclasses import replace

from spanlab.errors import InputError
from spanlab.strict_parsing import parse_json
from spanlab.tasks.base import AnyTask
from spanlab.tasks.config import TaskDataConfig
from spanlab.tasks.examples import Examples, read_labelled
from spanlab.tasks.formats.lines import bare_suffix, read_text
from spanlab.tasks.formats.reading import read_rows
from spanlab.tasks.formats.row import Row
from spanlab.tasks.result import Scores
from spanlab.tasks.table import find_task


def score_files(task: str, gold: str, predicted: str, data: TaskDataConfig | None = None) -> Scores:
    """The task's metrics of the predictions in a file."""
    task_class = find_task(task)
    data = data or TaskDataConfig()
    labelled = read_labelled(task_class, gold, data)
    rows = _match_rows(labelled, _read_predictions(task_class, predicted, data))
    fitted = task_class.fit(task_class.Config(), labelled.examples)
    results = [
        fitted.read_result(row, index, example)
        for index, (row, example) in enumerate(zip(rows, labelled.examples, strict=True))
    ]
    return fitted.score(labelled.examples, results)


def _read_predictions(task_class: type[AnyTask], path: str, data: TaskDataConfig) -> list[Row]:
    if task_class.shape.labels == "answers" and bare_suffix(path) == ".json":
        answers = _answers_by_id(path)
        if answers is not None:
            return answers
    rows = []
    for row in read_rows(path, replace(task_class.shape, required=()), data.columns):
        if isinstance(row, InputError):
            raise row
        rows.append(row)
    return rows


def _answers_by_id(path: str) -> list[Row] | None:
    """SQuAD's prediction file, `{id: answer}`; None where the file is something else."""
    try:
        answers = parse_json(read_text(path))
    except InputError:
        return None
    if not isinstance(answers, dict) or not all(isinstance(answer, str) for answer in answers.values()):
        return None
    return [Row(values={"id": question_id, "answer": answer}, path=path) for question_id, answer in answers.items()]


def _match_rows(gold: Examples, predicted: Sequence[Row]) -> list[Row]:
    """The prediction of each gold example, in order."""
    gold_ids = [row.values.get("id") for row in gold.rows]
    by_id = {str(row.values["id"]): row for row in predicted if row.values.get("id") is not None}
    if None in gold_ids or len(by_id) < len(predicted) or by_id.keys().isdisjoint(map(str, gold_ids)):
        if len(gold) != len(predicted):
            cause = f"{len(predicted)} predictions for {len(gold)} examples, and not all have an id"
            raise InputError(
                cause,
                path=predicted[0].path,
                fix="write one prediction per example in the same order, or give all of them ids",
            )
        return list(predicted)
    for row, gold_id in zip(gold.rows, gold_ids, strict=True):
        if str(gold_id) not in by_id:
            raise row.error(f"no prediction for id '{gold_id}'", "predict every example")
    return [by_id[str(gold_id)] for gold_id in gold_ids]
