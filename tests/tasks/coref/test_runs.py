"""Coreference from file to folder and back: columns in and out, GAP's table, pronouns, and the command line."""

import json
from pathlib import Path
from typing import Any

import pytest

from spanlab.errors import InputError
from spanlab.inference.load import load
from spanlab.tasks.coref.data import CorefResult
from spanlab.tasks.coref.pronouns import representative, resolve_pronouns
from spanlab.tasks.coref.task import Coreference
from spanlab.tasks.formats.reading import read_rows
from spanlab.tasks.formats.row import Row
from spanlab.text.conll_coref import read_conll_coref
from spanlab.workflows.finetune import finetune
from tests.cli.run import run_here
from tests.tasks.coref.test_task import ROWS, TEXT, spans_of

GAP_HEADER = "ID\tText\tPronoun\tPronoun-offset\tA\tA-offset\tA-coref\tB\tB-offset\tB-coref\tURL"
GAP_TEXT = "Anna met Mary before dawn. She gave him the map."
COLUMNS = """#begin document (bc/one); part 000
bc/one 0 0 Anna X * - - - Ann * (0)
bc/one 0 1 met X * - - - Ann * -
bc/one 0 2 Captain X * - - - Ann * (1
bc/one 0 3 Brown X * - - - Ann * 1)

bc/one 0 0 She X * - - - Bob * (0)
bc/one 0 1 waved X * - - - Bob * -

#end document
"""
TINY_LAYERS = {"inner_width": 32, "span": {"max_width": 14}, "antecedents": 8, "rounds": 1, "mention_ratio": 0.6}


def train(model: Path, folder: Path) -> Path:
    """A model that knows its few documents by heart."""
    file = folder / "train.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    training = {"epochs": 30.0, "lr": 2e-3, "lr_factors": {"heads": 1.0}, "eval_every": 30, "precision": "fp32"}
    finetune(
        "coref",
        model=model,
        train=file,
        dev=file,
        out=folder / "run",
        coref="small",
        layers=TINY_LAYERS | {"dropout": 0.0},
        training=training,
    )
    return folder / "run"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, tiny_model: Path) -> Path:
    return train(tiny_model, tmp_path_factory.mktemp("coref"))


def test_a_run_ends_in_a_model_that_predicts_what_was_scored(trained: Path) -> None:
    model = load(trained, precision="fp32")
    scores = model.evaluate(str(trained.parent / "train.jsonl")).metrics
    assert scores["conll_f1"] > 90.0
    for name in ("muc", "b3", "ceafe", "lea", "mention"):
        assert {f"{name}_precision", f"{name}_recall", f"{name}_f1"} <= scores.keys()
    results = model.predict([TEXT, {"id": "again", "text": ROWS[1]["text"]}])
    assert [result.id for result in results] == ["0", "again"]
    told = results[0].to_dict()
    assert set(told) == {"id", "windows", "truncated", "clusters", "cluster_scores", "mentions"}
    assert len(told["clusters"]) == len(told["cluster_scores"]) > 2
    assert set(told["mentions"][0]) == {"start", "end", "text", "score", "cluster"}
    assert "Captain" in results[0].to_html()


def test_columns_go_in_and_out_and_are_scored(trained: Path, tmp_path: Path) -> None:
    gold = tmp_path / "gold.conll"
    gold.write_text(COLUMNS, encoding="utf-8")
    out = tmp_path / "found.conll"
    assert run_here("predict", str(trained), "--input", str(gold), "--output", str(out)).returncode == 0
    (wanted,), (found,) = read_conll_coref(gold), read_conll_coref(out)
    assert found.sentences == wanted.sentences
    assert found.id == "bc/one"
    scored = json.loads(run_here("score", "coref", "--gold", str(gold), "--predicted", str(out), "--json").stdout)
    direct = json.loads(run_here("evaluate", str(trained), "--data", str(gold), "--json").stdout)
    assert scored["metrics"]["b3_f1"] == pytest.approx(direct["metrics"]["b3_f1"])
    itself = json.loads(run_here("score", "coref", "--gold", str(gold), "--predicted", str(gold), "--json").stdout)
    assert itself["metrics"]["conll_f1"] == pytest.approx(100.0)


def test_pronouns_are_resolved_from_the_command_line(trained: Path, tmp_path: Path) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text(TEXT + "\n", encoding="utf-8")
    told = json.loads(run_here("predict", str(trained), "--input", str(texts), "--resolve", "--json").stdout)
    assert set(told) == {"id", "windows", "truncated", "text"}
    assert "Anna gave" in told["text"]


def test_gap_is_an_evaluation(trained: Path, tmp_path: Path) -> None:
    table = tmp_path / "gap.tsv"
    row = ["q1", GAP_TEXT, "She", "27", "Anna", "0", "TRUE", "Mary", "9", "FALSE", "http://x"]
    table.write_text(GAP_HEADER + "\n" + "\t".join(row) + "\n", encoding="utf-8")
    scores = json.loads(run_here("evaluate", str(trained), "--data", str(table), "--json").stdout)
    assert set(scores["metrics"]) == {"precision", "recall", "f1", "masculine_f1", "feminine_f1", "bias"}
    assert scores["count"] == 1
    (result,) = load(trained).predict_rows(read_rows(str(table), Coreference.shape))
    assert {(0, 4), (9, 13), (27, 30)} <= {(m.start, m.end) for m in result.mentions}  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("cells", "cause"),
    [
        ({3: "26"}, "the text has ' Sh' at 26"),
        ({3: "x"}, "'Pronoun-offset' is 'x'"),
        ({6: "PERHAPS"}, "'a_coref' is None"),
        ({2: "map", 3: "44"}, "the pronoun is 'map'"),
        ({10: "http://x\t"}, "12 columns"),
    ],
)
def test_what_is_wrong_with_a_table_of_gap(tmp_path: Path, cells: dict[int, str], cause: str) -> None:
    row = ["q1", GAP_TEXT, "She", "27", "Anna", "0", "TRUE", "Mary", "9", "FALSE", "http://x"]
    for place, value in cells.items():
        row[place] = value
    table = tmp_path / "gap.tsv"
    table.write_text(GAP_HEADER + "\n" + "\t".join(row) + "\n", encoding="utf-8")
    (found,) = read_rows(str(table), Coreference.shape)
    told = found.cause if isinstance(found, InputError) else next(iter(Coreference.problems(found))).cause
    assert cause in told
    assert found.line == 2


