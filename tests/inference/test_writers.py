"""Every output format: what it writes, and that our own readers read it back."""

import csv
import json
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spanlab.errors import InputError, RunError
from spanlab.inference.writers import FORMATS, find_format, to_json, write_beside
from spanlab.tasks.classification import ClassificationResult
from spanlab.tasks.formats.columns import read_columns
from spanlab.tasks.ner.data import Entity, NerResult
from spanlab.tasks.qa.data import QaResult
from spanlab.tasks.relation.data import RelationResult, ScoredRelation
from spanlab.tasks.scoring import score_files
from tests.cli.run import run_here
from tests.compat.test_folders_written_before import DATA
from tests.tasks.relation.test_triples import CLUSTERS, RESULT, TEXT

STATEMENT = re.compile(
    r'(<[^<>"{}|^`\\\s]+>|_:\w+) <[^<>"{}|^`\\\s]+> (<[^<>"{}|^`\\\s]+>|"(?:[^"\\\n\r]|\\.)*"(\^\^<[^>]+>)?) \.'
)


def text_of(name: str, task: str, results: Iterable[Any], **options: bool) -> str:
    return "".join(find_format(name, task).texts(results, **options))


def test_numbers_have_the_digits_that_mean_something() -> None:
    given = {"score": 0.12345678901234, "small": [1.23456789e-9, (0.5, -12345678.9)], "count": 123456789, "there": True}
    told = '{"score": 0.123457, "small": [1.23457e-09, [0.5, -12345700.0]], "count": 123456789, "there": true}'
    assert to_json(given) == told
    assert to_json({"text": "0.12345678 é"}) == '{"text": "0.12345678 é"}'


@given(st.floats(-1e30, 1e30, allow_subnormal=False))
def test_rounding_is_close_and_happens_once(value: float) -> None:
    told = to_json(value)
    assert math.isclose(json.loads(told), value, rel_tol=1e-5)
    assert to_json(json.loads(told)) == told


def labelled(id_: str = "a") -> ClassificationResult:
    return ClassificationResult(id=id_, label="good", score=0.98765432, scores={"good": 0.98765432, "bad": 0.01234568})


def test_records_are_json_or_lines_for_people() -> None:
    assert text_of("json", "classification", [labelled()]) == (
        '{"id": "a", "windows": 1, "truncated": false, "label": "good", "score": 0.987654, '
        '"scores": {"good": 0.987654, "bad": 0.0123457}}\n'
    )
    assert text_of("json", "classification", [labelled()], readable=True) == "a\tlabel=good\tscore=0.9877\n"
    cut = replace(labelled(), truncated=True)
    assert text_of("text", "classification", [cut]) == "a\ttruncated=true\tlabel=good\tscore=0.9877\n"


def test_results_of_several_tasks_are_one_record() -> None:
    joint = {"tone": replace(labelled(), windows=2), "topic": replace(labelled(), truncated=True)}
    record = json.loads(text_of("json", "several", [joint]))
    assert {name: record[name] for name in ("id", "windows", "truncated")} == {
        "id": "a",
        "windows": 2,
        "truncated": True,
    }
    assert record["tasks"].keys() == {"tone", "topic"}
    assert record["tasks"]["tone"]["label"] == "good"


def entities(text: str, *spans: tuple[int, int, str], words: Any = None) -> NerResult:
    found = tuple(Entity(start=a, end=b, label=label, text=text[a:b], score=1.0) for a, b, label in spans)
    return NerResult(id="0", spans=found, source=text, words=words)


def test_entities_as_columns(tmp_path: Path) -> None:
    nested = entities("Anna Berg's ferry left.", (0, 9, "PER"), (0, 17, "VEHICLE"), (0, 4, "PER"))
    cut = entities("in Bergen-Nord", (3, 9, "LOC"))
    path = tmp_path / "found.conll"
    path.write_text(text_of("conll2003", "ner", [nested, cut]), encoding="utf-8")
    assert path.read_text(encoding="utf-8").splitlines()[:2] == ["Anna B-VEHICLE", "Berg I-VEHICLE"]
    rows = [row.values for row in read_columns(str(path)) if not isinstance(row, InputError)]
    assert [[(row["text"][s["start"] : s["end"]], s["label"]) for s in row["spans"]] for row in rows] == [
        [("Anna Berg ' s ferry", "VEHICLE")],
        [("Bergen", "LOC")],
    ]


@pytest.mark.parametrize(
    "columns",
    [
        "The O\nU.S. B-LOC\nand O\nO'Neill B-PER\nJr. I-PER\n\nBonn B-LOC\nKöln B-LOC\n\n",
        "吴 B-NAME\n重 I-NAME\n阳 I-NAME\n在 O\n3 O\n楼 O\n\n",
        "경 B-OG\n찰 I-OG\n은 O\n \tO\n또 O\n\n",
    ],
)
def test_columns_that_were_read_are_written_as_they_were(columns: str, tmp_path: Path) -> None:
    path = tmp_path / "gold.conll"
    path.write_text(columns, encoding="utf-8")
    results = []
    for row in read_columns(str(path)):
        assert not isinstance(row, InputError)
        spans = [(span["start"], span["end"], span["label"]) for span in row.values["spans"]]
        results.append(entities(row.values["text"], *spans, words=tuple(map(tuple, row.values["words"]))))
    assert text_of("conll2003", "ner", results) == columns


