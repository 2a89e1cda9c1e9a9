import os
from pathlib import Path

import pytest

from spanlab.corpus.prepare.sources import find_sources
from spanlab.errors import InputError


def names(*arguments: str, folder: Path) -> list[str]:
    return [str(Path(source.name).relative_to(folder)) for source in find_sources(arguments)]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("b.txt", "a.jsonl.gz", "notes.md", ".hidden.txt", "sub/c.csv", "sub/.git/d.txt", "sub/A.TXT.XZ"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    return tmp_path


def test_a_folder_is_walked_by_name_and_what_is_not_text_is_passed_over(tree: Path) -> None:
    assert names(str(tree), folder=tree) == ["a.jsonl.gz", "b.txt", "sub/A.TXT.XZ", "sub/c.csv"]


def test_formats_and_compressions_are_read_off_the_names(tree: Path) -> None:
    sources = {Path(source.name).name: (source.format, source.compression) for source in find_sources([str(tree)])}
    assert sources == {
        "a.jsonl.gz": ("jsonl", "gz"),
        "b.txt": ("txt", None),
        "A.TXT.XZ": ("txt", "xz"),
        "c.csv": ("csv", None),
    }


def test_the_order_given_is_kept_and_patterns_are_sorted(tree: Path) -> None:
    (tree / "a.txt").write_text("x")
    assert names(str(tree / "sub/c.csv"), str(tree / "*.txt"), folder=tree) == ["sub/c.csv", "a.txt", "b.txt"]
    assert names(str(tree / "**/*.[ct][sx][vt]"), folder=tree) == ["a.txt", "b.txt", "sub/c.csv"]


def test_a_format_can_be_said(tree: Path) -> None:
    assert [source.format for source in find_sources([str(tree / "notes.md")], "txt")] == ["txt"]


def test_other_sources() -> None:
    sources = list(find_sources(["-", "datasets:some/name:config:train"]))
    assert [(source.name, source.format, source.size) for source in sources] == [
        ("-", "txt", None),
        ("datasets:some/name:config:train", "datasets", None),
    ]


def test_a_pipe_is_sent_to_standard_input(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.txt")
    with pytest.raises(InputError, match=r"a\.txt: not a regular file; pipe it in"):
        list(find_sources([str(tmp_path / "a.txt")]))


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("missing.txt", "missing.txt: no such file or folder"),
        ("*.nothing", r"\*\.nothing: no file matches this pattern"),
        ("empty", r"empty: no \.txt, \.jsonl, \.csv, \.parquet file in this folder"),
        ("notes.md", r"notes\.md: '\.md' is not a known format; use --format txt"),
    ],
)
def test_what_is_not_there_is_named(tree: Path, monkeypatch: pytest.MonkeyPatch, argument: str, message: str) -> None:
    monkeypatch.chdir(tree)
    (tree / "empty").mkdir()
    with pytest.raises(InputError, match=message):
        list(find_sources([argument]))