def test_columns_become_text_with_sentences_speakers_and_genre(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_text(COLUMNS, encoding="utf-8")
    (row,) = read_rows(str(path), Coreference.shape)
    assert isinstance(row, Row)
    assert row.line == 1
    assert row.values == {
        "id": "bc/one",
        "text": "Anna met Captain Brown She waved",
        "clusters": [[[0, 4], [23, 26]], [[9, 22]]],
        "sentences": [[0, 22], [23, 32]],
        "words": [[0, 4], [5, 8], [9, 16], [17, 22], [23, 26], [27, 32]],
        "speakers": [[0, 22, "Ann"], [23, 32, "Bob"]],
        "genre": "bc",
    }


def test_a_broken_document_does_not_hide_the_next(tmp_path: Path) -> None:
    broken = COLUMNS.replace("bc/one", "bc/two").replace("1)", "2)")
    empty = "#begin document (bc/none); part 000\n#end document\n"
    path = tmp_path / "a.conll"
    path.write_text(broken + empty + COLUMNS, encoding="utf-8")
    first, second, third = read_rows(str(path), Coreference.shape)
    assert isinstance(first, InputError)
    assert first.line == 5
    assert "closes a mention that was not opened" in first.cause
    assert isinstance(second, InputError)
    assert "has no words" in second.cause
    assert second.line == 11
    assert isinstance(third, Row)
    assert third.values["id"] == "bc/one"
    told = run_here("data", "check", "coref", str(path), "--json")
    assert told.returncode == 2
    assert [finding["line"] for finding in json.loads(told.stdout)["findings"]] == [5, 11]


@pytest.mark.parametrize(
    ("text", "clusters", "expected"),
    [
        ("Anna left. She took her hat.", [["Anna", "She", "her"]], "Anna left. Anna took Anna's hat."),
        ("Mr. James left. His hat fell.", [["Mr. James", "His"]], "Mr. James left. Mr. James' hat fell."),
        ("Tom saw her.", [["her"]], "Tom saw her."),
        ("The old dog barked; it slept.", [["The old dog", "it"]], "The old dog barked; The old dog slept."),
        ("Ann saw him. Bob, her son, hid.", [["him", "Bob"], ["Ann", "her"]], "Ann saw Bob. Bob, Ann's son, hid."),
        ("Ann came. We saw her.", [["Ann", "her"]], "Ann came. We saw Ann."),
    ],
)
def test_pronouns_give_way_to_names(text: str, clusters: list[list[str]], expected: str) -> None:
    spans = [[(text.index(word), text.index(word) + len(word)) for word in cluster] for cluster in clusters]
    assert resolve_pronouns(text, spans) == expected


def test_a_name_stands_for_its_cluster_before_a_description() -> None:
    assert representative(["the captain", "he", "Captain Brown", "Brown", "Brown"]) == "Brown"
    assert representative(["the captain", "he"]) == "the captain"
    assert representative(["he", "him"]) is None


def result_of(text: str, clusters: list[Any], **more: Any) -> CorefResult:
    spans = tuple(tuple((a, b) for a, b in cluster) for cluster in clusters)
    return CorefResult(id="d", clusters=spans, cluster_scores=(), mentions=(), source=text, **more)


def test_raw_text_is_written_in_columns(tmp_path: Path) -> None:
    result = result_of(
        TEXT, [spans_of(("Anna", 0), ("She", 0)), spans_of(("aptain O'Neil", 0))], sentences=((0, 51), (52, 103))
    )
    path = tmp_path / "a.conll"
    path.write_text(result.to_conll(), encoding="utf-8")
    (document,) = read_conll_coref(path)
    spelt = [[" ".join(document.words[a:b]) for a, b in cluster] for cluster in document.clusters]
    assert spelt == [["Anna", "She"], ["Captain O ' Neill"]]
    assert len(document.sentences) == 2


def test_a_mistake_is_a_document_that_is_not_right() -> None:
    task = Coreference.fit(Coreference.Config(), [Coreference.read(Row(values=row), labelled=True) for row in ROWS])
    example = Coreference.read(Row(values=ROWS[0]), labelled=True)
    right = task.read_result(Row(values=ROWS[0]), 0, example)
    assert task.mistake(example, right) is None
    wrong = task.mistake(example, task.read_result(Row(values={"clusters": []}), 0, example))
    assert wrong is not None
    assert wrong.badness == 100.0
    assert wrong.gold.startswith("Anna, She, Anna")
    with pytest.raises(InputError, match="is outside the text"):
        task.read_result(Row(values={"clusters": [[[0, 999]]]}), 0, example)
