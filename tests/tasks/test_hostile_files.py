"""Labelled files that are damaged, or expand to far more than they seem to hold."""

import csv
import gzip
import lzma
from contextlib import suppress
from pathlib import Path

import pytest

from spanlab.errors import InputError
from spanlab.tasks.checking import check_file
from spanlab.tasks.config import TaskDataConfig
from spanlab.tasks.formats.lines import read_lines, read_text
from spanlab.tasks.table import find_task

ROW = b'{"text": "a good day", "label": "good"}\n'


def lines_of(path: Path) -> list[object]:
    return [line for _, line in read_lines(str(path))]


@pytest.mark.parametrize("opener", [gzip.open, lzma.open], ids=["gz", "xz"])
def test_a_small_file_with_a_huge_line_is_refused_before_it_is_read(opener: object, tmp_path: Path) -> None:
    path = tmp_path / ("a.jsonl.gz" if opener is gzip.open else "a.jsonl.xz")
    with opener(path, "wb") as file:  # type: ignore[operator]
        file.write(ROW)
        for _ in range(40):
            file.write(b"x" * (1 << 20))
    with pytest.raises(InputError, match=r"a\.jsonl\...:2: the line is longer than 32 MB; .*SPANLAB_MAX_LINE_MB=256"):
        lines_of(path)


def test_the_limit_of_a_line_can_be_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"x" * (2 << 20))
    monkeypatch.setenv("SPANLAB_MAX_LINE_MB", "1")
    with pytest.raises(InputError, match=r"a\.txt:1: the line is longer than 1 MB"):
        lines_of(path)
    monkeypatch.setenv("SPANLAB_MAX_LINE_MB", "4")
    assert len(lines_of(path)) == 1
    monkeypatch.setenv("SPANLAB_MAX_LINE_MB", "many")
    with pytest.raises(InputError, match="SPANLAB_MAX_LINE_MB is 'many'; it must be a number"):
        lines_of(path)


def test_a_file_that_expands_like_no_text_does(tmp_path: Path) -> None:
    path = tmp_path / "a.json.gz"
    with gzip.open(path, "wb") as file:
        for _ in range(70):
            file.write((b" " * 1023 + b"\n") * 1024)
    for read in (lines_of, lambda path: read_text(str(path))):
        with pytest.raises(InputError, match=r"a\.json\.gz: expands to more than 200 times its size"):
            read(path)


def test_damaged_compressed_files(tmp_path: Path) -> None:
    whole = gzip.compress(ROW * 1000)
    for position in range(12, len(whole) - 1, 3):
        path = tmp_path / "a.jsonl.gz"
        damaged = bytearray(whole)
        damaged[position] ^= 0x55
        path.write_bytes(damaged)
        with suppress(InputError):  # and nothing else
            lines_of(path)
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="damaged or cut short"):
        lines_of(path)


def test_a_quote_that_is_never_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPANLAB_MAX_LINE_MB", "1")
    path = tmp_path / "a.csv"
    path.write_text('text,label\n"never closed,good\n' + "more and more\n" * 100_000)
    limit = csv.field_size_limit()
    try:
        report = check_file(find_task("classification"), str(path), TaskDataConfig())
        assert any("not valid CSV" in finding.cause for finding in report.findings)
    finally:
        csv.field_size_limit(limit)


def test_null_among_the_sentences(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"sentences": ["One.", null, "Two."], "labels": [0, 1, 0]}\n')
    report = check_file(find_task("summarisation"), str(path), TaskDataConfig())
    assert "a sentence is None; it must be text" in str(report.findings)
