"""Examples as objects of Python: mappings, tables, data sets and documents give what a file of them would."""

from pathlib import Path
from typing import Any

import pytest

import spanlab
from spanlab.errors import InputError
from spanlab.tasks.classification import Classification
from spanlab.tasks.config import TaskDataConfig
from spanlab.tasks.examples import read_labelled
from spanlab.tasks.formats.records import items_of
from spanlab.tasks.ner.task import NamedEntities
from spanlab.tasks.qa.task import QuestionAnswering

ROWS = [{"sentence": "a good day", "label": "good"}, {"sentence": "a bad day", "label": "bad"}]
EXPECTED = [("a good day", ("good",)), ("a bad day", ("bad",))]


def classes_of(source: Any, *columns: str) -> list[tuple[str, tuple[str, ...]]]:
    examples = read_labelled(Classification, source, TaskDataConfig(columns=columns)).examples
    return [(example.text, example.labels) for example in examples]


def test_mappings_and_tables(tmp_path: Path) -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    renamed = [{"review": row["sentence"], "grade": row["label"]} for row in ROWS]
    for rows in (ROWS, iter(ROWS), pandas.DataFrame(ROWS), polars.DataFrame(ROWS)):
        assert classes_of(rows) == EXPECTED
    for rows in (renamed, pandas.DataFrame(renamed), polars.DataFrame(renamed)):
        assert classes_of(rows, "review:text", "grade:label") == EXPECTED
    with pytest.raises(InputError, match=r"example 0: no key is called 'revew' .did you mean 'review'"):
        classes_of(renamed, "revew:text", "grade:label")
    with pytest.raises(InputError, match="example 1: the field 'label' is missing"):
        classes_of([ROWS[0], {"text": "a"}])
    with pytest.raises(InputError, match="example 0: is 'a text'; give mappings"):
        classes_of(["a text"])


def test_missing_cells_are_none() -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"text": ["a", None], "score": [1.0, float("nan")], "label": pandas.array([1, pandas.NA])})
    assert list(items_of(table)) == [
        {"text": "a", "score": 1.0, "label": 1},
        {"text": None, "score": None, "label": None},
    ]
    assert list(items_of(table["text"])) == ["a", ""]


def test_datasets_classes_become_their_names() -> None:
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        {"sentence": datasets.Value("string"), "label": datasets.ClassLabel(names=["bad", "good"])}
    )
    columns = {"sentence": [row["sentence"] for row in ROWS], "label": [1, 0]}
    data = datasets.Dataset.from_dict(columns, features=features)
    assert classes_of(data) == EXPECTED
    assert classes_of(data.to_iterable_dataset()) == EXPECTED
    with pytest.raises(InputError, match=r"several sets: train, test; choose one, such as dataset\['train'\]"):
        classes_of(datasets.DatasetDict({"train": data, "test": data}))


def test_datasets_tags_and_answers() -> None:
    datasets = pytest.importorskip("datasets")
    names = datasets.ClassLabel(names=["O", "B-PER", "I-PER"])
    features = datasets.Features({"tokens": datasets.List(datasets.Value("string")), "ner_tags": datasets.List(names)})
    data = datasets.Dataset.from_dict(
        {"tokens": [["Ada", "Lovelace", "wrote"], ["Nobody"]], "ner_tags": [[1, 2, 0], [0]]}, features=features
    )
    first, second = read_labelled(NamedEntities, data, TaskDataConfig()).examples
    assert first.text == "Ada Lovelace wrote"
    assert [(span.start, span.end, span.label) for span in first.spans] == [(0, 12, "PER")]
    assert (second.text, second.spans) == ("Nobody", ())
    squad = [{"question": "Who?", "context": "Ada wrote.", "answers": {"text": ["Ada"], "answer_start": [0]}}]
    (example,) = read_labelled(QuestionAnswering, datasets.Dataset.from_list(squad), TaskDataConfig()).examples
    assert [(answer.text, answer.start) for answer in example.answers] == [("Ada", 0)]


def test_training_and_scoring_on_rows_is_training_and_scoring_on_their_file(tiny_model: Path, tmp_path: Path) -> None:
    import json

    rows = [{"text": row["sentence"], "label": row["label"]} for row in ROWS] * 4
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    settings: dict[str, Any] = {"model": tiny_model, "training": {"epochs": 1, "batch_size": 4}}
    spanlab.finetune("classification", train=file, dev=file, out=tmp_path / "a", **settings)
    spanlab.finetune("classification", train=rows, dev=iter(rows), out=tmp_path / "b", **settings)
    assert (tmp_path / "b" / "examples" / "train.jsonl").read_text() == file.read_text()
    first, second = spanlab.load(tmp_path / "a"), spanlab.load(tmp_path / "b")
    assert first.predict("a good day")[0].scores == second.predict("a good day")[0].scores
    assert first.evaluate(file).metrics == first.evaluate(rows).metrics == first.evaluate(str(file)).metrics
    renamed = [{"review": row["text"], "label": row["label"]} for row in rows]
    assert first.evaluate(renamed, columns=["review:text"]).metrics == first.evaluate(rows).metrics


def test_rows_do_not_replace_those_of_a_run_that_is_there(tiny_model: Path, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"model": tiny_model, "out": tmp_path / "run", "training": {"epochs": 1}}
    spanlab.finetune("classification", train=ROWS, **settings)
    kept = (tmp_path / "run" / "examples" / "train.jsonl").read_text()
    with pytest.raises(InputError, match="the folder contains a run"):
        spanlab.finetune("classification", train=ROWS[:1] * 2, **settings)
    assert (tmp_path / "run" / "examples" / "train.jsonl").read_text() == kept
    spanlab.finetune("classification", train=ROWS * 2, overwrite=True, **settings)
    assert len((tmp_path / "run" / "examples" / "train.jsonl").read_text().splitlines()) == 4
    with pytest.raises(InputError, match="example 0: is 'one'"):
        spanlab.finetune("classification", train=["one"], model=tiny_model, out=tmp_path / "other")
    spanlab.finetune("classification", train=ROWS, **{**settings, "out": tmp_path / "other"})
