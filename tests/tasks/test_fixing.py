"""`data check --fix`: what a message says it repairs is repaired, the rest dropped and counted; the result passes."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

import spanlab.tasks
from spanlab.tasks.checking import check_file, fix_file
from spanlab.tasks.config import TaskDataConfig
from spanlab.tasks.table import find_task
from tests.cli.run import run_here

DATA = TaskDataConfig()
TEXT = "John Smith met Ann in Rome"
GOOD: dict[str, dict[str, Any]] = {
    "classification": {"text": "good", "label": "x"},
    "similarity": {"text_a": "good", "text_b": "better", "score": 1.0},
    "ner": {"text": "good", "spans": []},
    "qa": {"question": "good?", "context": "good", "answers": []},
    "summarisation": {"sentences": ["Good.", "Bad."], "labels": [1, 0]},
    "generation": {"source": "good", "target": "bon"},
    "coref": {"text": "good", "clusters": []},
    "relation": {"text": "good", "entities": [], "relations": []},
}


def span(start: Any, end: Any, label: Any = "PER") -> dict[str, Any]:
    return {"start": start, "end": end, "label": label}


def ner(*spans: Any) -> dict[str, Any]:
    return {"text": TEXT, "spans": list(spans)}


def qa(*answers: Any, context: Any = TEXT) -> dict[str, Any]:
    return {"question": "Who?", "context": context, "answers": list(answers)}


def answer(text: Any, start: Any, **more: Any) -> dict[str, Any]:
    return {"text": text, "start": start, **more}


def coref(clusters: Any, **more: Any) -> dict[str, Any]:
    return {"text": TEXT, "clusters": clusters, **more}


def gap(**changes: Any) -> dict[str, Any]:
    return {
        "text": "Ann saw Eve when she ran", "pronoun": [17, 20], "a": [0, 3], "b": [8, 11], "a_coref": True,
        "b_coref": False, **changes,
    }  # fmt: skip


def relation(*relations: Any, entities: Any = None) -> dict[str, Any]:
    return {"text": TEXT, "entities": entities or [span(0, 10), span(15, 18)], "relations": list(relations)}


CASES: list[tuple[str, str, dict[str, Any]]] = [
    ("missing field", "classification", {"text": "a"}),
    ("wrong type", "classification", {"text": 5, "label": "x"}),
    ("wrong type", "classification", {"text": "a", "labels": 5}),
    ("wrong type", "classification", {"text": "a", "label": 0.5}),
    ("duplicate label", "classification", {"text": "a", "labels": ["x", "x"]}),
    ("empty text", "classification", {"text": " ", "label": "x"}),
    ("empty label", "classification", {"text": "a", "label": ""}),
    ("encoding fault", "classification", {"text": "a\ufffd", "label": "x"}),
    ("missing field", "similarity", {"text_a": "a", "text_b": "b"}),
    ("wrong type", "similarity", {"text_a": "a", "text_b": "b", "score": "high"}),
    ("wrong type", "similarity", {"text_a": "a", "text_b": "b", "score": "inf"}),
    ("no spans", "ner", {"text": "a"}),
    ("incomplete span", "ner", ner({"start": 0})),
    ("offset is not a number", "ner", ner(span("0", 4))),
    ("empty label", "ner", ner(span(0, 4, ""))),
    ("span outside the text", "ner", ner(span(0, 99))),
    ("empty span", "ner", ner(span(4, 5))),
    ("space at a span's edge", "ner", ner(span(0, 5))),
    ("space at a span's edge", "ner", ner(span(14, 17), span(0, 4))),
    ("misaligned span", "ner", ner(span(1, 10))),
    ("misaligned span", "ner", ner(span(0, 4), span(15, 17))),
    ("crossing spans", "ner", ner(span(0, 10), span(5, 14))),
    ("no context", "qa", qa(context=[])),
    ("no answers", "qa", {"question": "Who?", "context": TEXT}),
    ("incomplete answer", "qa", qa({"text": "Ann"})),
    ("no such document", "qa", qa(answer("Ann", 15, document=1))),
    ("empty answer", "qa", qa(answer(" ", 4))),
    ("misaligned answer", "qa", qa(answer("Ann", 3))),
    ("misaligned answer", "qa", qa(answer(" Ann ", 15))),
    ("misaligned answer", "qa", qa(answer("Eve", 3))),
    ("misaligned answer", "qa", qa(answer("John", 0), answer("Ann", -1, document=0))),
    ("space at an answer's edge", "qa", qa(answer("Ann ", 15))),
    ("space at an answer's edge", "qa", qa(answer("\nAnn", 4), context="Who\n\nAnn")),
    ("space at an answer's edge", "qa", qa(answer(" Ann", 14), answer("John", 1))),
    ("space at an answer's edge", "qa", qa(answer("Ann ", 15, document=1), context=["none", TEXT])),
    ("wrong limit", "summarisation", {**GOOD["summarisation"], "limit": "two"}),
    ("wrong type", "summarisation", {"sentences": [5], "labels": [1]}),
    ("wrong type", "summarisation", {"sentences": ["A."], "labels": 1}),
    ("no sentence", "summarisation", {"sentences": [" "], "labels": [1]}),
    ("blank sentence", "summarisation", {"sentences": ["A.", ""], "labels": [1, 0]}),
    ("missing field", "summarisation", {"text": "A."}),
    ("empty text", "summarisation", {"text": "A.", "summary": []}),
    ("labels without sentences", "summarisation", {"text": "A.", "labels": [1]}),
    ("wrong number of labels", "summarisation", {"sentences": ["A."], "labels": [1, 0]}),
    ("wrong label", "summarisation", {"sentences": ["A."], "labels": [2]}),
    ("no sentence labelled 1", "summarisation", {"sentences": ["A."], "labels": [0]}),
    ("empty text", "generation", {"source": "a", "target": []}),
    ("missing field", "generation", {"source": "a"}),
    ("span outside the text", "coref", gap(a=[0, 99])),
    ("no pronoun", "coref", gap(pronoun=[12, 16])),
    ("missing field", "coref", gap(a_coref=None)),
    ("speakers", "coref", coref([], speakers=[[0, 4]])),
    ("no sentences", "coref", coref([], sentences=5)),
    ("no clusters", "coref", coref(None)),
    ("empty cluster", "coref", coref([[]])),
    ("span is not a pair of numbers", "coref", coref([[[0]]])),
    ("span outside the text", "coref", coref([[[0, 99]]])),
    ("empty span", "coref", coref([[[4, 5]]])),
    ("space at a span's edge", "coref", coref([[[0, 5], [15, 18]], [[14, 26]]])),
    ("mention in two clusters", "coref", coref([[[0, 4]], [[0, 4]]])),
    ("crossing spans", "coref", coref([[[0, 10], [5, 14]]])),
    ("no entities", "relation", {"text": "a"}),
    ("no relations", "relation", {"text": "a", "entities": []}),
    ("incomplete relation", "relation", relation({"head": 0})),
    ("index is not a number", "relation", relation({"head": "0", "tail": 1, "label": "knows"})),
    ("relation to a missing entity", "relation", relation({"head": 0, "tail": 2, "label": "knows"})),
    ("empty label", "relation", relation({"head": 0, "tail": 1, "label": " "})),
    ("relation of an entity with itself", "relation", relation({"head": 0, "tail": 0, "label": "knows"})),
    ("duplicate relation", "relation", relation(*[{"head": 0, "tail": 1, "label": "knows"}] * 2)),
    ("space at a span's edge", "relation", relation({"head": 0, "tail": 1, "label": "knows"},
                                                    entities=[span(0, 11), span(14, 18)])),
    ("misaligned span", "relation", relation(entities=[span(0, 9)])),
]  # fmt: skip


def write(path: Path, *rows: dict[str, Any]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def test_the_cases_cover_every_kind() -> None:
    folder = Path(spanlab.tasks.__path__[0])
    sources = [path.read_text(encoding="utf-8") for path in folder.rglob("*.py")]
    written = {kind for source in sources for kind in re.findall(r'Problem\(\s*kind="([^"]+)"', source)}
    assert len(written) > 30
    assert written <= {kind for kind, _, _ in CASES}


@pytest.mark.parametrize(("kind", "task", "row"), CASES)
def test_what_a_message_promises_to_repair_is_repaired(
    tmp_path: Path, kind: str, task: str, row: dict[str, Any]
) -> None:
    task_class, out = find_task(task), tmp_path / "fixed.jsonl"
    path = write(tmp_path / "a.jsonl", GOOD[task], row)
    findings = [finding for finding in check_file(task_class, path, DATA).findings if finding.line == 2]
    assert kind in {finding.kind for finding in findings}
    outcome = fix_file(task_class, path, DATA, out)
    if any(finding.serious and "--fix" not in (finding.fix or "") for finding in findings):
        assert (outcome.written, outcome.repaired, sum(outcome.dropped.values())) == (1, 0, 1)
        assert set(outcome.dropped) <= {finding.kind for finding in findings if finding.serious}
    else:
        promised = any("--fix" in (finding.fix or "") for finding in findings)
        assert (outcome.written, outcome.repaired, outcome.dropped) == (2, int(promised), {})
    left = check_file(task_class, str(out), DATA)
    assert left.clean
    assert not [finding for finding in left.findings if "--fix" in (finding.fix or "")]


def test_repairs_are_right(tmp_path: Path) -> None:
    def fixed(task: str, row: dict[str, Any]) -> dict[str, Any]:
        out = tmp_path / "fixed.jsonl"
        out.unlink(missing_ok=True)
        fix_file(find_task(task), write(tmp_path / "a.jsonl", row), DATA, out)
        values = json.loads(out.read_text(encoding="utf-8"))
        assert isinstance(values, dict)
        return values

    assert fixed("qa", qa(answer(" Ann ", 14), answer("John", 0)))["answers"] == [answer("Ann", 15), answer("John", 0)]
    # Without its space the span misses a letter at the other end.
    assert fixed("ner", ner(span(14, 17)))["spans"] == [span(15, 18)]
    assert fixed("coref", coref([[[0, 5], [14, 18]]]))["clusters"] == [[[0, 4], [15, 18]]]


def test_a_repair_that_makes_a_conflict_is_not_kept(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", GOOD["coref"], coref([[[0, 4]], [[0, 5]]]))
    outcome = fix_file(find_task("coref"), path, DATA, tmp_path / "fixed.jsonl")
    assert (outcome.written, outcome.dropped) == (1, {"mention in two clusters": 1})


def test_the_second_of_an_id_loses_it(tmp_path: Path) -> None:
    rows = [{"id": 1, "text": "a", "label": "x"}, {"id": "1", "text": "b", "label": "x"}]
    path, out = write(tmp_path / "a.jsonl", *rows), tmp_path / "fixed.jsonl"
    checked = run_here("data", "check", "classification", path, "--fix", str(out))
    assert "duplicate id: line 1 has the same id '1'; give each example its own id; --fix removes" in checked.stdout
    assert "2 examples, 1 of them repaired; dropped: none" in checked.stderr
    assert [json.loads(line).get("id") for line in out.read_text().splitlines()] == [1, None]
    assert run_here("data", "check", "classification", str(out)).returncode == 0
