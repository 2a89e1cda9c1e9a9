"""Results as tables of pandas, polars and Arrow, and what a notebook shows of every kind of result."""

from pathlib import Path
from typing import Any

import pytest

import spanlab
from spanlab.errors import InputError
from spanlab.inference.frame import Frame
from spanlab.tasks.result import Scores
from tests.inference.models import make_folder

TEXTS = ["Ada Lovelace lived in London.", "", "She met Babbage in Paris, and she liked him."]
COLUMNS = {
    "entities": ["id", "start", "end", "label", "text", "score"],
    "coref": ["id", "start", "end", "text", "score", "cluster"],
    "sentiment": ["id", "windows", "truncated", "label", "score"],
    "summary": ["id", "windows", "truncated", "summary"],
}


@pytest.fixture(scope="module")
def reader(minilm: Path) -> Any:
    return spanlab.load("reader")


def assert_read_by_all(frame: Frame) -> Any:
    """As pandas reads it; polars and Arrow read the same."""
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    table = pandas.DataFrame(frame)
    assert polars.DataFrame(frame).rows() == [
        tuple(None if value != value else value for value in row)  # noqa: PLR0124 (a NaN is pandas' None)
        for row in table.itertuples(index=False, name=None)
    ]
    pytest.importorskip("pyarrow")
    assert pandas.DataFrame.from_arrow(frame).shape == table.shape
    return table


@pytest.mark.parametrize("task", COLUMNS)
def test_tables_of_every_task(task: str, reader: Any) -> None:
    table = assert_read_by_all(spanlab.to_frame(reader.predict(TEXTS, task=task)))
    assert list(table.columns) == COLUMNS[task]
    if task == "entities":
        assert list(zip(table["id"], table["text"], table["label"], strict=True))[:2] == [
            ("0", "Ada Lovelace", "PER"),
            ("0", "London", "LOC"),
        ]
        assert set(table["id"]) == {"0", "2"}
    if task in {"sentiment", "summary"}:
        assert list(table["id"]) == ["0", "1", "2"]


def test_tables_of_relations_answers_and_pairs(reader: Any) -> None:
    story = "Ada Lovelace was born in London. She worked with Charles Babbage."
    table = assert_read_by_all(spanlab.to_frame(reader.predict(story, task="relations")))
    assert {("Ada Lovelace", "born_in", "London")} <= set(
        zip(table["subject"], table["relation"], table["object"], strict=True)
    )
    table = assert_read_by_all(spanlab.to_frame(reader.predict([("Where was Ada born?", story)], task="qa")))
    assert list(table["answer"]) == ["London"]
    assert "nbest" not in table
    assert list(spanlab.to_frame(reader.predict([("a cat", "a dog")], task="similarity")))[-1] == "score"


def test_a_table_of_masks_and_of_scores(tmp_path: Path) -> None:
    result = spanlab.fill(make_folder(tmp_path / "model", sbo={}), "the old [MASK] [MASK] went", top=2)
    table = assert_read_by_all(spanlab.to_frame(result))
    assert list(table.columns) == ["id", "start", "end", "head", "token", "text", "probability"]
    assert len(table[table["head"] == "mlm"]) == 4
    scores = Scores(task="ner", count=2, metrics={"f1": 50.0, "recall": 25.0})
    assert spanlab.to_frame(scores) == {
        "task": ["ner", "ner"],
        "count": [2, 2],
        "metric": ["f1", "recall"],
        "value": [50.0, 25.0],
    }


def test_nothing_found_has_columns_and_no_rows(reader: Any) -> None:
    frame = spanlab.to_frame(reader.predict([""], task="entities"))
    assert list(frame) == COLUMNS["entities"]
    assert assert_read_by_all(frame).empty
    assert spanlab.to_frame([]) == {}


def test_results_of_several_tasks_and_what_is_no_result(reader: Any) -> None:
    with pytest.raises(InputError, match=r"of several tasks, .*choose one task of entities, sentiment: .*'entities'"):
        spanlab.to_frame(reader.predict(TEXTS, task=["entities", "sentiment"]))
    with pytest.raises(InputError, match="'text' is no result"):
        spanlab.to_frame(["text"])


def test_a_notebook_shows_every_result_escaped(reader: Any, tiny_model: Path, tmp_path: Path) -> None:
    from spanlab.inference.attribution import attribute

    evil = "<script>alert(1)</script> Ada Lovelace lived in London. She wrote."
    for task in reader.tasks:
        given = {"qa": [("Who wrote?", evil)], "similarity": [(evil, evil)]}.get(task, [evil])
        html = reader.predict(given, task=task)[0]._repr_html_()
        assert "&lt;script&gt;" in html
        assert "<script>" not in html
    shown = attribute(reader, "A <b>lovely</b> film.", task="sentiment", steps=8)._repr_html_()
    assert "rgba(" in shown
    assert "&lt;" in shown
    assert "<b>lovely" not in shown
    frame = Frame({"a": ["<b>"] * 30})
    assert frame._repr_html_().count("&lt;b&gt;") == 20
    assert "and 10 more rows" in frame._repr_html_()
    rows = [{"text": f"a {word} day", "label": word} for word in ("good", "bad")] * 4
    run = spanlab.finetune("classification", model=tiny_model, train=rows, out=tmp_path / "run", training={"epochs": 1})
    assert "finished" in run._repr_html_()
    html = spanlab.load(run.folder).evaluate(rows)._repr_html_()
    assert "accuracy" in html
    assert "<td>good</td>" in html


def test_a_predictor_says_what_it_can_do(reader: Any) -> None:
    lines = repr(reader).splitlines()
    assert lines[0].startswith("Predictor of reader (hidden size 384")
    assert (
        "  predict(…, task='entities'): ner of text; labels DATE, EVENT, LOC, ORG, PER, PRODUCT, QUANTITY, WORK"
        in lines
    )
    assert "  predict(…, task='qa'): qa of question and context" in lines
    assert lines[-1] == "  encode(texts): a vector of 384 for each; similarity(texts, others)"


def test_minilm_gives_vectors_and_similarities(minilm: Path) -> None:
    model = spanlab.load("minilm")
    alone = model.similarity("a cat", "a dog")
    assert alone.shape == ()
    table = model.similarity(["a cat", "a ship"], ["a dog", "a boat", "a cat"])
    assert table.shape == (2, 3)
    assert table[0, 0] == pytest.approx(float(alone), abs=1e-5)
    assert table[0].argmax() == 2
    assert table[1].argmax() == 1
