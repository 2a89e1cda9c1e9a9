"""Entities and answers from file to folder and back: what was scored is what is predicted, here and in transformers."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from spanlab.inference.load import load
from spanlab.tasks.formats.row import Row
from spanlab.tasks.ner.data import NerResult
from spanlab.training.records import Record
from spanlab.workflows.finetune import finetune
from tests.cli.run import run_here
from tests.tasks.ner.test_task import NESTED, ROWS
from tests.tasks.ner.test_task import fit as learn_entities
from tests.tasks.qa.test_task import CAFE, FERRY, SILENT
from tests.tasks.qa.test_task import ROWS as QUESTIONS
from tests.tasks.qa.test_task import fit as learn_answers

QUICK: dict[str, Any] = {
    "epochs": 60.0,
    "lr": 3e-3,
    "batch_size": 8,
    "eval_every": 30,
    "precision": "fp32",
    "device": "cpu",
}


def run(task: str, rows: list[dict[str, Any]], model: Path, folder: Path, **changes: Any) -> dict[str, float]:
    """Train and score on the same rows; the best scores."""
    file = folder / f"{task}.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    records: list[Record] = []
    out = folder / "run"
    training = {**QUICK, **changes.pop("training", {})}
    finetune(task, model=model, train=file, dev=file, out=out, on_record=records.append, training=training, **changes)
    scores = [dict(record.metrics) for record in records if record.split == "dev"]
    return max(scores, key=lambda one: one["f1"])


@pytest.mark.parametrize(("head", "rows"), [("tag", ROWS), ("span", NESTED[1:])])
def test_entities(head: str, rows: list[dict[str, Any]], tiny_model: Path, tmp_path: Path) -> None:
    best = run("ner", rows, tiny_model, tmp_path, head=head)
    assert best["f1"] == 100.0
    model = load(tmp_path / "run", precision="fp32")
    assert model.evaluate(str(tmp_path / "ner.jsonl")).metrics == best
    (result,) = model.predict([rows[-1]["text"] if head == "span" else rows[0]["text"]])
    assert isinstance(result, NerResult)
    gold = rows[-1] if head == "span" else rows[0]
    found = [{"start": span.start, "end": span.end, "label": span.label} for span in result.spans]
    assert sorted(map(str, found)) == sorted(map(str, gold["spans"]))
    assert set(result.to_dict()) == {"id", "windows", "truncated", "spans"}
    assert "PER" in result.to_html()
    assert result.redacted().count("[PER]") >= 2
    assert "Anna" not in result.redacted()


def test_entities_are_redacted_from_the_command_line(tiny_model: Path, tmp_path: Path) -> None:
    run("ner", ROWS, tiny_model, tmp_path)
    texts = tmp_path / "texts.txt"
    texts.write_text(ROWS[0]["text"] + "\n", encoding="utf-8")
    arguments = ["predict", str(tmp_path / "run"), "--input", str(texts), "--redact", "--json"]
    told = json.loads(run_here(*arguments).stdout)
    assert set(told) == {"id", "windows", "truncated", "text"}
    assert told["text"].startswith("[PER] met Captain [PER] on [LOC] before dawn.")
    shown = run_here("predict", str(tmp_path / "run"), "--input", str(texts), "--format", "conll2003").stdout
    assert shown.splitlines()[:2] == ["Anna B-PER", "met O"]


def test_mistakes_of_entities_and_answers() -> None:
    task, examples = learn_entities(ROWS)
    right = task.read_result(Row(values={"spans": ROWS[1]["spans"]}), 0, examples[1])
    assert task.mistake(examples[1], right) is None
    wrong = task.read_result(Row(values={"spans": [{"start": 0, "end": 6, "label": "PER"}]}), 0, examples[1])
    mistake = task.mistake(examples[1], wrong)
    assert mistake is not None
    assert (mistake.badness, mistake.gold, mistake.predicted) == (2.0, "the quay (LOC)", "Nobody (PER)")
    questions, asked = learn_answers(QUESTIONS)
    assert (
        questions.mistake(asked[0], questions.read_result(Row(values={"answer": "Before dawn"}), 0, asked[0])) is None
    )
    half = questions.mistake(asked[0], questions.read_result(Row(values={"answer": "dawn"}), 0, asked[0]))
    assert half is not None
    assert half.badness == pytest.approx(1 / 3)
    assert "When did the ferry leave?" in half.shown


def test_entities_load_in_transformers(tiny_model: Path, tmp_path: Path) -> None:
    hf = pytest.importorskip("transformers")
    run("ner", ROWS, tiny_model, tmp_path, training={"epochs": 2.0, "eval_every": 1})
    folder = tmp_path / "run" / "model"
    theirs, report = hf.AutoModelForTokenClassification.from_pretrained(folder, output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    assert theirs.config.id2label == {0: "O", 1: "B-LOC", 2: "I-LOC", 3: "B-PER", 4: "I-PER"}
    text = "Anna met Captain Brown"
    given = hf.AutoTokenizer.from_pretrained(folder)(text, return_tensors="pt")
    model = load(folder, precision="fp32").model
    head: Any = model.heads["ner"]
    with torch.no_grad():
        wanted = theirs.eval()(**given).logits[0]
        ours = head.tokens(model.encoder(given["input_ids"]).hidden[0])
    torch.testing.assert_close(ours, wanted, rtol=0.0, atol=1e-5)


@pytest.mark.parametrize("head", ["pointers", "span"])
def test_answers(head: str, tiny_model: Path, tmp_path: Path) -> None:
    best = run("qa", [*QUESTIONS, SILENT], tiny_model, tmp_path, head=head, max_answer=6)
    assert best["f1"] == best["no_answer_f1"] == 100.0
    described = json.loads((tmp_path / "run" / "model" / "spanlab.json").read_text())
    assert list(described["thresholds"]) == ["no_answer"]
    model = load(tmp_path / "run", precision="fp32")
    assert model.model.tasks["qa"].fitted.thresholds == described["thresholds"]
    assert model.evaluate(str(tmp_path / "qa.jsonl")).metrics == best
    results = model.predict([(str(one["question"]), str(one["context"])) for one in [*QUESTIONS, SILENT]])
    assert [result.answer for result in results] == ["before dawn", "Mr. Brown", "The café", ""]
    assert [result.start for result in results] == [26, 47, 0, None]
    wanted = {"id", "windows", "truncated", "answer", "start", "end", "document", "score", "no_answer", "nbest"}
    assert set(results[0].to_dict()) == wanted
    assert "answer" in results[0].to_html()
    assert results[3].to_html()
    several = model.predict([{"question": "Who ordered breakfast?", "context": [FERRY, CAFE]}])[0]
    assert (several.answer, several.document) == ("Mr. Brown", 1)


def test_answers_load_in_transformers(tiny_model: Path, tmp_path: Path) -> None:
    hf = pytest.importorskip("transformers")
    run("qa", QUESTIONS, tiny_model, tmp_path, training={"epochs": 2.0, "eval_every": 1})
    folder = tmp_path / "run" / "model"
    theirs, report = hf.AutoModelForQuestionAnswering.from_pretrained(folder, output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    given = hf.AutoTokenizer.from_pretrained(folder)("Who waved?", FERRY, return_tensors="pt")
    model = load(folder, precision="fp32").model
    head: Any = model.heads["qa"]
    with torch.no_grad():
        wanted = theirs.eval()(**given)
        hidden = model.encoder(given["input_ids"], token_type_ids=given["token_type_ids"]).hidden[0]
        start, end = head.ends(hidden).T
    torch.testing.assert_close(start, wanted.start_logits[0], rtol=0.0, atol=1e-5)
    torch.testing.assert_close(end, wanted.end_logits[0], rtol=0.0, atol=1e-5)


def test_columns_of_mixed_tags_through_every_command(tiny_model: Path, tmp_path: Path) -> None:
    """A `.txt` whose entities open as in two schemes: trained on, evaluated and predicted, with a remark."""
    path = tmp_path / "mixed.txt"
    path.write_text("Anna B-PER\nmet O\nBen B-PER\n\nOslo I-LOC\nis O\nold O\n\nAnna B-PER\nleft O\nOslo I-LOC\n")
    remark = f"{path}:5: the entity that begins with 'I-LOC' is not written as in IOB2; read as conlleval reads it"
    files = ("--train", str(path), "--dev", str(path), "--model", str(tiny_model), "--out", str(tmp_path / "run"))
    settings = ("training.steps=2", "training.precision=fp32", "data.tag_scheme=IOB2", "training.device=cpu")
    done = run_here("finetune", "ner", *files, *settings)
    assert done.returncode == 0, done.stderr
    assert f"{remark} (2 such lines)" in done.stderr
    refused = run_here("finetune", "ner", *files, "--overwrite", *settings[:2], "data.tag_scheme=IOB3")
    assert refused.returncode == 2
    assert "data.tag_scheme" in refused.stderr
    scored = run_here("evaluate", str(tmp_path / "run"), "--data", str(path), "--json")
    assert f"{remark} (2 such lines)" in scored.stderr
    assert json.loads(scored.stdout)["count"] == 3
    named = run_here("evaluate", str(tmp_path / "run"), "--data", str(path), "--json", "--tag-scheme", "IOB1")
    assert "not written as in IOB1" in named.stderr
    assert named.stdout == scored.stdout
    predicted = run_here("predict", str(tmp_path / "run"), "--input", str(path), "--json")
    assert len(predicted.stdout.splitlines()) == 3
