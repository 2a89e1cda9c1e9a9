"""Names of columns: those of training are remembered, and those given are never ignored."""

import io
import json
import shutil
import sys
from pathlib import Path

import pytest

from spanlab.errors import InputError
from spanlab.tasks.formats.reading import fitting_columns, read_rows
from spanlab.tasks.formats.row import Row
from spanlab.tasks.table import find_task
from tests.cli.run import run_here
from tests.compat.test_folders_written_before import DATA

TEXTS = ("the river rose again", "she won the race") * 6
LABELS = ("water", "sport") * 6
SETTINGS = ("training.epochs=1", "training.precision=fp32", "data.columns=review:text,opinion:label")


@pytest.fixture(scope="module")
def run(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model trained on a table with its own column names."""
    folder = tmp_path_factory.mktemp("columns")
    write_table(folder / "train.csv")
    given = ("--model", str(tiny_model), "--train", str(folder / "train.csv"), "--dev", str(folder / "train.csv"))
    done = run_here("finetune", "classification", *given, "--out", str(folder / "run"), *SETTINGS)
    assert done.returncode == 0, done.stderr
    return folder / "run"


def write_table(path: Path, header: str = "nr,review,opinion") -> Path:
    rows = [f"{n},{text},{label}" for n, (text, label) in enumerate(zip(TEXTS, LABELS, strict=True))]
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def test_the_columns_of_training_are_remembered(run: Path, tmp_path: Path) -> None:
    described = json.loads((run / "model" / "spanlab.json").read_text())
    assert described["columns"] == ["review:text", "opinion:label"]
    table = write_table(tmp_path / "test.csv", "nr,review,opinion")
    scored = run_here("evaluate", str(run), "--data", str(table), "--json")
    assert scored.returncode == 0, scored.stderr
    assert f"{table}: columns as in training, review:text,opinion:label" in scored.stderr
    assert json.loads(scored.stdout)["count"] == 12
    predicted = run_here("predict", str(run), "--input", str(table), "--json")
    assert predicted.returncode == 0, predicted.stderr
    assert "columns as in training, review:text,opinion:label" in predicted.stderr
    assert len(predicted.stdout.splitlines()) == 12


def test_they_are_used_as_far_as_a_file_has_them(run: Path, tmp_path: Path) -> None:
    unlabelled = tmp_path / "unlabelled.csv"
    unlabelled.write_text("text,review\nnot this,the river rose again\n")
    done = run_here("predict", str(run), "--input", str(unlabelled), "--json")
    assert done.returncode == 0, done.stderr
    assert "columns as in training, review:text\n" in done.stderr
    usual = tmp_path / "usual.jsonl"
    usual.write_text(json.dumps({"text": "the river rose again", "label": "water"}) + "\n")
    other = run_here("predict", str(run), "--input", str(usual), "--json")
    assert other.stderr == ""
    assert other.stdout == done.stdout
    lines = tmp_path / "lines.jsonl"
    lines.write_text(json.dumps({"text": "not this", "review": "the river rose again"}) + "\n")
    assert run_here("predict", str(run), "--input", str(lines), "--json").stdout == done.stdout


def test_standard_input_too(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = b'{"review": "the river rose again"}\n{"review": "she won the race"}\n'
    stdin = io.TextIOWrapper(io.BufferedReader(io.BytesIO(given)))  # type: ignore[arg-type]
    monkeypatch.setattr(sys, "stdin", stdin)
    done = run_here("predict", str(run), "--json")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 2


def test_a_folder_without_them_is_read_as_before(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text("text\nAnna sold the flour\n")
    done = run_here("predict", str(DATA / "tasks" / "classification"), "--input", str(table), "--json")
    assert done.returncode == 0
    assert done.stderr == ""


def test_damaged_columns_in_a_model_are_named(run: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(run / "model", tmp_path / "model")
    described = json.loads((copy / "spanlab.json").read_text())
    (copy / "spanlab.json").write_text(json.dumps({**described, "columns": 5}))
    table = write_table(tmp_path / "test.csv")
    done = run_here("predict", str(copy), "--input", str(table))
    assert done.returncode == 2
    assert "columns" in done.stderr


def test_keys_of_json_lines_are_renamed_as_columns_are(tmp_path: Path) -> None:
    shape = find_task("classification").shape
    path = tmp_path / "given.jsonl"
    path.write_text('{"review": "a", "text": "b", "stars": 1}\n{"review": "c"}\n{"stars": 2}\n')
    rows = [row for row in read_rows(str(path), shape, ("review:text", "stars:label")) if isinstance(row, Row)]
    assert [dict(row.values) for row in rows] == [{"text": "a", "label": 1}, {"text": "c"}, {"label": 2}]
    spans = tmp_path / "spans.jsonl"
    spans.write_text('{"body": "Anna", "entities": []}\n')
    (row,) = read_rows(str(spans), find_task("ner").shape, ("body:text", "entities:spans"))
    assert isinstance(row, Row)
    assert row.values == {"text": "Anna", "spans": []}


@pytest.mark.parametrize(
    ("task", "name", "content", "columns", "words"),
    [
        ("classification", "a.jsonl", '{"review": "a"}\n', "reviw:text", "no key is called 'reviw' (did you mean"),
        ("classification", "a.jsonl", '{"text": "a"}\n', "text,label", "names columns by position"),
        ("classification", "a.jsonl", '{"text": "a"}\n', "text:txt", "names 'txt' (did you mean 'text'?)"),
        ("classification", "a.txt", "a\n", "review:text", "read as one text a line, which has no columns"),
        ("qa", "a.json", '{"data": []}\n', "a:question", "read as SQuAD, which has no columns"),
    ],
)
def test_columns_are_never_ignored(
    task: str, name: str, content: str, columns: str, words: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(InputError) as refused:
        list(read_rows(str(path), find_task(task).shape, columns.split(",")))
    assert words in str(refused.value)
    checked = run_here("data", "check", task, str(path), "--columns", columns)
    assert checked.returncode == 2
    assert words in checked.stderr


def test_columns_by_position_fit_a_table_of_the_same_width(tmp_path: Path) -> None:
    shape, columns = find_task("classification").shape, ("_", "label", "_", "text")
    path = tmp_path / "a.tsv"
    for content, expected in (
        ("gj04\t1\t\tthe river rose\n", columns),
        ("id\tlabel\tnote\ttext\n", ()),
        ("text\tlabel\n", ()),
        ("", ()),
    ):
        path.write_text(content)
        assert fitting_columns(str(path), shape, columns) == expected
    words = tmp_path / "a.conll"
    words.write_text("\nAnna NNP B-PER\n")
    ner = find_task("ner").shape
    assert fitting_columns(str(words), ner, ("word", "_", "tag")) == ("word", "_", "tag")
    assert fitting_columns(str(words), ner, ("word", "tag")) == ()


def test_predictions_are_read_whatever_the_columns_of_the_gold_file(tmp_path: Path) -> None:
    gold = write_table(tmp_path / "gold.csv")
    predicted = tmp_path / "predicted.jsonl"
    predicted.write_text("".join(json.dumps({"label": label}) + "\n" for label in LABELS))
    given = ("--gold", str(gold), "--predicted", str(predicted), "--columns", "review:text,opinion:label")
    done = run_here("score", "classification", *given, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["metrics"]["accuracy"] == 100


def test_a_repair_that_keeps_nothing_is_an_error(tmp_path: Path) -> None:
    path, fixed = tmp_path / "bad.jsonl", tmp_path / "fixed.jsonl"
    path.write_text('{"text": ""}\n{"text": 3, "label": "x"}\n')
    done = run_here("data", "check", "classification", str(path), "--fix", str(fixed))
    assert done.returncode == 2
    assert f"{path}: no example can be kept" in done.stderr
    assert not fixed.exists()
