"""The reader in the box: whole, small, and right about plain cases of every task, without a network."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

import spanlab
from spanlab.atomic_io import sha256_of
from spanlab.inference.predictor import Predictor
from spanlab.models import list_models
from tests.cli.run import run_here

NAME = "reader"
LISTED = next(model for model in list_models() if model.name == NAME)
ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "src" / "spanlab" / "models" / NAME
TASKS = ("qa", "entities", "coref", "relations", "summary", "sentiment", "topic", "similarity")
TEXT = (
    "Ada Lovelace met Charles Babbage at a party in London in June 1833. He showed her a small part of his "
    "engine, and she began to write about it. Her notes were published in 1843, and they made her famous."
)


@pytest.fixture(scope="module")
def reader(minilm: Path) -> Predictor:
    return spanlab.load(FOLDER, device="cpu", precision="fp32")


def test_its_files_are_those_that_were_packed() -> None:
    lines = (FOLDER / "SHA256SUMS").read_text(encoding="utf-8").splitlines()
    listed = dict(reversed(line.split("  ", 1)) for line in lines)
    files = {path.name for path in FOLDER.iterdir()} - {"SHA256SUMS", "README.md"}
    assert set(listed) == files
    assert {name: sha256_of(FOLDER / name) for name in files} == listed


def test_it_is_small_and_as_the_list_says(reader: Predictor) -> None:
    assert (FOLDER / "heads.safetensors").stat().st_size < 12e6
    assert reader.tasks == TASKS
    model = reader.model
    added = [*model.heads.values(), *model.adapters.values()]
    assert sum(weight.numel() for module in added for weight in module.parameters()) == LISTED.parameters
    assert not (FOLDER / "model.safetensors").exists()


def test_the_scores_of_the_list_are_those_of_the_card() -> None:
    card = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert "{scores}" not in card
    rows = re.findall(r"^\| `\w+` \| .* \| ([\d.]+) \|$", card, re.MULTILINE)
    assert len(rows) == 19
    assert LISTED.scores
    assert {f"{score:.1f}" for score in LISTED.scores.values()} <= set(rows)
    for words in ("CC BY", "Apache-2.0", "GLUE", "licence not stated", "## Limits", "bias"):
        assert words in card


def test_the_card_is_the_template_with_its_scores() -> None:
    """Both are edited together: `make reader` writes the card from the template."""
    from reader_training.score import ROWS, TEMPLATE, model_index_of, table

    card = (FOLDER / "README.md").read_text(encoding="utf-8")
    values = iter(re.findall(r"^\| `\w+` \| .* \| ([\d.]+) \|$", card, re.MULTILINE))
    scores: dict[str, Any] = {}
    for task, file, _, metric in ROWS:
        scores.setdefault(task, {}).setdefault(file, {"metrics": {}})["metrics"][metric] = float(next(values))
    template = TEMPLATE.read_text(encoding="utf-8").replace("{model-index}", model_index_of(scores))
    assert template.replace("{scores}", table(scores)) == card


def test_vectors_are_those_of_minilm(reader: Predictor) -> None:
    assert (reader.encode(TEXT) == spanlab.load("minilm", device="cpu", precision="fp32").encode(TEXT)).all()


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Who showed her a part of his engine?", "Charles Babbage"),
        ("Where did they meet?", "London"),
        ("When were her notes published?", "1843"),
    ],
)
def test_questions(reader: Predictor, question: str, answer: str) -> None:
    (result,) = reader.predict((question, TEXT), task="qa")
    assert answer in {candidate.answer for candidate in result.nbest[:3]}


def test_entities(reader: Predictor) -> None:
    (result,) = reader.predict(TEXT, task="entities")
    found = {(span.text, span.label) for span in result.spans}
    assert {("Ada Lovelace", "PER"), ("Charles Babbage", "PER"), ("London", "LOC"), ("1843", "DATE")} <= found


def test_coreference(reader: Predictor) -> None:
    (result,) = reader.predict(TEXT, task="coref")
    clusters = [{TEXT[start:end] for start, end in cluster} for cluster in result.clusters]
    (ada,) = (cluster for cluster in clusters if "Ada Lovelace" in cluster)
    assert {"her", "she"} <= ada
    assert not {"He", "his"} & ada


def test_relations(reader: Predictor) -> None:
    (result,) = reader.predict(
        "Marie Curie was born in Warsaw and worked for the University of Paris.", task="relations"
    )
    entities = {entity.text for entity in result.entities}
    assert {"Marie Curie", "Warsaw"} <= entities


def test_sentiment_and_topic(reader: Predictor) -> None:
    good, bad = reader.predict(["A warm, funny and clever film.", "A dull and lifeless mess."], task="sentiment")
    assert (good.label, bad.label) == ("positive", "negative")
    (cooking,) = reader.predict("Fry the onions in butter, add the flour and stir until it thickens.", task="topic")
    assert cooking.label == "cooking"


def test_similarity_and_summary(reader: Predictor) -> None:
    near, far = reader.predict(
        [("A man plays the guitar.", "Someone is playing an instrument."), ("A man plays the guitar.", "It rained.")],
        task="similarity",
    )
    assert near.score > far.score + 0.3
    (summary,) = reader.predict(TEXT, task="summary")
    assert summary.summary in TEXT
    assert len(summary.sentences) == 1


def test_everything_at_once(reader: Predictor) -> None:
    (result,) = reader.predict({"text": TEXT, "question": "Where did they meet?"}, task="all")
    assert set(result) == set(TASKS) - {"similarity"}


def test_from_the_command_line(minilm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("asked.jsonl").write_text(json.dumps({"question": "When were her notes published?", "context": TEXT}) + "\n")
    Path("reader").mkdir()  # a folder that is no model does not hide it
    done = run_here("predict", NAME, "--task", "qa", "--input", "asked.jsonl", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["answer"] == "1843"