@given(st.text(st.sampled_from("ab. -\n'é中"), min_size=1, max_size=30), st.data())
def test_every_character_of_a_text_is_in_one_word(text: str, data: st.DataObject) -> None:
    edges = sorted(data.draw(st.lists(st.integers(0, len(text)), min_size=2, max_size=2, unique=True)))
    spans = [(*edges, "X")] if text[edges[0] : edges[1]].strip() else []
    lines = text_of("conll2003", "ner", [entities(text, *spans)]).splitlines()
    words = [line.rpartition(" ") for line in lines if line]
    assert "".join(word for word, _, _ in words) == "".join(text.split())
    tagged = "".join(word for word, _, tag in words if tag != "O")
    assert tagged == ("".join(text[edges[0] : edges[1]].split()) if spans else "")


def answer(id_: str, text: str) -> QaResult:
    return QaResult(id=id_, answer=text, start=None, end=None, score=0.5, no_answer=not text)


def test_answers_as_squads_predictions(tmp_path: Path) -> None:
    path, gold = tmp_path / "answers.json", tmp_path / "gold.jsonl"
    path.write_text(text_of("squad", "qa", [answer("q1", 'the "old" quay'), answer("q2", "")]), encoding="utf-8")
    assert json.loads(path.read_text(encoding="utf-8")) == {"q1": 'the "old" quay', "q2": ""}
    context = 'He stood on the "old" quay.'
    rows = [
        {"id": "q1", "question": "Where?", "context": context, "answers": [{"text": 'the "old" quay', "start": 12}]},
        {"id": "q2", "question": "When?", "context": context, "answers": []},
    ]
    gold.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert score_files("qa", str(gold), str(path)).metrics["exact_match"] == 100.0
    assert json.loads(text_of("squad", "qa", [])) == {}


JOINED = replace(RESULT, clusters=CLUSTERS)


def test_a_table_of_triples_has_a_row_an_occurrence(tmp_path: Path) -> None:
    path = tmp_path / "triples.csv"
    second = RelationResult(id="d2", entities=RESULT.entities, relations=RESULT.relations[:1], source=TEXT)
    assert len(list(write_beside(find_format("triples-csv", "relation"), [JOINED, second], path))) == 2
    with path.open(encoding="utf-8", newline="") as text:
        rows = list(csv.DictReader(text))
    assert [row["source"] for row in rows] == ["d1", "d1", "d2"]
    assert rows[0] | {"score": ""} == {
        "subject": "Anna Berg",
        "relation": "left",
        "object": "Oslo",
        "subject_type": "PER",
        "object_type": "LOC",
        "score": "",
        "source": "d1",
        "subject_start": "8",
        "subject_end": "17",
        "object_start": "23",
        "object_end": "27",
    }


def test_equal_names_of_documents_are_one_node_and_every_source_is_named() -> None:
    documents = [
        RelationResult(id=name, entities=RESULT.entities, relations=RESULT.relations[:1], source=TEXT)
        for name in ("d1", "d2")
    ]
    lines = text_of("triples-nt", "relation", documents).splitlines()
    fact = "<urn:spanlab:entity:PER:anna%20berg> <urn:spanlab:relation:left> <urn:spanlab:entity:LOC:oslo> ."
    assert lines.count(fact) == 1
    sources = [line for line in lines if "terms/source" in line]
    assert [line.rsplit(" ", 2)[1] for line in sources] == ['"d1"', '"d2"']
    assert len(lines) == 5 + 2 * 6


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12), st.text(max_size=5))
@settings(max_examples=80)
def test_whatever_names_hold_the_graph_is_valid(name: str, label: str) -> None:
    label = label.encode("utf-8", "replace").decode() or "x"
    pair = (
        Entity(start=0, end=1, label=label, text=name, score=1.0),
        Entity(start=1, end=2, label="y", text="other", score=1.0),
    )
    relations = (ScoredRelation(head=0, tail=1, label=label, score=0.5),)
    result = RelationResult(id=name, entities=pair, relations=relations, source="ab")
    for line in text_of("triples-nt", "relation", [result]).split("\n")[:-1]:
        assert STATEMENT.fullmatch(line), line


def test_formats_are_found_for_their_tasks() -> None:
    for row in FORMATS:
        assert sum(way is not None for way in (row.record, row.write, row.binary)) == 1, row.name
        assert find_format(row.name, (row.tasks or ("classification",))[0]) is row
    with pytest.raises(InputError, match=r"--redact is for ner, and the task is qa; use --format json, text, squad"):
        find_format("redacted", "qa", option="--redact")
    with pytest.raises(InputError, match=r"--format brta does not exist"):
        find_format("brta", "ner")


