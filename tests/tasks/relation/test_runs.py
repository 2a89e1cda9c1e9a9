"""Relations from file to folder and back, with the commands a user types; triples joined by a coreference model."""

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from spanlab.inference.load import load
from spanlab.inference.predictor import Predictor
from spanlab.inference.writers import add_clusters, find_format, write_beside
from spanlab.tasks.formats.row import Row
from spanlab.tasks.relation.data import RelationResult
from tests.cli.run import run_here
from tests.tasks.relation.test_files import SEMEVAL
from tests.tasks.relation.test_task import ENTITIES, ROWS, SINGLE, TEXT, fit, gold, told
from tests.tasks.test_span_runs import run


@pytest.mark.parametrize(("head", "rows"), [("markers", SINGLE), ("pairs", ROWS), ("joint", ROWS)])
def test_relations(head: str, rows: list[dict[str, Any]], tiny_model: Path, tmp_path: Path) -> None:
    best = run("relation", rows, tiny_model, tmp_path, head=head)
    assert best["f1"] == best["macro_f1"] == 100.0
    model = load(tmp_path / "run", precision="fp32")
    assert model.evaluate(str(tmp_path / "relation.jsonl")).metrics == pytest.approx(best)
    given = {"text": TEXT} if head == "joint" else {"text": TEXT, "entities": ENTITIES}
    (result,) = model.predict([given])
    assert isinstance(result, RelationResult)
    assert told(result) == gold(rows[0])
    plain = result.to_dict()
    assert set(plain) == {"id", "windows", "truncated", "entities", "relations"}
    assert set(plain["entities"][0]) == {"start", "end", "label", "text", "score"}
    assert set(plain["relations"][0]) == {"head", "tail", "label", "score"}
    card = (tmp_path / "run" / "model" / "README.md").read_text(encoding="utf-8")
    assert "was in" in card
    assert (tmp_path / "run" / "report.html").exists()


def test_marked_pairs_load_in_transformers(tiny_model: Path, tmp_path: Path) -> None:
    hf = pytest.importorskip("transformers")
    run("relation", SINGLE, tiny_model, tmp_path, head="markers", training={"epochs": 2.0, "eval_every": 1})
    folder = tmp_path / "run" / "model"
    theirs, report = hf.AutoModelForSequenceClassification.from_pretrained(folder, output_loading_info=True)
    assert not report["missing_keys"]
    assert theirs.config.id2label[1] == "met(e1,e2)"
    predictor = load(folder, precision="fp32")
    task: Any = predictor.model.tasks["relation"]
    example = task.read(Row(values={"text": TEXT, "entities": ENTITIES[1:3]}), labelled=False)
    (sample,) = task.encode([example], predictor.model.windower("relation"), labelled=False)
    with torch.no_grad():
        logits = theirs.eval()(torch.from_numpy(sample.sequences[0].ids)[None]).logits[0]
    (result,) = predictor.predict([{"text": TEXT, "entities": ENTITIES[1:3]}])
    best = int(logits.argmax())
    assert len(result.relations) == (best > 0)
    if best:
        assert result.relations[0].score == pytest.approx(float(logits.softmax(0)[best]), abs=1e-4)


