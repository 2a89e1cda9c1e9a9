import csv
import gzip
import io
import json
import lzma
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanlab.corpus.prepare.byte_readers import LookAhead
from spanlab.corpus.prepare.config import PrepareConfig
from spanlab.corpus.prepare.documents import documents_of
from spanlab.corpus.prepare.segments import segments_of
from spanlab.corpus.prepare.sources import find_sources
from spanlab.errors import InputError, MissingExtraError

TEXTS = st.lists(st.text('ab é漢",\n\r ', max_size=15), min_size=1, max_size=20)
CONFIG = PrepareConfig(documents="line", lines="paragraphs")


def read(path: Path, size: int = 1 << 20, *, field: str = "text", errors: str = "strict") -> list[str]:
    config = replace(CONFIG, segment_bytes=size, text_field=field, errors=errors)
    return [
        text
        for source in find_sources([str(path)])
        for segment in segments_of(source, config)
        for text in documents_of(segment, config)[0]
    ]


def write_jsonl(path: Path, texts: list[str]) -> None:
    path.write_text("".join(json.dumps({"id": k, "text": text}) + "\n" for k, text in enumerate(texts)), "utf-8")


def write_csv(path: Path, texts: list[str]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["id", "text"])
        rows.writerows([[k, text] for k, text in enumerate(texts)])


def write_parquet(path: Path, texts: list[str]) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="the data extra is not installed")
    parquet = pytest.importorskip("pyarrow.parquet", reason="the data extra is not installed")
    parquet.write_table(pyarrow.table({"id": range(len(texts)), "text": texts}), path, row_group_size=3)


@pytest.mark.parametrize(("ending", "write"), [("jsonl", write_jsonl), ("csv", write_csv), ("parquet", write_parquet)])
@given(texts=TEXTS, size=st.integers(1, 100))
def test_documents_come_back_whatever_the_segments(
    tmp_path_factory: pytest.TempPathFactory,
    ending: str,
    write: Callable[[Path, list[str]], None],
    texts: list[str],
    size: int,
) -> None:
    path = tmp_path_factory.mktemp("records") / f"a.{ending}"
    write(path, texts)
    assert read(path, size) == texts


def test_compressed_tables_are_read(tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard", reason="the data extra is not installed")
    texts = ["one", 'two "quoted"\nlines', "three"]
    packers = {"gz": gzip.compress, "xz": lzma.compress, "zst": zstandard.compress}
    for ending, write in {"jsonl": write_jsonl, "csv": write_csv, "parquet": write_parquet}.items():
        write(tmp_path / f"a.{ending}", texts)
        for packer, pack in packers.items():
            path = tmp_path / f"a.{ending}.{packer}"
            path.write_bytes(pack((tmp_path / f"a.{ending}").read_bytes()))
            assert read(path) == texts


@pytest.mark.parametrize("size", [1, 1 << 20])
@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"text": "a"', "not valid JSON: cut short"),
        ('["text"]', "the line holds a list, not an object; write one JSON object a line"),
        ('{"txt": "a"}', "the record has no 'text' (did you mean 'txt'?); set the key of the text with --text-field"),
        ('{"x": "a"}', "the record has no 'text'; its keys are x"),
        ('{"text": 5}', "'text' is a number, not text"),
        ('{"text": ["a"]}', "'text' is a list, not text"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str, message: str, size: int) -> None:
    content = '{"text": "é"}\n\n' + line + '\n{"text": "b"}\n'
    (tmp_path / "a.jsonl").write_text(content, encoding="utf-8")
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(content.encode()))
    for name in ("a.jsonl", "a.jsonl.gz"):
        with pytest.raises(InputError) as caught:
            read(tmp_path / name, size)
        assert f"{name}:3: {message}" in str(caught.value)


