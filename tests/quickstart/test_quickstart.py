"""The quickstart: it does the whole job, says honestly what came of it, and goes on where it was stopped."""

import json
import random
import shlex
import signal
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanlab.cli.options import parse_budget
from spanlab.corpus import PreparedCorpus
from spanlab.encoder import load_model
from spanlab.errors import ConfigError, InputError
from spanlab.inference.load import load
from spanlab.models import NAMES
from spanlab.pretraining.batches import held_out_ranges
from spanlab.quickstart import page as table
from spanlab.quickstart import plan, reading
from spanlab.quickstart.continuation import FILLED, masked_spans
from spanlab.quickstart.data import write_text as write_quickstart_text
from spanlab.quickstart.folder import QuickstartEvents
from spanlab.quickstart.page import next_commands
from spanlab.quickstart.plan import QuickstartSettings, too_short
from spanlab.quickstart.results import Continuation, QuickstartResults, Reading, Span
from spanlab.quickstart.run import run_quickstart
from spanlab.quickstart.runs import MIN_STEPS, is_finished, steps_in, steps_of
from spanlab.samples import load as load_almanac
from spanlab.training.loop import Training
from spanlab.training.records import Record
from tests.cli.run import run_here
from tests.pretraining.making import write_text
from tests.quickstart.quickstarts import Listener, count_every_run, results_of, save_reader, small
from tests.workflows.running import records, start

RUNS = [name for name in plan.SHARES if not name.endswith(plan.MINILM)]
MODELS = Path(__file__).parents[1] / "compat/data/tasks"


@pytest.fixture(scope="module", autouse=True)
def every_run_counts() -> Iterator[None]:
    with mock.patch.multiple(plan, FLOOR=plan.FLOOR, STEEP=plan.STEEP, FEWEST_STEPS=plan.FEWEST_STEPS):
        count_every_run()
        yield


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_text(tmp_path_factory.mktemp("own") / "mine.txt", documents=120)


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_reader(tmp_path_factory.mktemp("tiny") / "reader")


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory, text: Path, reader: Path) -> tuple[Path, QuickstartResults]:
    """A complete quickstart."""
    out = tmp_path_factory.mktemp("whole") / "quickstart"
    return out, run_quickstart(small(out, text, reader))


def test_every_part_has_its_results_and_the_report_shows_them(done: tuple[Path, QuickstartResults], text: Path) -> None:
    out, results = done
    assert [row.initial_weights for row in results.rows] == [plan.RANDOM, plan.SPANBERT]
    assert results.tested == 33
    assert results.reading is not None
    assert " ".join(text.read_text().split()).startswith(results.reading.text)
    changed = results.continuation
    assert set(changed.before) == set(changed.after) == {"mlm", "sbo"}
    assert changed.before != changed.after
    assert len(changed.filled) == FILLED
    assert json.loads((out / "scores.json").read_text()) == json.loads(json.dumps(results.to_dict()))
    page = (out / "report.html").read_text()
    HTMLParser().feed(page)
    for row in (*table.rows(results), *table.loss_rows(changed)):
        for cell in row:
            assert cell in page
    for run in RUNS:
        assert (out / run / "report.html").is_file()
        assert f'href="{run}/report.html"' in page


def test_what_says_nothing_is_left_out_and_said_so(
    done: tuple[Path, QuickstartResults], text: Path, reader: Path
) -> None:
    out, _ = done
    (out / plan.CONTINUATION).unlink()
    with mock.patch.multiple(plan, FLOOR=15.0, FEWEST_STEPS=20):
        results = run_quickstart(small(out, text, reader))
    (out / plan.CONTINUATION).unlink()
    assert results.rows == ()
    assert results.continuation.after == {}
    assert results.continuation.filled == ()
    said = "\n".join(table.remarks(results))
    for line in (
        "entities from random, same shape: its 2 steps were too few: F1 on dev never exceeded 15",
        "entities from spanbert-mini-en: its 2 steps were too few",
        "spanbert-mini-en continued: its 2 steps were too few: the loss says something from 20 on",
        "MiniLM: it was not requested",
    ):
        assert line in said
    assert "F1, in percent" not in said
    HTMLParser().feed((out / "report.html").read_text())
    run_quickstart(small(out, text, reader))  # as the other tests expect it


