"""Predictions of any system against gold: matched by id where both have ids, else by order."""

import json
from collections.abc import Sequence
from dataclasses import replace

from spanlab.errors import InputError
from spanlab.tasks.base import AnyTask
from spanlab.tasks.config import TaskDataConfig
from spanlab.tasks.examples import Examples, read_labelled
from spanlab.tasks.formats.lines import bare_suffix, read_text
from spanlab.tasks.formats.reading import read_rows
from spanlab.tasks.formats.row import Row
from spanlab.tasks.result import Scores
from spanlab.tasks.table import find_task


def score_files(task: str, gold: str, predicted: str, data: TaskDataConfig | None = None) -> Scores:
    """The metrics of a file of predictions."""
    task_class = find_task(task)
    data = data or TaskDataConfig()
    wanted = read_labelled(task_class, gold, data)
    rows = _matched(wanted, _predicted_rows(task_class, predicted, data))
    fitted = task_class.fit(task_class.Config(), wanted.examples)
    results = [
        fitted.read_result(row, index, example)
        for index, (row, example) in enumerate(zip(rows, wanted.examples, strict=True))
    ]
    return fitted.score(wanted.examples, results)


def _predicted_rows(task_class: type[AnyTask], path: str, data: TaskDataConfig) -> list[Row]:
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
        found = json.loads(read_text(path))
    except json.JSONDecodeError:
        return None
    if not isinstance(found, dict) or not all(isinstance(answer, str) for answer in found.values()):
        return None
    return [Row(values={"id": name, "answer": answer}, path=path) for name, answer in found.items()]


def _matched(gold: Examples, predicted: Sequence[Row]) -> list[Row]:
    """A prediction for each gold example."""
    names = [row.values.get("id") for row in gold.rows]
    by_id = {str(row.values["id"]): row for row in predicted if row.values.get("id") is not None}
    if None in names or len(by_id) < len(predicted) or by_id.keys().isdisjoint(map(str, names)):
        if len(gold) != len(predicted):
            cause = f"{len(predicted)} predictions for {len(gold)} examples, and not all have an id"
            raise InputError(cause, path=predicted[0].path, fix="give one each, in the same order, or ids")
        return list(predicted)
    for row, name in zip(gold.rows, names, strict=True):
        if str(name) not in by_id:
            raise row.error(f"no prediction for id '{name}'", "predict every example")
    return [by_id[str(name)] for name in names]
