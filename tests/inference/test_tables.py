"""Results as tables and as annotations of brat: what is read back is what was written."""

import csv
import io
import json
import re
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from spanlab.errors import InputError, MissingExtraError
from spanlab.inference.tables import flat_record
from spanlab.inference.writers import FORMATS, find_format, format_of_file
from spanlab.tasks.classification import ClassificationResult, LabelSetResult
from spanlab.tasks.coref.data import CorefResult, Mention
from spanlab.tasks.formats.row import FileShape, Row
from spanlab.tasks.formats.tables import read_csv, read_tsv
from spanlab.tasks.generation.task import GenerationResult
from spanlab.tasks.ner.data import Entity, NerResult
from spanlab.tasks.qa.data import Answer, QaResult
from spanlab.tasks.similarity import PairLabelResult, SimilarityResult
from spanlab.tasks.summarisation.data import SummaryResult, SummarySentence
from tests.tasks.relation.test_triples import RESULT as RELATIONS

TEXT = "Anna met\nBo Lee.\r\nShe left."
ENTITIES = (
    Entity(start=0, end=4, label="PER", text="Anna", score=0.5),
    Entity(start=0, end=15, label="a group", text=TEXT[:15], score=0.25),
)
NER = NerResult(id="n", spans=ENTITIES, source=TEXT)
MENTIONS = tuple(Mention(start=a, end=b, text=TEXT[a:b], score=1.0, cluster=0) for a, b in ((0, 4), (18, 21)))
RESULTS = [
    ClassificationResult(id="c", label="=good", score=0.5, scores={"=good": 0.5, "bad": 0.5}),
    ClassificationResult(id="none", label=None, score=None, windows=0),
    LabelSetResult(id="l", labels=("a", "b"), scores={"a": 1.0}),
    SimilarityResult(id="s", score=0.75),
    PairLabelResult(id="p", label="same", scores={"same": 1.0}),
    NER,
    CorefResult(id="k", clusters=(((0, 4), (18, 21)),), cluster_scores=(1.0,), mentions=MENTIONS, source=TEXT),
    QaResult(id="q", answer="Bo", start=9, end=11, document=0, score=0.5, no_answer=False, nbest=()),
    QaResult(id="q", answer="", start=None, end=None, score=0.5, no_answer=True),
    RELATIONS,
    SummaryResult(id="y", sentences=(SummarySentence(start=0, end=4, score=0.5, index=0),), summary="a\tb\nc"),
    GenerationResult(id="g", text="a\tb\nc"),
]


def content(name: str, results: list[Any], task: str = "several") -> bytes:
    row = next(row for row in FORMATS if row.name == name)
    return b"".join(row.pieces(results))


@pytest.mark.parametrize("result", RESULTS, ids=lambda result: f"{type(result).__name__}-{result.id}")
def test_every_result_is_a_row_of_every_table(result: Any) -> None:
    record = json.loads(content("json", [result]))
    header, cells = csv.reader(io.StringIO(content("csv", [result]).decode(), newline=""))
    assert header == list(record)
    assert [_as_text(value) for value in record.values()] == [cell.removeprefix("'") for cell in cells]
    assert content("tsv", [result]).count(b"\n") == 2
    parquet = pytest.importorskip("pyarrow.parquet")
    table = parquet.read_table(io.BytesIO(content("parquet", [result])))
    assert table.column_names == header
    assert [_plain(value) for value in table.to_pylist()] == [_plain(record)]