def test_a_second_file_takes_every_result_on_its_way(tmp_path: Path) -> None:
    path, taken = tmp_path / "beside.csv", []

    def results() -> Iterator[RelationResult]:
        for name in "abc":
            taken.append(name)
            yield RelationResult(id=name, entities=(), relations=(), source=TEXT)

    passed = write_beside(find_format("triples-csv", "relation"), results(), path)
    assert [(result.id, taken[-1]) for result in passed] == [("a", "a"), ("b", "b"), ("c", "c")]
    assert path.read_text(encoding="utf-8").startswith("subject,relation,object")


@pytest.mark.parametrize("first", ["=", "+", "-", "@", "\t", "\r", "\n", "\uff1d"])
def test_no_cell_is_a_formula(first: str) -> None:
    """Every cell with text of a user: names, types, relations and ids."""
    bad = f"{first}HYPERLINK(1)"
    entities = tuple(replace(entity, text=bad, label=bad) for entity in RESULT.entities)
    entities = (entities[0], *(replace(entity, text=f"{bad}{n}") for n, entity in enumerate(entities[1:])))
    relations = tuple(replace(relation, label=bad) for relation in RESULT.relations)
    result = RelationResult(id=bad, entities=entities, relations=relations, source=TEXT)
    rows = list(csv.reader(text_of("triples-csv", "relation", [result]).splitlines(keepends=True)))
    assert len(rows) > 1
    for row in rows[1:]:
        for cell in row:
            assert cell[0] not in "=+-@\t\r\n\uff1d"
        assert row[6] == f"'{bad}"


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_no_number_is_without_meaning(number: float) -> None:
    result = ClassificationResult(id="0", label="a", score=number, scores={"a": 0.5})
    for name in ("json", "text"):
        with pytest.raises(RunError, match="a result holds the number"):
            text_of(name, "classification", [result])
    relations = tuple(replace(relation, score=number) for relation in RESULT.relations)
    for name in ("triples-csv", "triples-nt"):
        with pytest.raises(RunError, match="a result holds the number"):
            text_of(name, "relation", [replace(RESULT, relations=relations)])


def test_half_of_a_surrogate_pair_is_escaped() -> None:
    text = text_of("json", "classification", [labelled("\ud83d")])
    assert json.loads(text.encode("utf-8"))["id"] == "\ud83d"


def test_html_is_one_page_with_every_result_and_nothing_that_is_not_escaped() -> None:
    sentence = "<b>Anna</b> & co"
    entity = Entity(start=3, end=7, label="<i>", text="Anna", score=0.9)
    named = NerResult(id="<1>", spans=(entity,), source=sentence)
    page = text_of("html", "ner", [named, {"names": named, "kind": replace(labelled("b"), truncated=True)}])
    assert page.startswith("<!doctype html>")
    assert page.endswith("</main></body></html>\n")
    assert page.count("<article>") == page.count("</article>") == 2
    assert "<h2>&lt;1&gt;</h2>" in page
    assert "<h3>names</h3>" in page
    assert page.count("truncated") == 1
    assert "&lt;b&gt;" in page
    assert "<b>Anna" not in page
    assert "<i>" not in page
    assert "http" not in page  # nothing from elsewhere
    assert text_of("html", "ner", []).count("<article>") == 0


def test_notebooks_show_a_result_with_its_text() -> None:
    shown = replace(labelled(), source="a <b> text")._repr_html_()
    assert "a &lt;b&gt; text" in shown
    assert "good" in shown
    answer = QaResult(
        id="0", answer="", start=None, end=None, score=1.0, no_answer=True, contexts=("Dark.",), question="Who?"
    )
    assert "Who?" in answer._repr_html_()
    assert "no answer" in answer._repr_html_()
    assert "Dark." in answer._repr_html_()


def test_predict_writes_a_page_beside_the_results(tmp_path: Path) -> None:
    page, texts, out = tmp_path / "page.html", tmp_path / "texts.txt", tmp_path / "out.jsonl"
    texts.write_text("Anna sold the flour.\nThe <mayor> swam.\n", encoding="utf-8")
    arguments = ["predict", str(DATA / "tasks" / "multitask"), "--task", "topics,names", "--input", str(texts)]
    told = run_here(*arguments, "--html", str(page), "--json").stdout
    assert len(told.splitlines()) == 2
    shown = page.read_text(encoding="utf-8")
    assert shown.count("<article>") == 2
    assert shown.count("<h3>names</h3>") == 2
    assert "&lt;mayor&gt;" in shown
    again = run_here(*arguments, "--html", str(page))
    assert again.returncode == 2
    assert "file exists" in again.stderr
    assert run_here(*arguments, "--html", str(page), "--overwrite", "--output", str(out)).returncode == 0
    resumed = run_here(*arguments, "--html", str(tmp_path / "b.html"), "--output", str(tmp_path / "c"), "--resume")
    assert resumed.returncode == 2
    assert "--html needs the results of all inputs" in resumed.stderr
