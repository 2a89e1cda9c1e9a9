"""Data checks: every kind of problem with its line, counts, and a mended file that training takes."""

import json
from pathlib import Path

import pytest

from spanlab.errors import InputError
from spanlab.tasks.checking import DataReport, check_file, fix_file
from spanlab.tasks.classification import Classification
from spanlab.tasks.config import TaskDataConfig
from spanlab.tasks.examples import read_labelled
from spanlab.text import Tokenizer
from tests.cli.run import run_here

DATA = TaskDataConfig()
DIRTY = [
    {"id": "1", "text": "the river rose", "label": "water"},
    {"id": "1", "text": "she won", "label": "sport"},
    {"id": "3", "text": "the river rose", "label": "water"},
    {"id": "4", "text": "", "label": "water"},
    {"id": "5", "text": "caf\ufffd", "label": "sport"},
    {"id": "6", "text": "no label"},
]


def write(path: Path, rows: list[dict[str, str]], rest: str = "") -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) + rest, encoding="utf-8")
    return str(path)


def found(report: DataReport) -> set[tuple[int | None, str]]:
    return {(finding.line, finding.kind) for finding in report.findings}


def test_every_problem_with_its_line(tmp_path: Path, tiny_model: Path) -> None:
    path = write(tmp_path / "a.jsonl", DIRTY, '{"text": "cut')
    data = TaskDataConfig(length=8)
    report = check_file(Classification, path, data, tokenizer=Tokenizer.load(tiny_model))
    assert found(report) == {
        (2, "duplicate id"),
        (3, "duplicate input"),
        (4, "empty text"),
        (5, "encoding fault"),
        (6, "missing field"),
        (7, "unreadable"),
    }
    assert not report.clean
    assert report.examples == 6
    assert report.label_counts == {"water": 2, "sport": 2}
    assert report.over_limit is not None
    assert json.loads(json.dumps(report.to_dict()))["kinds"]["empty text"] == 1


def test_a_dev_file_against_its_training_file(tmp_path: Path) -> None:
    train = write(tmp_path / "train.jsonl", DIRTY)
    dev = write(tmp_path / "dev.jsonl", [{"text": "she won", "label": "sport"}, {"text": "a lake", "label": "watr"}])
    report = check_file(Classification, dev, DATA, train=train)
    assert found(report) == {(1, "overlap with train"), (2, "unseen label")}
    unseen = next(finding for finding in report.findings if finding.kind == "unseen label")
    assert unseen.fix == "did you mean 'water'?"


def test_rare_labels_that_look_like_frequent_ones(tmp_path: Path) -> None:
    rows = [{"text": f"text {n}", "label": "positive"} for n in range(25)]
    rows += [{"text": "b", "label": "positve"}, {"text": "c", "label": "other"}]
    report = check_file(Classification, write(tmp_path / "a.jsonl", rows), DATA)
    assert [finding.kind for finding in report.findings] == ["likely typo"]
    assert report.clean


def test_a_column_that_is_missing_is_listed_once(tmp_path: Path) -> None:
    table = tmp_path / "a.tsv"
    table.write_text("text\topinion\n" + "".join(f"text {n}\tgood\n" for n in range(60)) + "\tgood\n")
    done = run_here("data", "check", "classification", str(table))
    assert done.returncode == 2
    assert done.stdout.count("no column is called 'label'") == 1
    assert f"{table}:2: missing field: no column is called 'label'; there are text, opinion (in 61 of 61" in done.stdout
    assert "empty text" in done.stdout
    lines = write(tmp_path / "a.jsonl", [{"text": f"text {n}"} for n in range(60)])
    assert [finding.line for finding in check_file(Classification, lines, DATA).findings] == [1]
    # Where some rows have the field, each of the others is listed.
    lines = write(tmp_path / "b.jsonl", [{"text": f"text {n}"} for n in range(60)] + [DIRTY[0]])
    assert len(check_file(Classification, lines, DATA).findings) == 60


def test_irregular_tags_are_listed_by_line(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_text("Ada I-PER\nmet O\nEve B-PER\nin O\nRome I-LOC\n\nBob B-PER\nsat B-X\n")
    done = run_here("data", "check", "ner", str(path), "--json")
    assert done.returncode == 0
    report = json.loads(done.stdout)
    assert report["clean"]
    assert [(finding["line"], finding["kind"]) for finding in report["findings"]] == [
        (1, "irregular tag"),
        (5, "irregular tag"),
    ]
    done = run_here("data", "check", "ner", str(path), "--json", "--tag-scheme", "IOB1")
    assert [finding["line"] for finding in json.loads(done.stdout)["findings"]] == [3, 7, 8]
    done = run_here("data", "check", "ner", str(path), "--tag-scheme", "BMES")
    assert done.returncode == 2
    assert f"{path}:1: unreadable: 'I-PER' is not a tag of BMES; correct it" in done.stdout
    assert f"{path}:5: unreadable" in done.stdout


def test_fixing_writes_what_training_takes(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", DIRTY, '{"text": "cut')
    out = tmp_path / "fixed.jsonl"
    outcome = fix_file(Classification, path, DATA, out)
    assert outcome.written == 4
    assert outcome.dropped == {"empty text": 1, "missing field": 1, "unreadable": 1}
    assert len(read_labelled(Classification, str(out), DATA)) == 4
    with pytest.raises(InputError, match="file exists"):
        fix_file(Classification, path, DATA, out)
