"""Pairs of files that are aligned by line, and the other forms of translations."""

import gzip
from pathlib import Path

import pytest

from spanlab.errors import InputError
from spanlab.tasks.classification import Classification
from spanlab.tasks.config import TaskDataConfig
from spanlab.tasks.examples import read_labelled, read_unlabelled
from spanlab.tasks.formats.aligned import files_of, short_name
from spanlab.tasks.formats.reading import count_rows, read_rows
from spanlab.tasks.generation.task import Generation
from tests.cli.run import run_here

DATA = TaskDataConfig()


def write(folder: Path, source: str, target: str) -> str:
    (folder / "train.en").write_text(source, encoding="utf-8")
    (folder / "train.de").write_text(target, encoding="utf-8")
    return f"{folder}/train.en,{folder}/train.de"


def pairs(path: str, data: TaskDataConfig = DATA) -> list[tuple[str, str]]:
    return [(example.source, example.targets[0]) for example in read_labelled(Generation, path, data).examples]


def test_line_by_line(tmp_path: Path) -> None:
    path = write(tmp_path, "\ufeffA dog.\r\nTwo cats.\n", "Ein Hund.\nZwei Katzen.")
    assert pairs(path) == [("A dog.", "Ein Hund."), ("Two cats.", "Zwei Katzen.")]
    assert count_rows(path, Generation.shape) == 2
    assert short_name(path) == "train.en,train.de"
    for name in ("train.en", "train.de"):
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress((tmp_path / name).read_bytes()))
    assert pairs(f"{tmp_path}/train.en.gz,{tmp_path}/train.de.gz") == pairs(path)


def test_a_file_with_a_comma_in_its_name_is_one_file(tmp_path: Path) -> None:
    file = tmp_path / "a,b.jsonl"
    file.write_text('{"source": "A dog.", "target": "Ein Hund."}\n')
    assert files_of(str(file)) == (str(file),)
    assert pairs(str(file)) == [("A dog.", "Ein Hund.")]
    assert files_of("-") == ("-",)
    assert files_of("train.en,") == ("train.en,",)


def test_tables_of_two_columns(tmp_path: Path) -> None:
    table = tmp_path / "pairs.tsv"
    table.write_text("source\ttarget\nA dog.\tEin Hund.\n")
    assert pairs(str(table)) == [("A dog.", "Ein Hund.")]
    table.write_text("A dog.\tEin Hund.\n")
    assert pairs(str(table), TaskDataConfig(columns=("source", "target"))) == [("A dog.", "Ein Hund.")]


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("a\nb\nc\n", "x\ny\n", "train.en:3: has no line in .*train.de, which has 2 of 3 lines; line n of both files"),
        ("a\n", "x\ny\nz\n", "train.de:2: has no line in .*train.en, which has 1 of 3 lines"),
        ("a\n\n", "x\ny\n", "train.en:2: 'source' is empty"),
        ("a\nb\n", "x\n\n", "train.en:2: 'target' is empty"),
        ("", "", "train.en,.*train.de: has no examples"),
    ],
)
def test_every_fault_with_its_file_and_line(tmp_path: Path, source: str, target: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        pairs(write(tmp_path, source, target))


def test_more_faults(tmp_path: Path) -> None:
    path = write(tmp_path, "a\nb\n", "x\ny\n")
    (tmp_path / "train.de").write_bytes(b"x\n\xff\n")
    with pytest.raises(InputError, match=r"train\.de:2: not UTF-8 text"):
        pairs(path)
    (tmp_path / "train.de").unlink()
    with pytest.raises(InputError, match=r"train\.de: no such file"):
        pairs(path)
    with pytest.raises(
        InputError, match=r"train\.en: .*without labels; name the file of the targets, too: .*\.en,FILE"
    ):
        pairs(f"{tmp_path}/train.en")
    with pytest.raises(InputError, match="no such file"):  # a pair is for targets only
        list(read_rows(path, Classification.shape))


def test_sources_alone_are_a_text_a_line(tmp_path: Path) -> None:
    write(tmp_path, "A dog.\nTwo cats.\n", "x\n")
    found = read_unlabelled(Generation, f"{tmp_path}/train.en").examples
    assert [example.source for example in found] == ["A dog.", "Two cats."]


def test_data_check_takes_a_pair(tmp_path: Path) -> None:
    path = write(tmp_path, "a b c\nb\n", "x\ny\n")
    assert run_here("data", "check", "generation", path).returncode == 0
    done = run_here("data", "check", "generation", write(tmp_path, "a\nb\nc\n", "x\ny\n"))
    assert done.returncode != 0
    assert "train.en:3" in done.stdout + done.stderr
