"""Inputs without text: a result of their own in their place, for every task and every output format."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import spanlab
from spanlab.errors import InputError
from spanlab.inference.writers import FORMATS
from tests.cli.run import run_here
from tests.compat.test_folders_written_before import DATA, names, read

CLASSIFIER = DATA / "tasks" / "classification"


@pytest.mark.parametrize("name", names("tasks"))
def test_every_task_answers_an_empty_text(name: str) -> None:
    model = spanlab.load(DATA / "tasks" / name, precision="fp32")
    for case in read(DATA / "tasks" / f"{name}.json"):
        task = model.model.tasks[model.model.name_of(case["task"])]
        given = case["input"]
        if not isinstance(given, dict):
            given = dict(zip(task.shape.required, [given] if isinstance(given, str) else given, strict=True))
        for field in task.shape.required:
            for empty in ("", " \t\n", None):
                dropped = {"entities", "mentions", *task.shape.instead.get(field, ())}
                without = {key: value for key, value in given.items() if key not in dropped}
                rows = [{**without, field: empty}, given, {**without, field: empty}]
                first, whole, last = model.predict(rows, task=case["task"])
                check_empty(first, last, task.name)
                assert whole.windows > 0


def check_empty(first: Any, last: Any, task: str) -> None:
    """Results of inputs without text at the places 0 and 2."""
    assert {**first.to_dict(), "id": "2"} == last.to_dict() | {"id": "2"}
    found = first.to_dict()
    assert (found.pop("windows"), found.pop("truncated")) == (0, False)
    found.pop("id")
    if task == "qa":
        assert found.pop("no_answer") is True
        assert found.pop("score") == 1.0
    if task == "generation":
        assert found.pop("ended") == "stop"
    assert not any(found.values()), found
    assert isinstance(first.to_html(), str)
    for row in FORMATS:
        if not row.tasks or task in row.tasks:
            text = b"".join(row.pieces([first, last]))
            if row.record is not None:
                assert len([json.loads(line) for line in text.splitlines()]) == 2


@pytest.mark.parametrize("name", names("tasks"))
def test_every_task_answers_a_text_without_a_word(name: str) -> None:
    """Characters that a tokenizer drops leave no token, and that must not stop the file they are in."""
    model = spanlab.load(DATA / "tasks" / name, precision="fp32")
    for case in read(DATA / "tasks" / f"{name}.json"):
        task = model.model.tasks[model.model.name_of(case["task"])]
        given = case["input"]
        if not isinstance(given, dict):
            given = dict(zip(task.shape.required, [given] if isinstance(given, str) else given, strict=True))
        if "entities" in given or "mentions" in given:
            continue
        for field in task.shape.required:
            for text in ("\u200b", "\x01\x02", "\ufeff", "\u0301"):
                without = {key: value for key, value in given.items() if key not in task.shape.instead.get(field, ())}
                results = model.predict([given, {**without, field: text}], task=case["task"])
                assert json.dumps(results[1].to_dict(), allow_nan=False)


def test_one_empty_document_of_several_is_no_obstacle() -> None:
    model = spanlab.load(DATA / "tasks" / "qa-pointers", precision="fp32")
    text = "Anna sold the flour in Delft."
    alone, among = model.predict(
        [
            {"question": "Who sold the flour?", "context": [text]},
            {"question": "Who sold the flour?", "context": ["", text, " "]},
        ]
    )
    assert among.windows == 3
    assert alone.no_answer or among.no_answer or (among.answer, among.document) == (alone.answer, 1)


def test_several_tasks_at_once() -> None:
    model = spanlab.load(DATA / "tasks" / "multitask", precision="fp32")
    case = next(case for case in read(DATA / "tasks" / "multitask.json") if case["task"] == model.tasks[0])
    given = case["input"] if isinstance(case["input"], dict) else {"text": case["input"]}
    fields = {field for name in model.tasks for field in model.model.tasks[name].shape.required}
    row = {**dict.fromkeys(fields, "Anna sold the flour in Delft."), **given}
    empty, whole = model.predict([dict.fromkeys(fields, ""), row], task="all")
    assert {name: result.windows for name, result in empty.items()} == dict.fromkeys(model.tasks, 0)
    assert all(result.windows for result in whole.values())


def test_lines_of_a_text_file_keep_their_numbers(tmp_path: Path) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text("Anna sold the flour\n\nPeter swam at sea\n   \n")
    done = run_here("predict", str(CLASSIFIER), "--input", str(texts), "--json")
    assert done.returncode == 0, done.stderr
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert [result["id"] for result in results] == ["0", "1", "2", "3"]
    assert [result["windows"] for result in results] == [1, 0, 1, 0]
    assert [result["label"] is None for result in results] == [False, True, False, True]
    shown = run_here("predict", str(CLASSIFIER), "--input", str(texts))
    assert [line.split("\t")[:2] for line in shown.stdout.splitlines()][1] == ["1", "label=null"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("given.jsonl", '{"text": "Anna sold the flour"}\n{"text": ""}\n{"text": null}\n{"text": "Peter swam"}\n'),
        ("given.csv", 'text,other\nAnna sold the flour,1\n,2\n"",3\nPeter swam,4\n'),
        ("given.tsv", "text\tother\nAnna sold the flour\t1\n\t2\n \t3\nPeter swam\t4\n"),
    ],
)
def test_an_empty_cell_does_not_stop_a_file(name: str, content: str, tmp_path: Path) -> None:
    given, out = tmp_path / name, tmp_path / "out.jsonl"
    given.write_text(content)
    done = run_here("predict", str(CLASSIFIER), "--input", str(given), "--output", str(out))
    assert done.returncode == 0, done.stderr
    results = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(result["id"], result["windows"]) for result in results] == [("0", 1), ("1", 0), ("2", 0), ("3", 1)]
    vectors = tmp_path / "vectors.npy"
    assert run_here("embed", str(CLASSIFIER), "--input", str(given), "--output", str(vectors)).returncode == 0
    assert np.allclose(np.linalg.norm(np.load(vectors), axis=1), [1, 0, 0, 1], atol=1e-5)


def test_training_and_evaluation_stay_strict(tmp_path: Path) -> None:
    given = tmp_path / "given.jsonl"
    given.write_text('{"text": "Anna sold the flour", "label": "trade"}\n{"text": " ", "label": "trade"}\n')
    done = run_here("evaluate", str(CLASSIFIER), "--data", str(given))
    assert done.returncode == 2
    assert f"{given}:2: 'text' is empty" in done.stderr


def test_a_missing_field_is_still_an_error() -> None:
    model = spanlab.load(CLASSIFIER, precision="fp32")
    with pytest.raises(InputError, match="input 1: the field 'text' is missing"):
        model.predict([{"text": ""}, {"txt": "Anna"}])
