"""The files that hold relations: what is read from them, and what is refused by its line."""

import json
from pathlib import Path

import pytest

from spanlab.errors import InputError
from spanlab.samples import load
from spanlab.samples.export import Selection, export
from spanlab.tasks.formats.reading import read_rows
from spanlab.tasks.formats.row import Row
from spanlab.tasks.relation.task import Relations

SEMEVAL = """1\t"The <e1>author</e1> of a keygen uses a <e2>disassembler</e2>."
Instrument-Agency(e2,e1)
Comment: none

2\t"The <e1>child</e1> slept in the <e2>cradle</e2>."
Other
Comment:

3\t"A <e1>flood</e1> caused the <e2>damage</e2>."
Cause-Effect(e1,e2)
"""
CONLL04 = """#doc 7
0\tMrs.\tB-Peop\t['N']\t[0]
1\tRose\tI-Peop\t['Live_In', 'Work_For']\t[4, 7]
2\tof\tO\t['N']\t[2]
3\tAddis\tB-Loc\t['N']\t[3]
4\tAbaba\tI-Loc\t['N']\t[4]
5\tand\tO\t['N']\t[5]
6\tHigh\tB-Org\t['N']\t[6]
7\tCourt\tI-Org\t['OrgBased_In']\t[4]
#doc 8
0\tNobody\tO\t['N']\t[0]
"""
WORDS = [
    {
        "tokens": ["English", "is", "a", "hard", "language"],
        "entities": [{"type": "Material", "start": 0, "end": 1}, {"type": "Generic", "start": 3, "end": 5}],
        "relations": [{"type": "Hyponym-of", "head": 0, "tail": 1}],
        "orig_id": "a1",
    },
    {"tokens": ["Nothing", "."], "entities": [], "relations": [], "orig_id": "a2"},
]


def rows(path: Path) -> list[Row | InputError]:
    return list(read_rows(str(path), Relations.shape))


def named(row: Row | InputError) -> tuple[list[str], list[tuple[str, str, str]]]:
    """The entities' own texts, and the relations between them."""
    assert isinstance(row, Row)
    assert not [problem for problem in Relations.problems(row) if problem.serious]
    texts = [row.values["text"][one["start"] : one["end"]] for one in row.values["entities"]]
    told = row.values["relations"]
    return texts, [(texts[one["head"]], one["label"], texts[one["tail"]]) for one in told]