def test_the_runs_with_and_without_pretraining_differ_in_nothing_else(done: tuple[Path, QuickstartResults]) -> None:
    out, _ = done
    with_, without = (out / plan.run_name(name) for name in (plan.SPANBERT, plan.RANDOM))
    assert steps_of(with_) == steps_of(without)
    mine, theirs = ((run / "config.yaml").read_text().splitlines() for run in (with_, without))
    assert [a.partition(":")[0] for a, b in zip(mine, theirs, strict=True) if a != b] == ["model"]
    random_weights, pretrained = load_model(out / plan.RANDOM).encoder, load_model(plan.SPANBERT_NAME).encoder
    assert random_weights.full_config == pretrained.full_config
    theirs_by_name = pretrained.state_dict()
    same = [name for name, tensor in random_weights.state_dict().items() if tensor.equal(theirs_by_name[name])]
    assert not [name for name in same if random_weights.state_dict()[name].dim() > 1]
    continued = load_model(out / plan.CONTINUED).encoder.state_dict()
    assert any(not tensor.equal(theirs_by_name[name]) for name, tensor in continued.items())


def test_filled_spans_are_of_text_that_was_held_out(done: tuple[Path, QuickstartResults]) -> None:
    out, results = done
    corpus, share = PreparedCorpus.open(out / plan.CORPUS), plan.CONTINUING["data"]["held_out"]
    starts, stops = held_out_ranges(corpus.counts.tokens, share)
    held_out = [corpus.tokenizer.decode(corpus.read([a], [b]).ids.tolist()) for a, b in zip(starts, stops, strict=True)]
    for (left, gold, right, whole), filled in zip(
        masked_spans(corpus, share), results.continuation.filled, strict=True
    ):
        assert (filled.left, filled.gold, filled.right) == (left, gold, right)
        assert len(gold.split()) >= 1
        assert whole.count("[MASK]") == len(corpus.tokenizer.encode(gold).ids)
        assert any(right in text and left in text for text in held_out)


