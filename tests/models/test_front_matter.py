"""Cards as the hub reads them: their facts by huggingface_hub's own loader, their snippet by running it."""

import contextlib
import io
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import ModelCard

import spanlab
from spanlab.models import front_matter
from spanlab.models.front_matter import ScoredTask, read_front_matter
from spanlab.models.minilm import HUB_ID
from spanlab.samples import load
from spanlab.tasks.base import FittedState
from spanlab.tasks.card import ALMANAC, CardFacts, CardTask, card_example, write_shared_card
from spanlab.tasks.classification import Classification, ClassificationConfig
from spanlab.tasks.formats.row import Row
from spanlab.tasks.result import Scores
from spanlab.workflows.provenance import read_provenance
from tests.tasks.almanac_files import write_files, write_topics

BOX = Path(spanlab.__file__).parent / "models"
SETTINGS = {"steps": 2, "lr": 1e-3, "batch_size": 8, "threads": 1, "precision": "fp32"}


def card_of(folder: Path) -> Any:
    return ModelCard((folder / "README.md").read_text(encoding="utf-8"))


def results(card: Any) -> dict[tuple[str, str, str], float]:
    """What the hub would list: (task, data set, metric) and the value."""
    assert card.data.model_name
    return {
        (result.task_type, result.dataset_name, result.metric_type): result.metric_value
        for result in card.data.eval_results
    }