def _as_text(value: object) -> str:
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False)
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _plain(value: Any) -> Any:
    """Maps of Arrow as mappings, which are read as lists of pairs; an empty one is an empty list."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()} if value else []
    if isinstance(value, list | tuple):
        pairs = bool(value) and all(isinstance(item, tuple) for item in value)
        return _plain(dict(value)) if pairs else [_plain(item) for item in value]
    return value


def test_our_own_readers_read_the_tables(tmp_path: Path) -> None:
    given = [replace(RESULTS[0], id=name, label=label) for name, label in (("1", 'a "b", c\nd'), ("2", "x"))]  # type: ignore[type-var]
    shape = FileShape(fields={"id": (), "label": ()}, required=("id", "label"))
    for name, reader, first in (("csv", read_csv, 'a "b", c\nd'), ("tsv", read_tsv, 'a "b", c d')):
        path = tmp_path / f"table.{name}"
        path.write_bytes(content(name, given))
        rows = list(reader(str(path), shape))
        assert [row.values for row in rows if isinstance(row, Row)] == [
            {"id": "1", "label": first},
            {"id": "2", "label": "x"},
        ]


def test_results_of_several_tasks_have_columns_of_their_own() -> None:
    joint = {"tone": RESULTS[0], "names": replace(NER, windows=3)}
    record = flat_record(joint)
    assert list(record) == ["id", "windows", "truncated", "tone.label", "tone.score", "tone.scores", "names.spans"]
    assert record["windows"] == 3
    parquet = pytest.importorskip("pyarrow.parquet")
    table = parquet.read_table(io.BytesIO(content("parquet", [joint])))
    assert table.column_names == list(record)
    assert table.to_pylist()[0]["names.spans"][0]["text"] == "Anna"


def test_parquet_of_many_results_is_written_in_pieces() -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    row = find_format("parquet", "ner")
    pieces = list(row.pieces(replace(NER, id=str(index)) for index in range(5000)))
    assert len(pieces) >= 3
    table = parquet.read_table(io.BytesIO(b"".join(pieces)))
    assert table["id"].to_pylist() == [str(index) for index in range(5000)]


def test_parquet_without_its_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'spanlab\[data\]'"):
        content("parquet", [NER])


def read_brat(texts: str, annotations: str) -> tuple[dict[str, tuple[str, str]], list[str]]:
    """The label and the text of each span, checked against the text file; and the other lines."""
    spans, others = {}, []
    for line in annotations.splitlines():
        match = re.fullmatch(r"(T\d+)\t(\S+) ([\d ;]+)\t(.*)", line)
        if match is None:
            others.append(line)
            continue
        places = [tuple(map(int, place.split())) for place in match[3].split(";")]
        assert " ".join(texts[start:end] for start, end in places) == match[4]
        assert not any("\n" in texts[start:end] for start, end in places)
        spans[match[1]] = (match[2], match[4])
    return spans, others


def brat_of(results: list[Any], task: str) -> tuple[dict[str, tuple[str, str]], list[str]]:
    row = find_format("brat", task)
    assert row.beside is not None
    return read_brat("".join(row.beside(results)), b"".join(row.pieces(results)).decode())


def test_brat_marks_the_texts_of_all_results() -> None:
    spans, others = brat_of([NER, replace(NER, id="m", spans=()), NER], "ner")
    assert spans == {
        "T1": ("PER", "Anna"),
        "T2": ("a_group", "Anna met Bo Lee"),
        "T3": ("PER", "Anna"),
        "T4": ("a_group", "Anna met Bo Lee"),
    }
    assert others == []


def test_brat_joins_mentions_and_relations() -> None:
    coref = next(result for result in RESULTS if isinstance(result, CorefResult))
    spans, others = brat_of([coref, coref], "coref")
    assert [text for _, text in spans.values()] == ["Anna", "She"] * 2
    assert others == ["*\tCoref T1 T2", "*\tCoref T3 T4"]
    spans, others = brat_of([RELATIONS, RELATIONS], "relation")
    entities, relations = RELATIONS.entities, RELATIONS.relations
    assert [text for _, text in spans.values()] == [entity.text for entity in entities] * 2
    assert len(others) == 2 * len(relations)
    last, shift = relations[-1], len(entities)
    arguments = f"Arg1:T{shift + last.head + 1} Arg2:T{shift + last.tail + 1}"
    assert others[-1] == f"R{2 * len(relations)}\t{'_'.join(last.label.split())} {arguments}"


@pytest.mark.parametrize(
    ("name", "task", "chosen"),
    [
        ("a.csv", "ner", "csv"),
        ("a.TSV", "relation", "tsv"),
        ("a.conll", "ner", "conll2003"),
        ("a.conll", "coref", "conll2012"),
        ("a.ann", "relation", "brat"),
        ("a.parquet", "several", "parquet"),
        ("a.html", "qa", "html"),
        ("a.nt", "relation", "triples-nt"),
        ("a.jsonl", "qa", "json"),
        ("results", "qa", "json"),
        ("v1.5", "qa", "json"),
    ],
)
def test_the_name_says_the_format(name: str, task: str, chosen: str) -> None:
    assert format_of_file(Path(name), task).name == chosen


@pytest.mark.parametrize(
    ("name", "task", "cause"),
    [
        ("a.conll", "qa", r"a\.conll: \.conll is for ner, coref, and the task is qa; use \.jsonl, .*\.csv"),
        ("a.ann", "several", r"\.ann is for ner, coref, relation, and the task is several"),
        ("a.xlsx", "ner", r"\.xlsx files are not written; use "),
        ("a.jsonl.gz", "ner", r"\.gz files are not written"),
    ],
)
def test_a_name_that_promises_something_else_is_refused(name: str, task: str, cause: str) -> None:
    with pytest.raises(InputError, match=cause):
        format_of_file(Path(name), task)


def test_every_field_that_is_told_has_a_type() -> None:
    """Of answers among the best, too, which the result above does not have."""
    parquet = pytest.importorskip("pyarrow.parquet")
    assert {field.name for field in fields(Answer)}
    best = tuple(Answer(answer="Bo", start=9, end=11, document=0, score=0.5) for _ in range(2))
    answered = QaResult(id="q", answer="Bo", start=9, end=11, document=0, score=0.5, no_answer=False, nbest=best)
    table = parquet.read_table(io.BytesIO(content("parquet", [answered])))
    assert table.to_pylist()[0]["nbest"] == json.loads(content("json", [answered]))["nbest"]