def test_a_null_text_is_an_empty_document(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": null}\n{"text": "b"}\n')
    assert read(tmp_path / "a.jsonl") == ["", "b"]


@pytest.mark.parametrize(
    ("content", "line", "message"),
    [
        ("id,body\n1,a\n", 1, "no column 'text'; the columns are id, body"),
        ("id,text\n1,a\n2,b,c\n", 3, "the record has 3 fields, the header 2"),
        ('id,text\n1,"a\n2,b\n', 2, "a quoted field is never closed"),
        ('id,text\n1,a\n2,"b" c"d"\n', 3, "not CSV"),
        ("id,text\r1,a\r2,b\r", 1, "not CSV: new-line character seen in unquoted field"),
    ],
)
@pytest.mark.parametrize("size", [1, 1 << 20])
def test_a_bad_table_is_named(tmp_path: Path, content: str, line: int, message: str, size: int) -> None:
    (tmp_path / "a.csv").write_text(content)
    with pytest.raises(InputError) as caught:
        read(tmp_path / "a.csv", size)
    assert f"a.csv:{line}: {message}" in str(caught.value)


def test_a_bad_parquet_file_is_named(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="the data extra is not installed")
    (tmp_path / "a.parquet").write_bytes(b"PAR1 no table PAR1")
    with pytest.raises(InputError, match=r"a\.parquet: not a readable \.parquet file"):
        read(tmp_path / "a.parquet")
    write_parquet(tmp_path / "b.parquet", ["a"])
    with pytest.raises(InputError, match=r"b\.parquet: no column 'body'; the columns are id, text"):
        read(tmp_path / "b.parquet", field="body")
    with pytest.raises(InputError, match=r"b\.parquet: row 0: 'id' is int, not text"):
        read(tmp_path / "b.parquet", field="id")


@pytest.mark.parametrize(("ending", "pack"), [("gz", gzip.compress), ("xz", lzma.compress)])
@pytest.mark.parametrize("format_", ["txt", "csv", "parquet"])
def test_a_cut_compressed_file_is_named(
    tmp_path: Path, ending: str, pack: Callable[[bytes], bytes], format_: str
) -> None:
    path = tmp_path / f"a.{format_}.{ending}"
    path.write_bytes(pack(b"id,text\n" + bytes(range(32, 127)) * 1000)[:-20])
    with pytest.raises(InputError, match=rf"a\.{format_}\.{ending}: the \.{ending} file is damaged or cut short"):
        read(path)


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_bytes_that_are_no_text_are_found_or_replaced(tmp_path: Path, size: int) -> None:
    content = "grüße\n漢字\n".encode() + b"ab\xffc\xe6\xbc\n" + "�\n".encode()
    (tmp_path / "a.txt").write_bytes(content)
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(content))
    for name in ("a.txt", "a.txt.gz"):
        with pytest.raises(InputError) as caught:
            read(tmp_path / name, size)
        offset = content.index(b"\xff")
        assert f"{name}:3: byte {offset} (0xff) is not UTF-8 text" in str(caught.value)
        assert "--errors replace" in str(caught.value)
        assert [text for text in read(tmp_path / name, size, errors="replace") if text] == [
            "grüße",
            "漢字",
            "ab�c�",
            "�",
        ]


def test_replaced_sequences_are_counted(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"ab\xffc\xe6\xbc\n" + "�\n".encode())
    source = next(iter(find_sources([str(tmp_path / "a.txt")])))
    segment = next(iter(segments_of(source, CONFIG)))
    assert documents_of(segment, replace(CONFIG, errors="replace"))[1] == 2


def test_halves_of_surrogate_pairs_are_found_or_replaced(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "good \\ud83d\\ude00"}\n{"text": "half \\ud83d"}\n')
    with pytest.raises(
        InputError, match=r"a\.jsonl: document 1 .* contains bytes that are not text; fix it, or use --errors replace"
    ):
        read(tmp_path / "a.jsonl")
    assert read(tmp_path / "a.jsonl", errors="replace") == ["good 😀", "half �"]


def test_parquet_bytes_that_are_no_text(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="the data extra is not installed")
    parquet = pytest.importorskip("pyarrow.parquet", reason="the data extra is not installed")
    column = pyarrow.array([b"good", None, b"b\xffd"]).view(pyarrow.utf8())
    parquet.write_table(pyarrow.table({"text": column}), tmp_path / "a.parquet")
    message = r"a\.parquet: document 2 from byte or row 0 on contains bytes that are not text"
    with pytest.raises(InputError, match=message):
        read(tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet", errors="replace") == ["good", "", "b�d"]


def test_a_file_that_shrinks_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("abc\n" * 10)
    source = next(iter(find_sources([str(path)])))
    segment = next(iter(segments_of(source, CONFIG)))
    path.write_text("abc\n")
    with pytest.raises(InputError, match="became shorter"):
        documents_of(segment, CONFIG)
    path.unlink()
    with pytest.raises(InputError, match="put the input where every worker sees it"):
        documents_of(segment, CONFIG)


def test_data_sets_are_streamed_and_asked_for_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    class Rows(list[dict[str, str]]):
        column_names = ("text",)

    def load_dataset(*arguments: object, **options: object) -> Rows:
        asked.append((arguments, options))
        return Rows([{"text": "a"}, {"text": "b"}])

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    for name in ("datasets:org/name", "datasets:name:test", "datasets:name:config:valid"):
        assert read(Path(name), size=1) == ["a", "b"]
    assert asked == [
        (("org/name", None), {"split": "train", "streaming": True}),
        (("name", None), {"split": "test", "streaming": True}),
        (("name", "config"), {"split": "valid", "streaming": True}),
    ]
    with pytest.raises(InputError, match="no column 'body'"):
        read(Path("datasets:name"), field="body")
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingExtraError, match=r"datasets:name needs the 'datasets' extra; pip install"):
        read(Path("datasets:name"))


def test_standard_input_can_be_looked_at_and_then_read() -> None:
    stdin = LookAhead(io.BytesIO(b"one\ntwo\nthree\n"))
    assert stdin.peek(5) == b"one\nt"
    source = next(iter(find_sources(["-"])))
    segments = list(segments_of(source, replace(CONFIG, segment_bytes=2), stdin=stdin))
    assert b"".join(segment.data or b"" for segment in segments) == b"one\ntwo\nthree\n"
    assert len(segments) == 3