def run_snippet(card: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """What the Python of a card prints where `this-folder` is the model."""
    monkeypatch.chdir(folder.parent)
    folder.rename("this-folder")
    (snippet,) = re.findall(r"```python\n(.*?)```", card.text, re.DOTALL)
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(snippet, {})
    return output.getvalue()


def test_a_fine_tuned_model_says_what_it_is_and_shows_it(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train, dev = write_topics(tmp_path / "data")
    run = spanlab.finetune(
        "classification", model=tiny_model, train=train, dev=dev, out=tmp_path / "run", training=SETTINGS
    )
    card = card_of(run.model)
    facts = card.data
    assert (facts.library_name, facts.pipeline_tag, facts.license, facts.datasets, facts.base_model) == (
        "spanlab",
        "text-classification",
        "unknown",
        ["train.jsonl"],
        None,  # a folder here is nothing that the hub could link to
    )
    assert facts.tags == ["spanlab", "classification"]
    scores = read_provenance(run.model).scores
    assert results(card) == {
        ("text-classification", "dev.jsonl", name): round(value, 4) for name, value in scores.items()
    }
    assert "the river rose again" in card.text
    shown = run_snippet(card, run.model, monkeypatch)
    assert "'label'" in shown


def test_base_model_and_licence_are_those_of_the_model_it_started_from(tiny_model: Path, tmp_path: Path) -> None:
    assert f"license: apache-2.0\nlibrary_name: spanlab\nbase_model: {HUB_ID}\n" in facts_of(base="minilm")
    assert "base_model: google-bert/bert-base-cased" in facts_of(base="google-bert/bert-base-cased")
    own = facts_of(base="spanbert-mini-en")
    assert "license: apache-2.0" in own
    assert "base_model" not in own
    model = Path(shutil.copytree(tiny_model, tmp_path / "model"))
    assert "license: unknown" in facts_of(base=str(model))
    (model / "README.md").write_text("---\nlicense: cc-by-4.0\n---\n# Mine\n")
    assert "license: cc-by-4.0" in facts_of(base=str(model))
    assert "license: cc-by-4.0" in facts_of(base=str(tmp_path))  # of a run, whose model/ has the card
    (model / "README.md").write_text("---\nlicense: [\n---\n")
    assert read_front_matter(model / "README.md") == {}


def facts_of(**facts: Any) -> str:
    text = front_matter.front_matter(name="x", tags=["t"], **facts)
    ModelCard(f"{text}\n# x\n")
    return text


def test_what_users_call_things_cannot_break_the_facts() -> None:
    strange = "a\n---\n<b>: [x], 'y' \u202e#"
    scored = [ScoredTask(task="ner", dataset=strange, metrics={"f1": 12.34567, "loss": float("nan")})]
    text = front_matter.front_matter(name=strange, tags=[strange], datasets=[strange, strange], scores=scored)
    card = ModelCard(f"{text}\n# x\n")
    assert results(card) == {("ner", front_matter._tame(strange), "f1"): 12.3457}
    assert len(card.data.datasets) == 1
    assert not re.search(r"[<>\n\u202e]", card.data.model_name)
    nothing = front_matter.front_matter(name="x", tags=[], scores=[ScoredTask(task="t", dataset="d", metrics={})])
    assert "model-index" not in nothing


def test_a_pre_trained_model_says_what_it_is(
    small_corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"steps": 2, "batch_size": 4, "threads": 1, "precision": "fp32"}
    shape = {"size": "tiny", "backbone": "bert", "data.length": 32, "encoder": {"layers": 1, "width": 32, "heads": 2}}
    run = spanlab.pretrain("spanbert", data=small_corpus, out=tmp_path / "run", training=settings, **shape)
    card = card_of(run.model)
    assert (card.data.pipeline_tag, card.data.datasets) == ("fill-mask", [small_corpus.name])
    assert card.data.tags == ["spanlab", "spanbert", "pre-trained", "mlm", "sbo"]
    found = results(card)
    assert {metric: value for (_, _, metric), value in found.items()}["loss.sbo"] == round(run.scores["loss.sbo"], 4)
    assert {dataset for _, dataset, _ in found} == {f"held-out text of {small_corpus.name}"}
    assert "spanlab fill this-folder" in card.text
    run_snippet(card, run.model, monkeypatch)


@pytest.mark.parametrize("task", ["ner", "qa", "coref", "relation", "summarisation", "generation", "similarity"])
def test_the_snippet_of_every_task_runs(
    task: str, tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train, _ = write_files(task, tmp_path / "data", train=6, dev=2)
    training = {**SETTINGS, "steps": 1, "batch_size": 2}
    more = {
        "ner": {"head": "span"},
        "generation": {"head": "decoder", "max_new_tokens": 4, "data": {"long_text": "truncate"}},
    }.get(task, {})
    run = spanlab.finetune(task, model=tiny_model, train=train, out=tmp_path / "run", training=training, **more)
    card = card_of(run.model)
    assert card.data.eval_results is None  # without dev there is no score
    shown = run_snippet(card, run.model, monkeypatch)
    assert "'windows'" in shown


def test_a_model_of_several_tasks_lists_the_scores_of_each() -> None:
    sections = []
    for name, accuracy in (("first", 90.0), ("second", 80.0)):
        task = Classification(ClassificationConfig(), FittedState(labels=("a", "b")))
        facts = CardFacts(base="minilm", train=f"{name}.tsv", dev=f"{name}-dev.tsv", examples=3)
        scores = Scores(task="classification", count=3, metrics={"accuracy": accuracy})
        sections.append(CardTask(name=name, task=task, facts=facts, scores=scores))
    whole = CardFacts(base="minilm", base_place="minilm", train="tasks.yaml", examples=6)
    card = ModelCard(write_shared_card(sections, whole))
    assert results(card) == {
        ("text-classification", "first-dev.tsv", "accuracy"): 90.0,
        ("text-classification", "second-dev.tsv", "accuracy"): 80.0,
    }
    assert (card.data.datasets, card.data.base_model, card.data.license) == (
        ["first.tsv", "second.tsv"],
        HUB_ID,
        "apache-2.0",
    )
    assert card.data.pipeline_tag is None
    assert 'task="first"' in card.text


def test_inputs_that_are_shown_are_harmless() -> None:
    task = Classification(ClassificationConfig(), FittedState(labels=("a", "b")))
    texts = [
        "write to ann@example.org",
        "call 020 7946",
        "see https://x.org",
        "two\nlines",
        "long " * 60,
        "",
        "a fine day",
    ]
    rows = [Row(values={"text": text, "label": "a"}) for text in texts]
    assert card_example(task, rows) == {"text": "a fine day"}
    assert card_example(task, rows[:-1]) is None
    passages = [passage.text for passage in load()]
    pairs = {text for passage in load() for pair in passage.pairs for text in (pair.text_a, pair.text_b)}
    assert any(ALMANAC["text"] in text for text in passages)
    assert {ALMANAC["text_a"], ALMANAC["text_b"]} <= pairs
    assert any(ALMANAC["question"] == question.text for passage in load() for question in passage.questions)


@pytest.mark.parametrize("name", ["reader", "spanbert-mini-en"])
def test_cards_of_the_box_have_their_facts(name: str) -> None:
    card = card_of(BOX / name)
    facts = card.data
    assert facts.license == "apache-2.0"
    assert facts.library_name == "spanlab"
    assert facts.datasets
    assert facts.language == "en"
    assert facts.base_model == (HUB_ID if name == "reader" else None)
    listed = next(model for model in spanlab.list_models() if model.name == name)
    assert set(listed.scores.values()) <= set(results(card).values())
    for (_, dataset, _), value in results(card).items():
        assert re.search(rf"\| {value:.{2 if value < 1 else 1}f}\b|\| {value:.3f} ", card.text), (dataset, value)
