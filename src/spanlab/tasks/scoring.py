"""Scores of a file of predictions by any system against a gold file: matched by id if both have ids, else by order.

An answer that is missing counts as wrong, as in SQuAD's script; other tasks take no gaps. Predictions for ids that the
gold file does not have are left out. Both are remarks of the scores, or refused on request.

Spans are compared word by word where both files list words, as the official scorers do: systems write words in a form
of their own, or none. Otherwise offsets must be of the same text.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from spanlab.errors import InputError
from spanlab.strict_parsing import parse_json
from spanlab.tasks.base import AnyTask
from spanlab.tasks.config import TaskDataConfig
from spanlab.tasks.examples import Examples, describe_warnings, read_labelled
from spanlab.tasks.formats.lines import bare_suffix, read_text
from spanlab.tasks.formats.reading import fitting_columns, read_rows
from spanlab.tasks.formats.row import Row
from spanlab.tasks.result import Scores
from spanlab.tasks.table import find_task

_SPAN_FIELDS = {"spans": "spans", "clusters": "clusters", "relations": "entities"}
"""The field with character offsets, by the labels of a task."""


def score(
    task: str,
    gold: str | Path,
    predicted: str | Path,
    *,
    columns: Sequence[str] = (),
    strict: bool = False,
) -> Scores:
    """The task's metrics on the output of any system, as `spanlab score` computes them.

    Args:
        task: classification, similarity, …
        gold: the labelled file.
        predicted: predictions, from `spanlab predict` or in a standard format of the task.
        columns: of the gold file, as data.columns.
        strict: refuse predictions with missing or unknown ids; else they are counted in the remarks.
    """
    return score_files(task, str(gold), str(predicted), TaskDataConfig(columns=tuple(columns)), strict=strict)


def score_files(
    task: str, gold: str, predicted: str, data: TaskDataConfig | None = None, *, strict: bool = False
) -> Scores:
    """The task's metrics of the predictions in a file; with `strict`, the ids of both files must be the same."""
    task_class = find_task(task)
    data = data or TaskDataConfig()
    labelled = read_labelled(task_class, gold, data)
    predictions = _read_predictions(task_class, predicted, data)
    rows, unknown = _match_rows(labelled, predictions)
    fitted = task_class.fit(task_class.Config(), labelled.examples)
    missing = [index for index, row in enumerate(rows) if row is None]
    if missing and (strict or fitted.missing_result(missing[0], labelled.examples[missing[0]]) is None):
        raise labelled.rows[missing[0]].error(_describe_missing(labelled, missing), "predict every example")
    if unknown and strict:
        raise unknown[0].error(_describe_unknown(unknown), "remove it, or leave out --strict")
    results = [
        fitted.missing_result(index, example)
        if row is None
        else fitted.read_result(_on_text(row, labelled.rows[index], task_class.shape.labels), index, example)
        for index, (row, example) in enumerate(zip(rows, labelled.examples, strict=True))
    ]
    remarks = [*labelled.remarks, *describe_warnings(predictions)]
    if missing:
        remarks.append(f"{predicted}: {_describe_missing(labelled, missing)}: counted as wrong")
    if unknown:
        remarks.append(f"{predicted}: {_describe_unknown(unknown)}: left out")
    return replace(fitted.score(labelled.examples, results), remarks=tuple(remarks))


def _describe_missing(gold: Examples, missing: Sequence[int]) -> str:
    first = f"no prediction for id '{gold.rows[missing[0]].values['id']}'"
    return first if len(missing) == 1 else f"{first} and {len(missing) - 1} more of {len(gold)} examples"


def _describe_unknown(unknown: Sequence[Row]) -> str:
    first = f"a prediction for id '{unknown[0].values['id']}'"
    others = "" if len(unknown) == 1 else f" and for {len(unknown) - 1} more"
    return f"{first}{others}, which the gold file does not have"


def _read_predictions(task_class: type[AnyTask], path: str, data: TaskDataConfig) -> list[Row]:
    if task_class.shape.labels == "answers" and bare_suffix(path) == ".json":
        answers = _answers_by_id(path)
        if answers is not None:
            return answers
    rows = []
    shape = replace(task_class.shape, required=())
    # `data.columns` are those of the gold file, and rarely of this one.
    for row in read_rows(path, shape, fitting_columns(path, shape, data.columns), data.tag_scheme):
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


def _match_rows(gold: Examples, predicted: Sequence[Row]) -> tuple[list[Row | None], list[Row]]:
    """The prediction of each gold example in order, None where it is missing, and the predictions of no example."""
    gold_ids = [row.values.get("id") for row in gold.rows]
    by_id = {str(row.values["id"]): row for row in predicted if row.values.get("id") is not None}
    if None in gold_ids or len(by_id) < len(predicted) or by_id.keys().isdisjoint(map(str, gold_ids)):
        if len(gold) != len(predicted):
            cause = f"{len(predicted)} predictions for {len(gold)} examples, and not all have an id of an example"
            raise InputError(
                cause,
                path=predicted[0].path,
                fix="write one prediction per example in the same order, or give all of them ids",
            )
        return list(predicted), []
    known = set(map(str, gold_ids))
    unknown = [row for name, row in by_id.items() if name not in known]
    return [by_id.get(str(gold_id)) for gold_id in gold_ids], unknown


def _on_text(predicted: Row, gold: Row, labels: str) -> Row:
    """The prediction with the offsets of its spans in the text of the gold row."""
    text, words, gold_words = predicted.values.get("text"), predicted.values.get("words"), gold.values.get("words")
    if labels not in _SPAN_FIELDS or not isinstance(text, str) or text == gold.values["text"]:
        return predicted
    if isinstance(words, list) and isinstance(gold_words, list) and len(words) != len(gold_words):
        cause = f"{len(words)} words, but the example in {gold.path}:{gold.line} has {len(gold_words)}"
        raise predicted.error(cause, "predict every word")
    try:
        moved = _moved(predicted.values[_SPAN_FIELDS[labels]], words, gold_words)
    except (KeyError, TypeError, ValueError):  # one has no words, or a span does not begin and end with a word
        cause = f"the text is not that of the example in {gold.path}:{gold.line}"
        raise predicted.error(cause, "offsets count characters of the gold text") from None
    return replace(predicted, values={**predicted.values, "text": gold.values["text"], _SPAN_FIELDS[labels]: moved})


def _moved(spans: Any, words: Any, gold_words: Any) -> list[Any]:  # noqa: ANN401 (anything JSON holds)
    """Spans or clusters of words as spans of the gold words with the same indices."""
    pairs = [(tuple(word), tuple(gold_word)) for word, gold_word in zip(words, gold_words, strict=True)]
    starts = {start: gold_start for (start, _), (gold_start, _) in pairs}
    ends = {end: gold_end for (_, end), (_, gold_end) in pairs}
    if all(isinstance(span, Mapping) for span in spans):
        return [{**span, "start": starts[span["start"]], "end": ends[span["end"]]} for span in spans]
    return [[[starts[start], ends[end]] for start, end in cluster] for cluster in spans]