@pytest.mark.parametrize("name", ["semeval.train", "TRAIN_FILE.TXT", "plain.txt"])
@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_semeval(name: str, ends: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(SEMEVAL.replace("\n", ends).encode())
    found = rows(path)
    assert [row.line for row in found] == [1, 5, 9]
    assert [named(row)[1] for row in found] == [
        [("disassembler", "Instrument-Agency", "author")],
        [],
        [("flood", "Cause-Effect", "damage")],
    ]
    first = found[0]
    assert isinstance(first, Row)
    assert first.values["text"] == "The author of a keygen uses a disassembler."
    assert first.values["id"] == "1"


def test_semeval_faults_have_lines_and_the_rest_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.train"
    path.write_text(
        SEMEVAL.replace('</e2>."\nOther', '."\nOther').replace("Cause-Effect(e1,e2)", "Cause-Effect(e1,e1)")
    )
    first, second, third = rows(path)
    assert isinstance(first, Row)
    assert str(second).startswith(f"{path}:5: '</e2>' is missing")
    assert str(third).startswith(f"{path}:10: 'Cause-Effect(e1,e1)' is not a relation")


def test_semeval_without_labels_can_be_predicted(tmp_path: Path) -> None:
    path = tmp_path / "test.txt"
    path.write_text("".join(line + "\n" for line in SEMEVAL.splitlines() if "\t" in line))
    found = rows(path)
    assert len(found) == 3
    for row in found:
        assert isinstance(row, Row)
        example = Relations.read(row, labelled=False)
        assert example.entities is not None
        assert len(example.entities) == 2
        assert [problem.kind for problem in Relations.problems(row)] == ["no relations"]


def test_texts_a_line_are_still_texts(tmp_path: Path) -> None:
    path = tmp_path / "texts.txt"
    path.write_text("Anna left.\n\nShe came back.\n")
    assert [row.values for row in rows(path) if isinstance(row, Row)] == [
        {"text": "Anna left."},
        {"text": ""},
        {"text": "She came back."},
    ]


def test_the_almanac_is_read_in_both_its_formats(tmp_path: Path) -> None:
    for name, count in (("jsonl", 1), ("semeval", 1)):
        files = export(load(), "relation", tmp_path / name, Selection(format=name))
        for file in files:
            found = rows(file.path)
            assert len(found) >= count
            assert all(named(row)[0] for row in found)
    assert sum(1 for row in rows(tmp_path / "semeval" / "train.txt") if named(row)[1]) > 50


def test_conll04(tmp_path: Path) -> None:
    path = tmp_path / "conll04.train"
    path.write_text(CONLL04)
    first, second = rows(path)
    assert named(first) == (
        ["Mrs. Rose", "Addis Ababa", "High Court"],
        [
            ("Mrs. Rose", "Live_In", "Addis Ababa"),
            ("Mrs. Rose", "Work_For", "High Court"),
            ("High Court", "OrgBased_In", "Addis Ababa"),
        ],
    )
    assert named(second) == ([], [])
    assert isinstance(second, Row)
    assert (second.values["id"], second.line) == ("8", 10)


@pytest.mark.parametrize(
    ("wrong", "right", "line", "words"),
    [
        ("3\tAddis", "3 Addis", 5, "4 columns"),
        ("[4, 7]", "[4]", 3, "2 relations, but 1 tails"),
        ("[4, 7]", "[4, 5]", 3, "'Work_For' is from word 1 to word 5"),
        ("['OrgBased_In']", "OrgBased_In", 9, "is not a list"),
    ],
)
def test_conll04_faults_have_lines(wrong: str, right: str, line: int, words: str, tmp_path: Path) -> None:
    path = tmp_path / "x.train"
    path.write_text(CONLL04.replace(wrong, right))
    faults = [row for row in rows(path) if isinstance(row, InputError)]
    assert faults
    assert str(faults[0]).startswith(f"{path}:{line}: ")
    assert words in str(faults[0])


@pytest.mark.parametrize("indent", [None, 1])
def test_relations_by_words(indent: int | None, tmp_path: Path) -> None:
    path = tmp_path / "scierc.json"
    path.write_text(json.dumps(WORDS, indent=indent))
    first, second = rows(path)
    assert named(first) == (["English", "hard language"], [("English", "Hyponym-of", "hard language")])
    assert named(second) == ([], [])
    assert isinstance(second, Row)
    assert second.values["id"] == "a2"
    before = path.read_text().index('"Nothing"')
    assert second.line == (1 if indent is None else path.read_text().count("\n", 0, before) - 1)


def test_relations_by_words_that_leave_them_are_told(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    far = {**WORDS[0], "entities": [{"type": "Material", "start": 0, "end": 9}]}
    path.write_text(json.dumps([{"words": []}, far, {**WORDS[0], "relations": [{"head": 0}]}, WORDS[1]], indent=None))
    first, second, third, fourth = rows(path)
    assert "no list 'tokens'" in str(first)
    assert "sentence 'a1' has an entity or a relation that is incomplete or outside its 5 words" in str(second)
    assert isinstance(third, InputError)
    assert isinstance(fourth, Row)
    path.write_text(json.dumps(WORDS)[:120])
    with pytest.raises(InputError, match="cut short"):
        rows(path)
    missing = {**WORDS[0], "relations": [{"type": "x", "head": 0, "tail": 7}]}
    path.write_text(json.dumps([missing]))
    (row,) = rows(path)
    assert isinstance(row, Row)
    assert [problem.kind for problem in Relations.problems(row)] == ["relation to a missing entity"]
