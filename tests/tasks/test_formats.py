"""Readers of labelled files: every format gives the same rows, and every fault its file, line and fix."""

import gzip
import json
from pathlib import Path

import pytest

from spanlab.errors import InputError
from spanlab.tasks.classification import Classification
from spanlab.tasks.formats.columns import read_columns
from spanlab.tasks.formats.reading import read_rows
from spanlab.tasks.formats.row import FileShape, Row
from spanlab.tasks.formats.squad import read_squad
from spanlab.tasks.similarity import Similarity

TEXTS = Classification.shape
QUESTIONS = FileShape(
    fields={"id": (), "question": (), "context": ()}, required=("question", "context"), labels="answers"
)


def write(path: Path, content: str | bytes) -> str:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


def values(path: str, shape: FileShape = TEXTS, columns: tuple[str, ...] = ()) -> list[dict[str, object]]:
    rows = list(read_rows(path, shape, columns))
    assert all(isinstance(row, Row) for row in rows), rows
    return [dict(row.values) for row in rows if isinstance(row, Row)]


def error_of(path: str, shape: FileShape = TEXTS, columns: tuple[str, ...] = ()) -> InputError:
    """The one error a file gives, raised or among its rows."""
    try:
        errors = [row for row in read_rows(path, shape, columns) if isinstance(row, InputError)]
    except InputError as error:
        return error
    assert len(errors) == 1, errors
    return errors[0]