def test_from_sample_data_to_triples_on_the_command_line(tiny_model: Path, tmp_path: Path) -> None:
    assert run_here("init", "relation", str(tmp_path / "start"), "--language", "en").returncode == 0
    train, dev = (str(tmp_path / "start" / f"{name}.jsonl") for name in ("train", "dev"))
    checked = run_here("data", "check", "relation", dev, "--train", train, "--json")
    assert json.loads(checked.stdout)["clean"], checked.stdout
    command = ("finetune", "relation", "--config", str(tmp_path / "start" / "config.yaml"), "--model", str(tiny_model))
    dry = run_here(*command, "--train", train, "--dev", dev, "--out", str(tmp_path / "dry"), "--dry-run")
    assert dry.returncode == 0, dry.stderr
    run("relation", ROWS, tiny_model, tmp_path, head="joint")
    texts = tmp_path / "texts.txt"
    texts.write_text(TEXT + "\nIt was a warning.\n", encoding="utf-8")
    predict = ("predict", str(tmp_path / "run"), "--input", str(texts), "--json")
    table = tmp_path / "triples.csv"
    done = run_here(*predict, "--triples", str(table))
    assert done.returncode == 0, done.stderr
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == ["0", "1"]
    with table.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {(row["subject"], row["relation"], row["object"]) for row in rows} == gold(ROWS[0])
    assert {row["source"] for row in rows} == {"0"}
    for arguments, words in (
        (("--triples", str(table)), "file exists"),
        (("--triples", str(tmp_path / "triples.txt")), ".csv or .nt"),
        (("--coref", str(tmp_path / "run")), "add --triples"),
        (("--triples", str(tmp_path / "x.nt"), "--coref", str(tmp_path / "run")), "not a coreference model"),
    ):
        refused = run_here(*predict, *arguments)
        assert refused.returncode == 2, refused
        assert words in refused.stderr


def test_bad_rows_are_listed_by_line_and_refused(tiny_model: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.jsonl"
    missing = {**ROWS[0], "relations": [{"head": 0, "tail": 9, "label": "met"}]}
    outside = {**ROWS[1], "entities": [{"start": 10, "end": 900, "label": "LOC"}]}
    rows = [ROWS[0], missing, outside, {"entities": [], "relations": []}]
    bad.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    checked = run_here("data", "check", "relation", str(bad))
    assert checked.returncode == 2
    for line, kind in ((2, "relation to a missing entity"), (3, "span outside the text"), (4, "missing field")):
        assert f"{bad}:{line}: {kind}" in checked.stdout
    places = ("--model", str(tiny_model), "--train", str(bad), "--out", str(tmp_path / "run"))
    refused = run_here("finetune", "relation", *places)
    assert refused.returncode == 2
    assert f"{bad}:2:" in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1


def test_semeval_files_are_scored(tmp_path: Path) -> None:
    key = tmp_path / "key.txt"
    key.write_text(SEMEVAL, encoding="utf-8")
    answers = tmp_path / "answers.txt"
    answers.write_text(SEMEVAL.replace("Cause-Effect(e1,e2)", "Cause-Effect(e2,e1)"), encoding="utf-8")
    scored = run_here("score", "relation", "--gold", str(key), "--predicted", str(answers), "--json")
    assert scored.returncode == 0, scored.stderr
    assert json.loads(scored.stdout)["metrics"] == {"precision": 50.0, "recall": 50.0, "f1": 50.0, "macro_f1": 50.0}


@dataclass(frozen=True)
class Clustered:
    """What a coreference model says, as far as triples look at it."""

    clusters: list[list[list[int]]]

    def to_dict(self) -> dict[str, Any]:
        return {"clusters": self.clusters}


class CorefModel:
    """A model that joins the first two entities of every text."""

    model = SimpleNamespace(tasks={"who": SimpleNamespace(name="coref")}, folder=None)

    def predict(self, texts: list[str], *, task: str) -> list[Clustered]:
        assert task == "who"
        return [Clustered([[[0, 4], [17, 24]]]) for _ in texts]


def test_a_coreference_model_joins_the_entities_of_triples(tmp_path: Path) -> None:
    task, examples = fit(ROWS, head="joint")
    results: Iterator[Any] = iter([task.read_result(Row(values=ROWS[0]), 0, examples[0])])
    path = tmp_path / "x.csv"
    joined = add_clusters(results, cast(Predictor, CorefModel()))
    assert len(list(write_beside(find_format("triples-csv", "relation"), joined, path))) == 1
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["subject"] for row in rows if row["relation"] == "was in"] == ["O'Neill", "O'Neill", "Mr. Brown"]
    assert not [row for row in rows if row["relation"] == "met"]
