"""The score that models are compared by can be computed from counts of single examples, for every task."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spanlab.tasks.config import TaskDataConfig
from spanlab.tasks.examples import read_labelled
from spanlab.tasks.table import TASKS
from tests.tasks.almanac_files import write_files

Values = Mapping[str, Any]


def half(items: list[Any]) -> list[Any]:
    return items[: len(items) // 2]


WRONG: dict[str, Callable[[Values, int], Values]] = {
    "classification": lambda values, index: {"label": values["label"] if index % 3 else "sport"},
    "similarity": lambda values, index: {"label": "same" if index % 3 else values["label"]},
    "ner": lambda values, _: {"spans": half(values["spans"])},
    "qa": lambda values, _: {"answer": "some " + (values["answers"] or [{"text": ""}])[0]["text"], "answers": None},
    "coref": lambda values, _: {"clusters": half(values["clusters"])},
    "relation": lambda values, _: {"relations": half(values["relations"])},
    "summarisation": lambda values, _: {"summary": " ".join(values["sentences"][:1])},
}
"""Predictions that are right in part."""


@pytest.mark.parametrize("task", WRONG)
def test_the_score_of_counts_is_the_metric(task: str, tmp_path: Path) -> None:
    if task == "summarisation":
        pytest.importorskip("rouge_score", reason="the summarise extra is not installed")
    _, dev = write_files(task, tmp_path, dev=12)
    labelled = read_labelled(TASKS[task], str(dev), TaskDataConfig())
    settings: dict[str, Any] = {"head": "span"} if task == "ner" else {}
    fitted = TASKS[task].fit(TASKS[task].Config(**settings), labelled.examples)
    results = [
        fitted.read_result(replace(row, values={**row.values, **WRONG[task](row.values, index)}), index, example)
        for index, (row, example) in enumerate(zip(labelled.rows, labelled.examples, strict=True))
    ]
    counts = fitted.score_counts(labelled.examples, results)
    assert counts.metric == fitted.primary
    assert len(counts.counts_UC) == len(labelled)
    assert 0 < counts.score() < 100
    assert counts.score() == pytest.approx(fitted.score(labelled.examples, results).metrics[fitted.primary])


def test_scores_of_pairs_are_ranked(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    rows = [{"text_a": "a", "text_b": str(score), "score": score} for score in (0.5, 4.0, 2.0, 2.0, 1.0)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    labelled = read_labelled(TASKS["similarity"], str(path), TaskDataConfig())
    task = TASKS["similarity"].fit(TASKS["similarity"].Config(), labelled.examples)
    predicted = [replace(row, values={**row.values, "score": row.values["score"] % 3}) for row in labelled.rows]
    pairs = enumerate(zip(predicted, labelled.examples, strict=True))
    results = [task.read_result(row, index, example) for index, (row, example) in pairs]
    counts = task.score_counts(labelled.examples, results)
    assert (counts.metric, counts.rule) == ("spearman", "spearman")
    assert counts.score() == pytest.approx(task.score(labelled.examples, results).metrics["spearman"])


def test_questions_about_one_context_belong_together(tmp_path: Path) -> None:
    _, dev = write_files("qa", tmp_path, dev=12)
    labelled = read_labelled(TASKS["qa"], str(dev), TaskDataConfig())
    task = TASKS["qa"].fit(TASKS["qa"].Config(), labelled.examples)
    contexts = [row.values["context"] for row in labelled.rows]
    assert [task.document(example) for example in labelled.examples] == contexts
    assert len(set(contexts)) < len(contexts)


def test_sentences_of_one_document_belong_together(tmp_path: Path) -> None:
    lines = ["-DOCSTART- O", "", "Ann B-PER", "", "ran O", "", "-DOCSTART- O", "", "Bob B-PER", ""]
    path, plain = tmp_path / "tags.conll", tmp_path / "plain.conll"
    path.write_text("\n".join(lines))
    plain.write_text("\n".join(line for line in lines if not line.startswith("-DOC")))
    documents = [row.document for row in read_labelled(TASKS["ner"], str(path), TaskDataConfig()).rows]
    assert documents == ["1", "1", "2"]
    assert {row.document for row in read_labelled(TASKS["ner"], str(plain), TaskDataConfig()).rows} == {None}