def test_json_lines_with_mark_line_ends_and_blanks(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", '\ufeff{"text": "één", "label": 1}\r\n\r\n{"text": "zwei"}\r\n')
    rows = [row for row in read_rows(path, TEXTS) if isinstance(row, Row)]
    assert [row.values for row in rows] == [{"text": "één", "label": 1}, {"text": "zwei"}]
    assert [row.line for row in rows] == [1, 3]


@pytest.mark.parametrize(
    ("content", "line", "words"),
    [
        ('{"text": "a"}\n{"text": "b', 2, "cut short"),
        ('{"text": "a"}\n{"text": b}\n', 2, "not valid JSON"),
        ('{"text": "a"}\n["b"]\n', 2, "a list"),
        (b'{"text": "a"}\n{"text": "\xff"}\n', 2, "not UTF-8"),
        ("[" * 100_000, 1, "nested"),
    ],
)
def test_json_lines_that_cannot_be_read(tmp_path: Path, content: str | bytes, line: int, words: str) -> None:
    error = error_of(write(tmp_path / "a.jsonl", content))
    assert error.line == line
    assert words in error.cause
    assert error.fix


def test_a_fault_does_not_hide_the_rows_behind_it(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", '{"text": "a"}\n{oops\n{"text": "c"}\n')
    kinds = [type(row) for row in read_rows(path, TEXTS)]
    assert kinds == [Row, InputError, Row]


def test_tables_find_columns_by_name_in_any_order(tmp_path: Path) -> None:
    tsv = write(tmp_path / "a.tsv", 'label\tsentence\n1\tit "works" \n0\tno\n')
    csv = write(tmp_path / "a.csv", 'idx,text,label\n7,"a, b\nc",1\n')
    assert values(tsv) == [{"label": "1", "text": 'it "works" '}, {"label": "0", "text": "no"}]
    assert values(csv) == [{"id": "7", "text": "a, b\nc", "label": "1"}]


def test_a_table_without_header_takes_named_columns(tmp_path: Path) -> None:
    path = write(tmp_path / "cola.tsv", "gj04\t1\t\tShe left.\ngj04\t0\t*\tLeft she.\n")
    columns = ("_", "label", "_", "text")
    assert values(path, columns=columns) == [{"label": "1", "text": "She left."}, {"label": "0", "text": "Left she."}]
    with_header = write(tmp_path / "b.tsv", "label\tsentence\n1\tyes\n")
    assert values(with_header, columns=("label", "text")) == [{"label": "1", "text": "yes"}]


def test_columns_are_told_by_what_the_header_calls_them(tmp_path: Path) -> None:
    """What is not told is found by its usual name; a name may hold the sign that divides."""
    path = write(tmp_path / "a.csv", "id,mark: 1,review,text\n7,good,fine,x\n")
    columns = ("review:text", "mark: 1:label")
    assert values(path, columns=columns) == [{"id": "7", "text": "fine", "label": "good"}]


@pytest.mark.parametrize(
    ("content", "columns", "line", "words"),
    [
        ("review\tmark\na\t1\n", ("reviw:text",), 1, "no column is called 'reviw' (did you mean 'review'?)"),
        ("review\tmark\na\t1\n", ("review:txt",), None, "did you mean 'text'"),
        ("review\tmark\na\t1\n", ("review:text", "label"), None, "'label' by position and others by the header"),
        ("gj04\t1\t\tShe left.\n", (), 1, "no column is called 'text'"),
        ("text\tlabel\na\t1\nb\n", (), 3, "1 columns, but the header has 2"),
        ("a\t1\nb\t1\tc\n", ("text", "label"), 2, "data.columns names 2"),
        ("a\t1\n", ("txt", "label"), None, "did you mean 'text'"),
        ("a\t1\n", ("_", "label"), None, "does not name 'text'"),
    ],
)
def test_tables_that_cannot_be_read(
    tmp_path: Path, content: str, columns: tuple[str, ...], line: int | None, words: str
) -> None:
    error = error_of(write(tmp_path / "a.tsv", content), columns=columns)
    assert error.line == line
    assert words in str(error)


def test_csv_that_is_broken(tmp_path: Path) -> None:
    error = error_of(write(tmp_path / "a.csv", 'text,label\na,1\n"b,1\n'))
    assert error.line == 3
    assert "CSV" in error.cause


@pytest.mark.parametrize("name", ["a.jsonl", "a.tsv", "a.csv", "a.txt"])
def test_an_empty_file(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="has no examples"):
        list(read_rows(write(tmp_path / name, ""), TEXTS))


def test_files_that_are_not_there_or_of_no_known_kind(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        list(read_rows(str(tmp_path / "a.tsv"), TEXTS))
    with pytest.raises(InputError, match="unknown format"):
        list(read_rows(write(tmp_path / "a.parquet", "x"), TEXTS))
    (tmp_path / "b.tsv").mkdir()
    with pytest.raises(InputError, match="is a folder"):
        list(read_rows(str(tmp_path / "b.tsv"), TEXTS))


def test_compressed_files(tmp_path: Path) -> None:
    content = gzip.compress(b'{"text": "a"}\n')
    assert values(write(tmp_path / "a.jsonl.gz", content)) == [{"text": "a"}]
    error = error_of(write(tmp_path / "b.jsonl.gz", content[:-12]))
    assert "cut short" in error.cause


SQUAD = {
    "version": "v2.0",
    "data": [
        {
            "paragraphs": [
                {
                    "context": "Ada was born in London.",
                    "qas": [
                        {"id": "q1", "question": "Where?", "answers": [{"text": "London", "answer_start": 16}]},
                        {
                            "id": "q2",
                            "question": "When?",
                            "is_impossible": True,
                            "answers": [],
                            "plausible_answers": [{"text": "London", "answer_start": 16}],
                        },
                    ],
                }
            ]
        }
    ],
}


def test_squad(tmp_path: Path) -> None:
    text = json.dumps(SQUAD, indent=1)
    rows = [row for row in read_rows(write(tmp_path / "a.json", text), QUESTIONS) if isinstance(row, Row)]
    context = "Ada was born in London."
    assert rows[0].values == {
        "id": "q1",
        "question": "Where?",
        "context": context,
        "answers": [{"text": "London", "start": 16}],
    }
    assert rows[1].values == {"id": "q2", "question": "When?", "context": context, "answers": []}
    lines = text.splitlines()
    assert ['"q1"' in lines[rows[0].line - 1], '"q2"' in lines[rows[1].line - 1]] == [True, True]  # type: ignore[operator]


@pytest.mark.parametrize("content", [json.dumps(SQUAD)[:200], "[1]", '{"data": [{"paragraphs": 3}]}', "{}"])
def test_squad_that_is_broken(tmp_path: Path, content: str) -> None:
    with pytest.raises(InputError) as caught:
        list(read_squad(write(tmp_path / "a.json", content)))
    assert caught.value.fix


WORDS = ["Ada", "Lovelace", "met", "Charles", "Babbage", "Paris"]
SPANS = [("Ada Lovelace", "PER"), ("Charles Babbage", "PER"), ("Paris", "LOC")]


@pytest.mark.parametrize(
    "tags",
    [
        "I-PER I-PER O I-PER I-PER I-LOC",
        "B-PER I-PER O B-PER I-PER B-LOC",
        "B-PER E-PER O B-PER E-PER S-LOC",
    ],
)
@pytest.mark.parametrize("separator", [" ", "\t"])
def test_columns_of_every_scheme(tmp_path: Path, tags: str, separator: str) -> None:
    lines = [f"{word}{separator}x{separator}{tag}" for word, tag in zip(WORDS, tags.split(), strict=True)]
    path = write(tmp_path / "a.conll", "-DOCSTART- -X- O\n\n" + "\n".join(lines) + "\n\n")
    (row,) = read_columns(path)
    assert isinstance(row, Row)
    text = row.values["text"]
    assert text == "Ada Lovelace met Charles Babbage Paris"
    assert [(text[span["start"] : span["end"]], span["label"]) for span in row.values["spans"]] == SPANS
    assert [text[start:end] for start, end in row.values["words"]] == WORDS
    assert row.line == 3


def test_columns_of_characters_are_joined_without_spaces(tmp_path: Path) -> None:
    chinese = write(tmp_path / "a.conll", "吴 B-NAME\n重 M-NAME\n阳 E-NAME\n， O\n在 O\n3 O\n楼 O\n")
    (row,) = read_columns(chinese)
    assert isinstance(row, Row)
    assert row.values["text"] == "吴重阳，在 3 楼"
    korean = write(tmp_path / "b.conll", "## 주석\tx\n경\tB-OG\n찰\tI-OG\n은\tO\n \tO\n또\tO\n")
    (row,) = read_columns(korean)
    assert isinstance(row, Row)
    assert row.values["text"] == "경찰은 또"
    assert row.values["spans"] == [{"start": 0, "end": 2, "label": "OG"}]


@pytest.mark.parametrize(
    ("content", "line", "words"),
    [("Ada B-PER\nLovelace\n", 2, "only one column"), ("Ada B-PER\nmet X\n", 2, "'X' is not a tag")],
)
def test_columns_that_cannot_be_read(tmp_path: Path, content: str, line: int, words: str) -> None:
    errors = [row for row in read_columns(write(tmp_path / "a.conll", content)) if isinstance(row, InputError)]
    assert errors[0].line == line
    assert words in errors[0].cause


def test_the_real_files_are_read_whole(real_data: Path) -> None:
    counts = {
        ("classification/SST-2/dev.tsv", Classification): 872,
        ("classification/ChnSentiCorp_zh/dev.tsv", Classification): 1200,
        ("classification/NSMC_ko/test.tsv", Classification): 4500,
        ("pairs/MRPC/dev.tsv", Similarity): 408,
        ("pairs/STS-B/dev.tsv", Similarity): 1500,
        ("pairs/RTE/dev.tsv", Similarity): 277,
    }
    for (name, task), count in counts.items():
        rows = list(read_rows(str(real_data / name), task.shape))
        assert len(rows) == count, name
        assert not [row for row in rows if isinstance(row, InputError)]
    tags = [row for row in read_columns(str(real_data / "ner/resume_zh.dev")) if isinstance(row, Row)]
    assert len(tags) == 463
    assert tags[0].values["text"].startswith("吴重阳，中国国籍")
    assert len(list(read_columns(str(real_data / "ner/klue_ko.dev")))) == 5000
    assert len(list(read_columns(str(real_data / "ner/conll2003.dev")))) == 3250
