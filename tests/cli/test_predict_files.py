"""`spanlab predict` with files as people have them: plain text on a pipe, other names of fields, lines with errors."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from spanlab.tasks.formats.reading import read_rows
from spanlab.tasks.formats.row import FileShape, Row
from spanlab.tasks.table import TASKS, find_task
from tests.cli.run import run_here
from tests.compat.test_folders_written_before import DATA

TASK_FOLDERS = DATA / "tasks"
NER, CLASSIFIER, QA = (str(TASK_FOLDERS / name) for name in ("ner-span", "classification", "qa-span"))


def values_of(path: Path, task: str, columns: tuple[str, ...] = ()) -> list[dict[str, object]]:
    rows = list(read_rows(str(path), find_task(task).shape, columns))
    assert all(isinstance(row, Row) for row in rows), rows
    return [dict(row.values) for row in rows if isinstance(row, Row)]


def write_lines(path: Path, *rows: object) -> Path:
    lines = (row if isinstance(row, str) else json.dumps(row) for row in rows)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("task", "given", "known"),
    [
        ("ner", {"sentence": "a", "entities": []}, {"text": "a", "spans": []}),
        ("ner", {"content": "a", "ents": []}, {"text": "a", "spans": []}),
        ("ner", {"text": "a", "sentence": "b", "spans": [], "entities": [1]}, None),
        ("ner", {"sentence": "a", "content": "b"}, None),
        ("classification", {"review": "a", "category": "x"}, {"text": "a", "label": "x"}),
        ("classification", {"content": "a", "tags": ["x"]}, {"text": "a", "labels": ["x"]}),
        ("similarity", {"sentence1": "a", "sentence2": "b"}, {"text_a": "a", "text_b": "b"}),
        ("qa", {"query": "a", "passage": "b"}, {"question": "a", "context": "b"}),
        ("coref", {"document": "a"}, {"text": "a"}),
        ("relation", {"sentence": "a", "spans": []}, {"text": "a", "entities": []}),
        ("summarisation", {"article": "a", "highlights": "b"}, {"text": "a", "summary": "b"}),
        ("summarisation", {"sentences": ["a"], "document": "d1"}, None),
        ("generation", {"text": "a", "src": "b"}, None),
    ],
)
def test_common_names_of_keys_are_known(
    task: str, given: dict[str, object], known: dict[str, object] | None, tmp_path: Path
) -> None:
    """None: the object stays as it is, since our own name is there or two names could be meant."""
    assert values_of(write_lines(tmp_path / "in.jsonl", given), task) == [given if known is None else known]


def test_no_common_name_is_a_field_of_its_own_task() -> None:
    for name, task in TASKS.items():
        for field, others in {**task.shape.fields, **task.shape.aliases}.items():
            assert field not in others, name


def test_a_field_of_another_task_is_not_taken_for_a_text() -> None:
    shape = FileShape(fields={"text": ("text_a",), "text_a": ()}, required=("text", "text_a"))
    assert shape.with_known_names({"text_a": "x"}) == {"text_a": "x"}


def test_columns_name_keys_and_the_common_names_still_hold(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "in.jsonl", {"body_html": "a", "entities": []})
    assert values_of(path, "ner", ("body_html:text",)) == [{"text": "a", "spans": []}]


def test_an_unknown_key_is_suggested(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "in.jsonl", {"id": "1", "utterance": "a"})
    done = run_here("predict", NER, "--input", str(path))
    assert done.returncode == 2
    fix = 'write "text": "…", or name its key, such as --columns utterance:text'
    assert done.stderr.endswith(f"in.jsonl:1: the field 'text' is missing; the keys are id, utterance; {fix}\n")
    assert run_here("predict", NER, "--input", str(path), "--columns", "utterance:text").returncode == 0


def predict_stdin(given: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "spanlab", "predict", *arguments],
        input=given,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )


@pytest.mark.slow
def test_plain_text_on_stdin_is_a_text_a_line() -> None:
    done = predict_stdin("Anna met Bo.\n\n[Bo] left {Delft}.\n", NER, "--json")
    assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(record["id"], record["windows"]) for record in records] == [("0", 1), ("1", 0), ("2", 1)]


@pytest.mark.slow
def test_json_on_stdin_is_still_json() -> None:
    done = predict_stdin('\n{"id": "x", "text": "Anna met Bo."}\n', NER, "--json")
    assert json.loads(done.stdout)["id"] == "x"
    refused = predict_stdin("Anna met Bo.\n", QA)
    assert refused.returncode == 2
    assert "write one JSON object per line" in refused.stderr
    empty = predict_stdin("", NER)
    assert (empty.returncode, empty.stdout) == (2, "")
    assert "has no examples" in empty.stderr


BAD = ({"text": "Anna met Bo."}, "not json", {"text": 5}, {"id": "named", "text": "Bo left."}, {"text": "Anna left."})


def test_examples_with_errors_are_left_out_and_listed(tmp_path: Path) -> None:
    path, output = write_lines(tmp_path / "in.jsonl", *BAD), tmp_path / "out.csv"
    refused = run_here("predict", NER, "--input", str(path), "--output", str(output))
    assert (refused.returncode, output.exists()) == (2, False)
    done = run_here("predict", NER, "--input", str(path), "--output", str(output), "--skip-errors")
    assert done.returncode == 2
    lines = done.stderr.splitlines()
    assert f"{output}: 3 results" in lines
    skipped = [line for line in lines if line.startswith("spanlab: skipped: ")]
    assert [line.split("in.jsonl:")[1].split(":")[0] for line in skipped] == ["2", "3"]
    assert all("; " in line or "must be text" in line for line in skipped)
    assert lines[-1] == f"spanlab: {path}: 2 examples were left out"
    with output.open(encoding="utf-8", newline="") as file:
        assert [row["id"] for row in csv.DictReader(file)] == ["0", "named", "4"]


def test_what_is_left_out_does_not_change_the_rest(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "in.jsonl", *BAD)
    good = write_lines(tmp_path / "good.jsonl", *(row for row in BAD if isinstance(row, dict) and row["text"] != 5))
    skipped = run_here("predict", NER, "--input", str(path), "--json", "--skip-errors").stdout.splitlines()
    alone = run_here("predict", NER, "--input", str(good), "--json").stdout.splitlines()
    spans = [[json.loads(line)["spans"] for line in lines] for lines in (skipped, alone)]
    assert len(spans[0]) == 3
    assert spans[0] == spans[1]


def test_where_all_have_errors_nothing_is_written(tmp_path: Path) -> None:
    path, output = write_lines(tmp_path / "in.jsonl", "not json", {"text": 5}), tmp_path / "out.parquet"
    done = run_here("predict", NER, "--input", str(path), "--output", str(output), "--skip-errors")
    assert done.returncode == 2
    assert done.stderr.endswith(f"spanlab: {path}: all 2 examples have errors; correct those above\n")
    assert list(tmp_path.iterdir()) == [path]


def test_without_errors_nothing_is_different(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "in.jsonl", {"text": "Anna met Bo."}, {"text": ""})
    usual, skipping = (
        run_here("predict", NER, "--input", str(path), "--json", *more) for more in ((), ("--skip-errors",))
    )
    assert (usual.returncode, skipping.returncode) == (0, 0)
    assert usual.stdout == skipping.stdout


def test_brat_has_the_texts_in_a_second_file(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "in.jsonl", {"text": "Anna met Bo."}, {"text": "Bo left."})
    output = tmp_path / "out.ann"
    done = run_here("predict", NER, "--input", str(path), "--output", str(output))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out.txt").read_text(encoding="utf-8") == "Anna met Bo.\nBo left.\n"
    assert output.is_file()
    again = run_here("predict", NER, "--input", str(path), "--output", str(tmp_path / "out.ann"), "--overwrite")
    assert again.returncode == 0, again.stderr
    output.unlink()
    kept = run_here("predict", NER, "--input", str(path), "--output", str(output))
    assert kept.returncode == 2
    assert "out.txt: file exists; use --overwrite, or choose another --output" in kept.stderr
    unnamed = run_here("predict", NER, "--input", str(path), "--format", "brat")
    assert unnamed.stderr == "spanlab: --format brat is written to a file; name it by --output\n"


def test_quiet_says_nothing_but_errors(tmp_path: Path) -> None:
    path, output = write_lines(tmp_path / "in.jsonl", {"text": "Anna met Bo."}), tmp_path / "out.jsonl"
    done = run_here("predict", CLASSIFIER, "--input", str(path), "--output", str(output), "--quiet")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    wrong = run_here("predict", CLASSIFIER, "--input", str(tmp_path / "none.jsonl"), "-q")
    assert "no such file" in wrong.stderr
