"""The scripts in examples/ run, and do what they say."""

import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The names of a script, which finds its neighbours as it does when it is started."""
    monkeypatch.syspath_prepend(EXAMPLES)
    return lambda name: runpy.run_path(str(EXAMPLES / name))


def test_every_example_is_run_here() -> None:
    tests = Path(__file__).read_text(encoding="utf-8")
    scripts = {path.name for path in EXAMPLES.iterdir() if path.is_file()} - {"packaged_model.py"}
    assert {name for name in scripts if f'"{name}"' in tests} == scripts


def test_customer_service_answers_out_of_an_entry(example: Any, tiny_model: Path) -> None:
    names = example("customer_service.py")
    replies = names["main"](str(tiny_model), names["QUESTIONS"][:2], steps=1)
    assert all(reply.entry in names["FAQ"] and reply.answer in reply.entry for reply in replies)


def test_customer_service_finds_the_entry(example: Any, minilm: Path) -> None:
    import spanlab

    names = example("customer_service.py")

    class NoReader:
        def predict(self, pair: tuple[str, str]) -> list[Any]:
            found = type("Found", (), {"answer": pair[1], "score": 1.0})
            return [type("Result", (), {"nbest": (found,)})]

    searcher = spanlab.load(minilm)
    found = [names["answer"](question, searcher, NoReader(), names["FAQ"]).entry for question in names["QUESTIONS"]]
    assert found == names["FAQ"]


def test_recommendation_stays_on_the_subject(example: Any, minilm: Path) -> None:
    recommend = example("recommendation.py")["recommend"]
    assert recommend(["The Pilot's Chart", "Salt and Canvas"], str(minilm))[0][0] == "Lights on the Reef"
    assert {title for title, _ in recommend(["Bread in Forty Ways"], str(minilm), top=2)} == {
        "The Patient Oven",
        "A Kitchen in Winter",
    }


def test_contracts_are_marked_where_they_say(example: Any) -> None:
    names = example("contracts.py")
    found = names["unmark"]("[CLAUSE [PARTY Ash Ltd] pays [AMOUNT 9 euros].] End.")
    assert found["text"] == "Ash Ltd pays 9 euros. End."
    spans = {(span["label"], found["text"][span["start"] : span["end"]]) for span in found["spans"]}
    assert spans == {("PARTY", "Ash Ltd"), ("AMOUNT", "9 euros"), ("CLAUSE", "Ash Ltd pays 9 euros.")}


def test_contracts_run_from_patterns_to_scores(example: Any, tiny_model: Path) -> None:
    scores = example("contracts.py")["main"](str(tiny_model), examples=16, epochs=1)
    assert {"precision", "recall", "f1"} <= set(scores)


@pytest.mark.slow
def test_contracts_are_learnt(example: Any, tmp_path: Path) -> None:
    from tests.tiny_model import write_tiny_model

    model = write_tiny_model(tmp_path / "model", width=64)
    assert example("contracts.py")["main"](str(model), epochs=12, lr=3e-3)["f1"] > 40


def test_spam_and_news_label_every_text(example: Any, tiny_model: Path) -> None:
    names = example("spam_and_news.py")
    found = names["main"](str(tiny_model), spam_steps=1, news_steps=1)
    assert list(found) == [*names["MESSAGES"], *names["NEWS"]]
    assert {found[text] for text in names["MESSAGES"]} <= {"spam", "ham"}


@pytest.mark.slow
def test_spam_is_told(example: Any, minilm: Path) -> None:
    names = example("spam_and_news.py")
    found = names["main"](str(minilm), news_steps=1)
    assert [found[text] for text in names["MESSAGES"]] == ["spam", "ham"]


def test_span_objective_learns_on_a_transformers_model() -> None:
    pytest.importorskip("transformers")
    first, last = runpy.run_path(str(EXAMPLES / "span_objective.py"))["main"](steps=20)
    assert last < 0.8 * first


def test_own_text_goes_from_a_file_to_masks(tmp_path: Path) -> None:
    text = tmp_path / "mine.txt"
    text.write_text((EXAMPLES.parent / "CONTRIBUTING.md").read_text() * 20)
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    command = bin_folder / "spanlab"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m spanlab.cli.main "$@"\n')
    command.chmod(0o755)
    done = subprocess.run(
        [str(EXAMPLES / "own_text.sh"), str(text), str(tmp_path / "out")],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, "PATH": f"{bin_folder}:{os.environ['PATH']}"},
    )
    assert done.returncode == 0, done.stderr
    assert "share of text masked" in done.stdout
    assert (tmp_path / "out" / "masks.html").is_file()


def test_first_steps_finds_the_sentence_that_fits(minilm: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "first_steps.py")], capture_output=True, text=True, check=True, timeout=120
    )
    ranked = [line.split(maxsplit=1)[1] for line in done.stdout.splitlines() if line.startswith("   ")]
    assert ranked[0] == "A span is marked by the two words at its edges."


def test_every_example_has_a_floor() -> None:
    from benchmarks.examples import TABLE

    assert set(TABLE) == {path.name for path in EXAMPLES.iterdir() if path.is_file()} - {"packaged_model.py"}


@pytest.mark.parametrize(
    ("name", "output", "score"),
    [
        ("contracts.py", "precision 97.8, recall 90.6, f1 94.1, macro_f1 81.8\n  PARTY  Ash Ltd", 94.1),
        ("first_steps.py", "MiniLM\n\nWho?\n   0.57  A span is marked by the two words at its edges.\n   0.26  B", 1.0),
        ("own_text.sh", "share of text masked 15 %", 1.0),
        ("spam_and_news.py", "spam  a\nham  b\nscience  c\nplaces  d\nlaw  e\n", 4.0),
        ("span_objective.py", "MLM + SBO loss: 10.0 at the first step, 4.0 after 40", 60.0),
        (
            "recommendation.py",
            "who liked a:\n   0.50  Lights on the Reef\n   0.20  x\n"
            "who liked b:\n   0.38  The Patient Oven\nwho liked c:\n   0.33  Salt and Canvas\n",
            2.0,
        ),
        (
            "customer_service.py",
            "Q\n  up to nine days (61%), from: a\nQ\n  30 days (73%), from: b\nQ\n  extra (52%), from: c\n"
            "Q\n  five years. Batteries are covered for six months (9%), from: d\nQ\n  noon (9%), from: e\n"
            "Q\n  one hour (8%), from: f\n",
            4.0,
        ),
    ],
)
def test_scores_are_read_from_what_examples_print(name: str, output: str, score: float) -> None:
    from benchmarks.examples import TABLE

    assert TABLE[name].score(output) == pytest.approx(score)
