"""Bad input of every reader and every task: one line that names the file, the line and the fix, and exit code 2."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from spanlab.errors import InputError
from spanlab.tasks.formats.reading import read_rows
from spanlab.tasks.formats.row import Row
from spanlab.tasks.table import TASKS
from tests.cli.run import run_here

CONTEXT = "Ada was born in London."


def squad(answer: object = ({"text": "London", "answer_start": 16},), **changes: object) -> str:
    question = {"id": "q1", "question": "Where?", "answers": list(answer) if isinstance(answer, tuple) else answer}
    paragraph = {"context": CONTEXT, "qas": [question], **changes}
    return json.dumps({"data": [{"title": "Ada", "paragraphs": [paragraph]}]}, indent=1)


def lines(*rows: object) -> str:
    return "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows)


GOOD: dict[str, tuple[str, str]] = {
    "classification": ("a.jsonl", lines({"text": "good", "label": "yes"}, {"text": "bad", "label": "no"})),
    "similarity": (
        "a.jsonl",
        lines({"text_a": "a", "text_b": "b", "label": "same"}, {"text_a": "a", "text_b": "c", "label": "other"}),
    ),
    "ner": ("a.jsonl", lines({"text": CONTEXT, "spans": [{"start": 0, "end": 3, "label": "PER"}]})),
    "qa": ("a.json", squad()),
}


@dataclass(frozen=True)
class Bad:
    """A training file that must be refused."""

    task: str
    name: str
    content: str | bytes
    words: str
    line: int | None = None


def question(**changes: Any) -> dict[str, Any]:
    return {"question": "Where?", "context": CONTEXT, "answers": [{"text": "London", "start": 16}], **changes}


BAD = {
    # classification
    "json cut short": Bad("classification", "b.jsonl", '{"text": "a", "label": 1}\n{"text": "b', "cut short", 2),
    "json is no object": Bad("classification", "b.jsonl", '["a", 1]\n', "not an object", 1),
    "json without label": Bad("classification", "b.jsonl", '{"text": "a"}\n', "'label' is missing", 1),
    "json text is a number": Bad("classification", "b.jsonl", '{"text": 3, "label": 1}\n', "must be text", 1),
    "json label is a list": Bad("classification", "b.jsonl", '{"text": "a", "label": [1]}\n', "a label is text", 1),
    "json not utf-8": Bad("classification", "b.jsonl", b'{"text": "\xff", "label": 1}\n', "not UTF-8", 1),
    "tsv other columns": Bad(
        "classification", "b.tsv", "review_body\tstars\nfine\t1\n", "no column is called 'text'", 1
    ),
    "tsv labels under another name": Bad(
        "classification",
        "b.tsv",
        "review\topinion\nfine\t1\n",
        "no column is called 'label'; there are review, opinion",
        2,
    ),
    "tsv row too short": Bad("classification", "b.tsv", "text\tlabel\nfine\t1\nbad\n", "1 columns", 3),
    "tsv label is empty": Bad("classification", "b.tsv", "text\tlabel\nfine\t\n", "'label' is empty", 2),
    "csv quote not closed": Bad("classification", "b.csv", 'text,label\nfine,1\n"bad,0\n', "not valid CSV", 3),
    "csv row too long": Bad("classification", "b.csv", "text,label\nfine,1,2\n", "3 columns", 2),
    "text without labels": Bad("classification", "b.txt", "fine\n", "read as one text a line, without labels"),
    "one label": Bad("classification", "b.tsv", "text\tlabel\nfine\t1\n", "all examples have the label '1'"),
    "tsv header alone": Bad("classification", "b.tsv", "text\tlabel\n", "has no examples"),
    "jsonl empty": Bad("classification", "b.jsonl", "", "has no examples"),
    "jsonl blank lines": Bad("classification", "b.jsonl", "\r\n\r\n", "has no examples"),
    "jsonl a mark alone": Bad("classification", "b.jsonl", b"\xef\xbb\xbf", "has no examples"),
    "csv empty": Bad("classification", "b.csv", "", "has no examples"),
    "unknown format": Bad("classification", "b.xlsx", "x", "unknown format"),
    # similarity
    "pair cut short": Bad("similarity", "b.jsonl", '{"text_a": "a", "text_b": "b", "sco', "cut short", 1),
    "pair score is text": Bad(
        "similarity", "b.jsonl", '{"text_a": "a", "text_b": "b", "score": "x"}\n', "'score' is", 1
    ),
    "pair of one": Bad("similarity", "b.jsonl", '{"text_a": "a", "score": 1}\n', "'text_b' is missing", 1),
    "pair other columns": Bad(
        "similarity", "b.tsv", "left\tright\tscore\na\tb\t1\n", "no column is called 'text_a'", 1
    ),
    "pairs empty": Bad("similarity", "b.tsv", "", "has no examples"),
    # ner
    "spans cut short": Bad("ner", "b.jsonl", '{"text": "Ada", "spans": [{"start": 0', "cut short", 1),
    "spans missing": Bad("ner", "b.jsonl", '{"text": "Ada"}\n', "'spans' is missing", 1),
    "span without end": Bad(
        "ner", "b.jsonl", '{"text": "Ada", "spans": [{"start": 0, "label": "X"}]}\n', "span 0 is", 1
    ),
    "span outside": Bad(
        "ner", "b.jsonl", '{"text": "Ada", "spans": [{"start": 0, "end": 9, "label": "X"}]}\n', "is outside the text", 1
    ),
    "span offset is text": Bad(
        "ner", "b.jsonl", '{"text": "Ada", "spans": [{"start": "0", "end": 3, "label": "X"}]}\n', "whole number", 1
    ),
    "conll one column": Bad("ner", "b.conll", "Ada B-PER\nLovelace\n", "one column", 2),
    "conll no tag": Bad("ner", "b.conll", "Ada B-PER\nmet VERB\n", "'VERB' is not a tag", 2),
    "conll no entity": Bad("ner", "b.conll", "Ada O\nmet O\n", "has no entity"),
    "conll empty": Bad("ner", "b.conll", "", "has no examples"),
    "conll no sentence": Bad("ner", "b.conll", "-DOCSTART- -X- O\n\n\n", "has no examples"),
    # qa
    "squad cut short": Bad("qa", "b.json", squad()[:120], "cut short", 9),
    "squad is a list": Bad("qa", "b.json", "[1]\n", "no list 'data'", 1),
    "squad without paragraphs": Bad("qa", "b.json", '{"data": [{"title": "Ada"}]}', "no list 'paragraphs'"),
    "squad answer elsewhere": Bad(
        "qa", "b.json", squad(({"text": "Paris", "answer_start": 16},)), "at 16 the context has 'Londo'", 10
    ),
    "squad without context": Bad("qa", "b.json", squad(context=None), "'context' is missing", 10),
    "squad answers are text": Bad("qa", "b.json", squad("London"), "'answers' is 'London'", 10),
    "squad without questions": Bad("qa", "b.json", squad(qas=[]), "has no examples"),
    "squad empty": Bad("qa", "b.json", "", "has no examples"),
    "question cut short": Bad("qa", "b.jsonl", '{"question": "Where?", "context": "Ada', "cut short", 1),
    "answer not in the context": Bad(
        "qa", "b.jsonl", lines(question(), question(answers=[{"text": "Rome", "start": 16}])), "at 16 the context", 2
    ),
    "answer off by two": Bad(
        "qa", "b.jsonl", lines(question(answers=[{"text": "London", "start": 14}])), "at 14 the context has", 1
    ),
    "answer without start": Bad("qa", "b.jsonl", lines(question(answers=[{"text": "London"}])), "answer 0 is", 1),
    "no answers": Bad("qa", "b.jsonl", lines({"question": "Where?", "context": CONTEXT}), "answers", 1),
    "questions empty": Bad("qa", "b.jsonl", "", "has no examples"),
}


def refused(stderr: str, path: Path, line: int | None, words: str) -> None:
    """One line: the place, the cause, and after a semicolon the fix."""
    (told,) = stderr.strip().splitlines()
    place = f"{path}:{line}:" if line is not None else f"{path}:"
    assert place in told
    assert words in told
    assert told.partition(words)[2].partition("; ")[2], f"no fix: {told}"


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
def test_training_refuses(bad: Bad, tiny_model: Path, tmp_path: Path) -> None:
    path = tmp_path / bad.name
    path.write_bytes(bad.content if isinstance(bad.content, bytes) else bad.content.encode())
    out = tmp_path / "run"
    done = run_here("finetune", bad.task, "--model", str(tiny_model), "--train", str(path), "--out", str(out))
    assert done.returncode == 2, done
    refused(done.stderr, path, bad.line, bad.words)
    assert not out.exists()


TYPOS = {
    "classification": ("b.tsv", "text\tlabel\nfine\tyes\nfine\tyess\n", 3, "'yess' (did you mean 'yes'?)"),
    "similarity": ("b.jsonl", lines({"text_a": "a", "text_b": "b", "label": "smae"}), 1, "did you mean 'same'"),
    "ner": ("b.conll", "Ada B-PRE\n", 1, "did you mean 'PER'"),
}


@pytest.mark.parametrize("task", TYPOS)
def test_a_label_that_training_does_not_know(task: str, tiny_model: Path, tmp_path: Path) -> None:
    name, content, line, words = TYPOS[task]
    train, dev = tmp_path / GOOD[task][0], tmp_path / name
    train.write_text(GOOD[task][1])
    dev.write_text(content)
    places = ("--model", str(tiny_model), "--train", str(train), "--dev", str(dev), "--out", str(tmp_path / "run"))
    done = run_here("finetune", task, *places)
    assert done.returncode == 2, done
    assert f"{dev}:{line}:" in done.stderr
    assert words in done.stderr
    assert "known are" in done.stderr


@pytest.mark.parametrize("task", GOOD)
def test_a_file_that_is_not_there_or_is_a_folder(task: str, tiny_model: Path, tmp_path: Path) -> None:
    for path, words in ((tmp_path / GOOD[task][0], "no such file"), (tmp_path, "is a folder")):
        name = path if path != tmp_path else tmp_path / "folder.jsonl"
        if path == tmp_path:
            name.mkdir()
        out = str(tmp_path / "run")
        done = run_here("finetune", task, "--model", str(tiny_model), "--train", str(name), "--out", out)
        assert done.returncode == 2, done
        refused(done.stderr, name, None, words)


CRLF: dict[str, tuple[str, str, str]] = {
    "json lines": ("classification", "a.jsonl", GOOD["classification"][1]),
    "tsv": ("classification", "a.tsv", "text\tlabel\ngood\tyes\nbad\tno\n"),
    "csv": ("classification", "a.csv", 'text,label\n"good, really",yes\nbad,no\n'),
    "texts": ("classification", "a.txt", "good\nbad\n"),
    "columns": ("ner", "a.conll", "Ada B-PER\nmet O\n\nBob B-PER\n"),
    "columns of characters": ("ner", "b.conll", "경\tB-OG\n찰\tI-OG\n은\tO\n \tO\n또\tO\n"),
    "squad": ("qa", "a.json", squad()),
}


@pytest.mark.parametrize("case", CRLF.values(), ids=CRLF.keys())
def test_a_mark_and_line_ends_of_windows_change_nothing(case: tuple[str, str, str], tmp_path: Path) -> None:
    task, name, content = case
    found = []
    for folder, written in (("plain", content), ("windows", "\ufeff" + content.replace("\n", "\r\n"))):
        path = tmp_path / folder / name
        path.parent.mkdir()
        path.write_bytes(written.encode())
        rows = list(read_rows(str(path), TASKS[task].shape))
        assert not any(isinstance(row, InputError) for row in rows), rows
        found.append([(row.line, row.values) for row in rows if isinstance(row, Row)])
    assert found[0]
    assert found[0] == found[1]