def test_the_short_text_is_the_beginning_in_whole_sentences(tmp_path: Path) -> None:
    sentences = [f"This is sentence number {number} of the book, and it is short." for number in range(30)]
    path = tmp_path / "mine.txt"
    path.write_text("\n".join(sentences))
    shown = reading.beginning((str(path),))
    assert shown == " ".join(sentences[: reading.MOST_WORDS // len(sentences[0].split())])
    path.write_text("word " * 1000)
    assert reading.beginning((str(path),)).split() == ["word"] * reading.MOST_WORDS
    path.write_text(" \n \n")
    with pytest.raises(InputError, match="has no text"):
        reading.beginning((str(path),))


def test_questions_are_asked_of_the_text_of_spanlab_only(text: Path, reader: Path) -> None:
    model = load(reader)
    answered = reading.read(model, ())
    assert [answer.question for answer in answered.answers] == list(reading.QUESTIONS)
    assert all(answer.text in reading.STORY for answer in answered.answers)
    assert answered.entities == tuple(
        Span(start=span.start, end=span.end, label=span.label)
        for span in model.predict(reading.STORY, task="entities")[0].spans
    )
    assert reading.read(model, (str(text),)).answers == ()


def test_clusters_of_the_reading_link_at_least_two_mentions() -> None:
    model = load(MODELS / "coref")
    clusters = model.predict(reading.STORY)[0].clusters
    read = reading.read(model, ())
    assert read.answers == read.entities == ()
    assert [[(span.start, span.end) for span in cluster] for cluster in read.clusters] == [
        list(cluster) for cluster in clusters if len(cluster) > 1
    ]


def test_a_reader_that_is_not_here_is_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nobody").mkdir()  # a folder of that name is not a model
    assert reading.find_reader("nobody") == (None, "this SpanLab has no model 'nobody'")
    if "reader" in NAMES:
        monkeypatch.setattr(reading, "find_minilm", lambda: (None, "MiniLM is not installed"))
        assert reading.find_reader("reader") == (None, "MiniLM is not installed")


def test_dev_and_test_passages_stay_unseen(tmp_path: Path) -> None:
    write_quickstart_text(tmp_path)
    seen = " ".join(" ".join(path.read_text() for path in tmp_path.iterdir()).split())
    for passage in load_almanac():
        inside = " ".join(passage.text.split()[:12]) in seen
        assert inside == (passage.split == "train" and passage.language == "en")


def test_labelled_files_hold_what_tags_can_express(done: tuple[Path, QuickstartResults]) -> None:
    out, _ = done
    entities = [json.loads(line) for line in (out / "entities" / "train.jsonl").read_text().splitlines()]
    for record in entities:
        ends = [0, *(span["end"] for span in record["spans"])]
        assert all(span["start"] >= end for span, end in zip(record["spans"], ends[:-1], strict=True))


def test_what_is_done_is_not_done_again(done: tuple[Path, QuickstartResults], text: Path, reader: Path) -> None:
    out, results = done
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*.safetensors")}
    listener = Listener()
    again = run_quickstart(small(out, text, reader), listener)
    assert (again.rows, again.reading, again.continuation) == (results.rows, results.reading, results.continuation)
    assert listener.runs == 0
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*.safetensors")} == before
    assert sum(line.endswith("already done") for line in listener.said) == len(RUNS) + 1


def test_another_quickstart_is_not_mistaken_for_this_one(
    done: tuple[Path, QuickstartResults], text: Path, reader: Path, tmp_path: Path
) -> None:
    out, _ = done
    with pytest.raises(InputError, match="started with budget 6 min 0 s, not 10 min 0 s; use the same settings"):
        run_quickstart(small(out, text, reader, budget=600.0))
    other = write_text(tmp_path / "other.txt", seed=2)
    with pytest.raises(InputError, match="started with other text"):
        run_quickstart(small(out, other, reader))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("precious")
    with pytest.raises(InputError, match="not empty and is not a quickstart"):
        run_quickstart(small(tmp_path / "full", text))


class EnoughError(Exception):
    """Ends a quickstart when its second part begins."""


class Stopping(Listener):
    """Stops a quickstart there."""

    def part(self, number: int, total: int, title: str) -> None:
        if number == 2:
            raise EnoughError


def test_overwriting_leaves_what_is_not_its_own(tmp_path: Path, text: Path) -> None:
    out = tmp_path / "quickstart"
    with pytest.raises(EnoughError):
        run_quickstart(small(out, text), Stopping())
    (out / "notes.txt").write_text("mine")
    with pytest.raises(EnoughError):
        run_quickstart(small(out, text, steps=3), Stopping(), overwrite=True)
    assert (out / "notes.txt").read_text() == "mine"
    assert json.loads((out / "quickstart.json").read_text())["settings"]["steps"] == 3


def test_a_folder_of_an_older_version_is_refused_and_can_be_replaced(tmp_path: Path, text: Path) -> None:
    out = tmp_path / "quickstart"
    for name in ("tokenizer", "pretrained", "pretrained-questions", "minilm-entities"):
        (out / name).mkdir(parents=True)
        (out / name / "file").write_text("old")
    (out / "quickstart.json").write_text('{"format_version": 1, "settings": {"size": "tiny"}, "seconds": {}}')
    with pytest.raises(InputError, match=r"another version of SpanLab.*; start over with --overwrite"):
        run_quickstart(small(out, text))
    with pytest.raises(EnoughError):
        run_quickstart(small(out, text), Stopping(), overwrite=True)
    assert {path.name for path in out.iterdir()} <= {"quickstart.json", ".lock"}


class Interrupting(QuickstartEvents):
    """Ctrl-C at the first event that fits; whatever begins after it is kept."""

    def __init__(self, fits: Callable[[str, Any], bool]) -> None:
        self._fits, self.pressed = fits, False
        self.begun_after: list[str] = []

    def _event(self, kind: str, content: Any) -> None:
        if self.pressed and kind != "record":  # a run may end its step and its evaluation
            self.begun_after.append(f"{kind} {content}")
        elif self._fits(kind, content):
            self.pressed = True
            signal.raise_signal(signal.SIGINT)

    def part(self, number: int, total: int, title: str) -> None:
        self._event("part", number)

    def say(self, line: str) -> None:
        self._event("say", line)

    def progress(self, description: str, done: int, total: int | None) -> None:
        self._event("progress", description)

    def read(self, reading: Reading) -> None:
        self._event("read", reading)

    def run_begins(self, training: Training[Any], notes: tuple[str, ...]) -> None:
        self._event("run_begins", training.run.path.name)

    def record(self, record: Record) -> None:
        self._event("record", record)

    def continued(self, continuation: Continuation) -> None:
        self._event("continued", continuation)


def _said(words: str) -> Callable[[str, Any], bool]:
    return lambda kind, content: kind == "say" and words in content


def _recorded(step: int, split: str) -> Callable[[str, Any], bool]:
    return lambda kind, content: kind == "record" and (content.step, content.split) == (step, split)


PLACES: dict[str, Callable[[str, Any], bool]] = {
    "loading the reader": _said("loading"),
    "what the reader found": lambda kind, content: kind == "read",
    "preparing the corpus": lambda kind, content: kind == "progress",
    "measuring a run": _said("continued: "),
    "a run begins": lambda kind, content: kind == "run_begins",
    "a step": _recorded(1, "train"),
    "the last evaluation": _recorded(2, "dev"),
    "what has changed": lambda kind, content: kind == "continued",
    "the new task": lambda kind, content: (kind, content) == ("part", 3),
    "a step of the new task": _recorded(1, "train"),
    "the last evaluation of the new task": _recorded(2, "dev"),
    "a step of the other run": _recorded(1, "train"),
    "the last evaluation of the other run": _recorded(2, "dev"),
    "a test score": _said("on the test passages"),
}
"""Where Ctrl-C is pressed, in this order, each in a session of its own."""


def test_ctrl_c_in_every_step_stops_all_of_it_and_loses_nothing(
    tmp_path: Path, text: Path, reader: Path, done: tuple[Path, QuickstartResults]
) -> None:
    whole, _ = done
    out = tmp_path / "quickstart"
    for place, fits in PLACES.items():
        events = Interrupting(fits)
        with pytest.raises(KeyboardInterrupt):
            run_quickstart(small(out, text, reader), events)
        assert events.pressed, place
        assert events.begun_after == [], place
    assert all(is_finished(out / run) for run in RUNS)
    run_quickstart(small(out, text, reader))
    assert_same_outcome(whole, out)


def assert_same_outcome(one: Path, other: Path) -> None:
    """The same records and models of every run, to the bit, and the same scores."""
    for run in RUNS:
        assert records(one / run) == records(other / run)
        models = [sorted((folder / run / "model").rglob("*.safetensors")) for folder in (one, other)]
        assert [path.name for path in models[0]] == [path.name for path in models[1]]
        assert all(a.read_bytes() == b.read_bytes() for a, b in zip(*models, strict=True))
        assert not (other / run / "checkpoints").exists()
    assert _scores(one) == _scores(other)


def _scores(out: Path) -> dict[str, object]:
    found = json.loads((out / "scores.json").read_text())
    del found["seconds"]
    assert isinstance(found, dict)
    return found


@pytest.mark.slow
def test_killed_in_every_step(tmp_path: Path, text: Path, reader: Path, done: tuple[Path, QuickstartResults]) -> None:
    """No session gets further than a few events, so that every step is met by a kill sooner or later."""
    whole, _ = done
    out, kills, draw = tmp_path / "quickstart", 0, random.Random(3)
    for _ in range(60):
        arguments = [str(out), str(text), str(reader), str(draw.randint(1, 7))]
        process = start(["-m", "tests.quickstart.quickstarts", *arguments])
        _, errors = process.communicate(timeout=900)  # many times what a quiet machine takes
        if process.returncode == 0:
            break
        assert process.returncode == -signal.SIGKILL, errors
        kills += 1
    assert process.returncode == 0
    assert kills >= 6
    assert_same_outcome(whole, out)
    assert not list(out.glob(".*.unfinished"))


def test_the_next_commands_can_be_typed(
    done: tuple[Path, QuickstartResults], text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, results = done
    monkeypatch.chdir(tmp_path)
    (tmp_path / "MINE.txt").write_text(text.read_text())
    (tmp_path / "MINE.jsonl").write_text('{"question": "Who mended it?", "context": "The miller mended it."}\n')
    for name in ("TRAIN", "DEV"):
        (tmp_path / f"{name}.jsonl").write_text(
            '{"text": "Ana slept.", "spans": [{"start": 0, "end": 3, "label": "PER"}]}\n' * 4
        )
    for _, line in next_commands(str(out), results):
        program, command, *rest = shlex.split(line)
        assert program == "spanlab"
        if command in {"quickstart", "serve"}:
            continue  # the one is tested by everything else, the other does not end
        quick = {
            "pretrain": ["training.steps=1", "training.batch_size=2", "data.held_out=0"],
            "finetune": ["--dry-run"],
        }
        ended = run_here(command, *(word for word in rest if word not in {"--budget", "30m"}), *quick.get(command, []))
        assert ended.returncode == 0, (line, ended.stderr)


def test_the_table_says_what_pretraining_is_worth_and_what_is_missing() -> None:
    def said(before: float, after: float, *left_out: str) -> str:
        return "\n".join(table.remarks(results_of(before, after, *left_out)))

    assert "-7.5 points: pre-training did not help here." in said(20.0, 12.5)
    assert "+0.5 points: within the noise of so few examples." in said(20.0, 20.5)
    assert "+30.0 points: that is what pre-training is worth here." in said(20.0, 50.0)
    assert "Left out: MiniLM: not installed." in said(20.0, 50.0, "MiniLM: not installed")


@pytest.mark.parametrize(
    ("curve", "problem"),
    [
        ([0.0, 5.0, 30.0, 50.0, 58.0, 60.0, 61.0, 61.5], ""),
        ([0.0, 40.0, 60.0, 60.0, 60.0, 60.0, 55.0, 54.0], ""),  # falling is not rising
        ([0.0, 0.0, 5.0, 9.0, 12.0, 14.0, 15.0, 15.0], "its 80 steps were too few: F1 on dev never exceeded 15"),
        (
            [0.0, 0.0, 0.0, 5.0, 9.0, 16.0, 22.0, 24.5],
            "its 80 steps were too few: F1 on dev still rose by 8.5 over the last quarter of them",
        ),
        ([20.0], "its 10 steps were too few: F1 on dev still rose by 20.0 over the last quarter of them"),
    ],
)
def test_which_runs_had_too_little_time(curve: list[float], problem: str) -> None:
    with mock.patch.multiple(plan, FLOOR=15.0, STEEP=8.0):
        assert too_short([(10 * (index + 1), score) for index, score in enumerate(curve)]) == problem


@given(number=st.floats(0, 1e4).map(lambda value: round(value, 3)), unit=st.sampled_from(["s", "m", "h"]))
def test_budgets_are_read(number: float, unit: str) -> None:
    assert parse_budget(f"{number:.3f}{unit}") == pytest.approx(number * {"s": 1, "m": 60, "h": 3600}[unit])


@pytest.mark.parametrize("budget", ["", "6", "m", "-1m", "six minutes", "1e3s", "nan h"])
def test_what_is_no_budget_is_refused(budget: str) -> None:
    with pytest.raises(ConfigError, match=r"write 90s, 6m or 1\.5h"):
        parse_budget(budget)


def test_a_budget_must_leave_time_to_learn(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="at least"):
        QuickstartSettings(out=tmp_path, budget=1.0)


@given(left=st.floats(1, 1e5), waste=st.floats(0.5, 2))
def test_the_time_that_is_left_is_shared_out_to_the_end(left: float, waste: float) -> None:
    """Whatever earlier runs took, the last one gets all that is left, and nobody gets less than nothing."""
    runs = list(plan.SHARES)
    remaining = left
    for number, run in enumerate(runs):
        share = plan.seconds_for(run, runs[number:], remaining)
        assert 0 <= share <= max(0.0, remaining) + 1e-6
        if number == len(runs) - 1:
            assert share == pytest.approx(max(0.0, remaining))
        remaining -= share * waste


def test_steps_fit_beside_the_evaluations_and_are_no_more_than_needed() -> None:
    assert steps_in(58.0, 0.5, 2.0, needed=1000) == (58 - 2 * plan.EVALUATIONS) / 0.5
    assert steps_in(58.0, 0.5, 2.0, needed=60) == 60
    assert steps_in(-3.0, 0.5, 2.0, needed=1000) == MIN_STEPS
