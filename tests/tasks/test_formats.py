"""Readers of labelled files: every format gives the same rows, and every fault its file, line and fix."""

import gzip
import json
from pathlib import Path

import pytest

from spanlab.errors import InputError
from spanlab.tasks.classification import Classification
from spanlab.tasks.config import TaskDataConfig
from spanlab.tasks.coref.task import Coreference
from spanlab.tasks.examples import read_labelled
from spanlab.tasks.formats.columns import read_columns
from spanlab.tasks.formats.reading import find_format, read_rows
from spanlab.tasks.formats.row import FileShape, Row
from spanlab.tasks.formats.squad import read_squad
from spanlab.tasks.ner.task import NamedEntities
from spanlab.tasks.similarity import Similarity
from spanlab.tasks.table import TASKS
from tests.cli.run import run_here

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
        "B-PER L-PER O B-PER L-PER U-LOC",
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


MIXED = "Ada I-PER\nLovelace I-PER\nmet O\n\nParis B-LOC\nRome B-LOC\n\nEve B-PER.NOM\n"


def test_entities_that_open_as_in_another_scheme_are_read_with_a_warning(tmp_path: Path) -> None:
    path = write(tmp_path / "a.conll", MIXED)
    rows = [row for row in read_columns(path) if isinstance(row, Row)]
    spans = [(span["start"], span["end"], span["label"]) for row in rows for span in row.values["spans"]]
    assert spans == [(0, 12, "PER"), (0, 5, "LOC"), (6, 10, "LOC"), (0, 3, "PER.NOM")]
    assert [(warning.line, warning.kind) for row in rows for warning in row.warnings] == [(1, "irregular tag")]
    remark = f"{path}:1: the entity that begins with 'I-PER' is not written as in IOB2; read as conlleval reads it"
    assert read_labelled(NamedEntities, path, TaskDataConfig()).remarks == (remark,)
    # The named scheme decides what is irregular, never what is read.
    named = TaskDataConfig(tag_scheme="IOB1")
    again = read_labelled(NamedEntities, path, named)
    assert [row.values for row in again.rows] == [row.values for row in rows]
    (remark,) = again.remarks
    assert f"{path}:5: the entity that begins with 'B-LOC' is not written as in IOB1" in remark
    assert "(2 such lines)" in remark


def test_a_named_scheme_refuses_letters_of_others(tmp_path: Path) -> None:
    path = write(tmp_path / "a.conll", "Ada B-PER\nLovelace E-PER\nmet O\nEve S-PER\n")
    errors = [row for row in read_columns(path, tag_scheme="IOB2") if isinstance(row, InputError)]
    assert [error.line for error in errors] == [2, 4]
    assert "'E-PER' is not a tag of IOB2" in errors[0].cause
    assert not [row for row in read_columns(path, tag_scheme="BMES") if isinstance(row, InputError)]


def test_real_columns_with_every_tenth_opening_of_the_other_scheme(real_data: Path, tmp_path: Path) -> None:
    """As in submissions to shared tasks: the same entities come out, and the changed lines are counted."""
    lines = (real_data / "ner/wnut17.dev").read_text(encoding="utf-8").split("\n")
    before, openings, changed = "O", 0, []
    for index, line in enumerate(lines):
        word, _, tag = line.rpartition("\t")
        if tag.startswith("B-") and before[2:] != tag[2:]:
            openings += 1
            if openings % 10 == 0:
                lines[index] = f"{word}\tI-{tag[2:]}"
                changed.append(index + 1)
        before = tag
    path = write(tmp_path / "mixed.conll", "\n".join(lines))
    whole = read_labelled(NamedEntities, str(real_data / "ner/wnut17.dev"), TaskDataConfig())
    mixed = read_labelled(NamedEntities, path, TaskDataConfig())
    assert mixed.examples == whole.examples
    assert [warning.line for row in mixed.rows for warning in row.warnings] == changed
    assert len(changed) > 50
    assert mixed.remarks[0].endswith(f"({len(changed)} such lines)")
    assert f":{changed[0]}:" in mixed.remarks[0]
    assert whole.remarks == ()


@pytest.mark.parametrize("suffix", [".txt", ".tsv", ".text", ".conll", ".bio"])
@pytest.mark.parametrize("separator", [" ", "\t"])
def test_columns_are_recognised_under_any_suffix(tmp_path: Path, suffix: str, separator: str) -> None:
    content = "-DOCSTART- -X- O\n\n# a comment\n" + MIXED.replace(" ", separator)
    expected = [row.values for row in read_columns(write(tmp_path / "a", content)) if isinstance(row, Row)]
    path = write(tmp_path / f"a{suffix}", content)
    rows = read_rows(path, NamedEntities.shape)
    assert [row.values for row in rows if isinstance(row, Row)] == expected
    assert len(read_labelled(NamedEntities, path, TaskDataConfig())) == 3
    assert run_here("data", "check", "ner", path).returncode == 0
    assert run_here("score", "ner", "--gold", path, "--predicted", path).returncode == 0


@pytest.mark.parametrize(
    "content",
    [
        "Plan B\nvitamin E\n",
        "My blood type is O\nThe capital of Oregon starts with an O\n",
        "She wrote B-PER\nin her notes.\n",
        "B-PER\nI-PER\n",
        "",
    ],
)
def test_texts_are_not_columns(tmp_path: Path, content: str) -> None:
    path = write(tmp_path / "a.txt", content)
    assert find_format(path, NamedEntities.shape).name == "one text a line"


def test_a_table_is_not_columns(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "id\ttext\n1\tShe wrote\n")
    assert find_format(path, NamedEntities.shape).name == "TSV"
    assert find_format(path, NamedEntities.shape, ("word", "tag")).name == "CoNLL columns"


@pytest.mark.parametrize("task", list(TASKS))
def test_plain_texts_as_a_labelled_file_are_named_as_such(tmp_path: Path, task: str) -> None:
    path = write(tmp_path / "a.txt", "Ada met Eve\nand Bob\n")
    for command in (("data", "check", task, path), ("score", task, "--gold", path, "--predicted", path)):
        done = run_here(*command)
        assert done.returncode == 2
        assert f"{path}: read as one text a line, without labels; " in done.stderr
        assert ("--columns word,tag" in done.stderr) == (task == "ner")


def test_columns_of_gum_are_recognised_under_any_suffix(tmp_path: Path) -> None:
    content = "# begin document \n0\tAnn\t(1)\n1\tsaw\t_\n2\ther\t(2(1)\n3\tbees\t2)\n# end document\n"
    for suffix in (".conll", ".txt", ".v4_gold_conll"):
        (row,) = read_rows(write(tmp_path / f"a{suffix}", content), Coreference.shape)
        assert isinstance(row, Row)
        assert row.values == {
            "text": "Ann saw her bees",
            "clusters": [[[0, 3], [8, 11]], [[8, 16]]],
            "words": [[0, 3], [4, 7], [8, 11], [12, 16]],
        }


def test_a_line_without_a_word(tmp_path: Path) -> None:
    path = write(tmp_path / "a.conll", "吴\tB-PER\n\tO\n阳\tO\n")
    (error,) = (row for row in read_columns(path) if isinstance(row, InputError))
    assert (error.line, error.cause) == (2, "the word is empty")


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
