"""Predictions of other systems: matched by id, else by order."""

import json
from pathlib import Path

import pytest

from spanlab.errors import InputError
from spanlab.tasks.scoring import score_files

GOLD = [
    {"id": "a", "text": "one", "label": "x"},
    {"id": "b", "text": "two", "label": "y"},
    {"id": "c", "text": "three", "label": "y"},
]


def write(path: Path, rows: list[dict[str, object]]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def test_by_id_in_any_order(tmp_path: Path) -> None:
    gold = write(tmp_path / "gold.jsonl", GOLD)
    rows = [{"id": "c", "label": "y"}, {"id": "a", "label": "x"}, {"id": "b", "label": "x"}]
    scores = score_files("classification", gold, write(tmp_path / "p.jsonl", rows))
    assert scores.metrics["accuracy"] == pytest.approx(200 / 3)
    assert scores.to_dict()["count"] == 3
    table = tmp_path / "p.tsv"
    table.write_text("id\tlabel\nc\ty\na\tx\nb\tx\n")
    assert score_files("classification", gold, str(table)) == scores
    with pytest.raises(InputError, match="no prediction for id 'b'"):
        score_files("classification", gold, write(tmp_path / "q.jsonl", [rows[0], rows[1], {"id": "z", "label": "x"}]))


def test_by_order_where_there_are_no_ids(tmp_path: Path) -> None:
    gold = write(tmp_path / "gold.jsonl", [{k: v for k, v in row.items() if k != "id"} for row in GOLD])
    rows: list[dict[str, object]] = [{"label": "x"}, {"label": "y"}, {"label": "y"}]
    assert score_files("classification", gold, write(tmp_path / "p.jsonl", rows)).metrics["accuracy"] == 100
    with pytest.raises(InputError, match="2 predictions for 3 examples"):
        score_files("classification", gold, write(tmp_path / "q.jsonl", rows[:2]))
    with pytest.raises(InputError, match=r"r\.jsonl:1: the field 'label' is missing"):
        score_files("classification", gold, write(tmp_path / "r.jsonl", [{"text": "x"}, *rows[1:]]))


def test_an_unknown_task(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="did you mean 'classification'"):
        score_files("clasification", "a", "b")
