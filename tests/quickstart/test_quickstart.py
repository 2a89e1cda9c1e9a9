"""The quickstart: it does the whole job, says honestly what came of it, and goes on where it was killed."""

import json
import random
import shlex
import signal
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file

from spanlab.cli.options import parse_budget
from spanlab.encoder import load_model
from spanlab.errors import ConfigError, InputError
from spanlab.quickstart import page as table
from spanlab.quickstart import plan
from spanlab.quickstart.data import write_text as write_quickstart_text
from spanlab.quickstart.page import next_commands
from spanlab.quickstart.plan import QuickstartSettings
from spanlab.quickstart.results import QuickstartResults
from spanlab.quickstart.run import run_quickstart
from spanlab.quickstart.runs import MIN_STEPS, Throughput, is_finished, steps_of
from spanlab.samples import load as load_almanac
from spanlab.training.records import Record
from tests.cli.run import run_here
from tests.pretraining.making import write_text
from tests.quickstart.quickstarts import Listener, results_of, small
from tests.workflows.running import records, start

RUNS = [name for name in plan.SHARES if not name.startswith(plan.MINILM)]


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_text(tmp_path_factory.mktemp("own") / "mine.txt")


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory, text: Path) -> tuple[Path, QuickstartResults]:
    """A complete quickstart."""
    out = tmp_path_factory.mktemp("whole") / "quickstart"
    return out, run_quickstart(small(out, text))


def test_every_model_has_its_scores_and_the_report_shows_them(done: tuple[Path, QuickstartResults]) -> None:
    out, results = done
    assert [row.initial_weights for row in results.rows] == [plan.UNTRAINED, plan.PRETRAINED]
    assert results.tested == {"entities": 33, "questions": 136}
    assert json.loads((out / "scores.json").read_text()) == results.to_dict()
    page = (out / "report.html").read_text()
    HTMLParser().feed(page)
    for row in table.rows(results):
        for cell in row:
            assert cell in page
    for run in RUNS:
        assert (out / run / "report.html").is_file()
        assert f'href="{run}/report.html"' in page


def test_the_runs_with_and_without_pretraining_differ_in_nothing_else(done: tuple[Path, QuickstartResults]) -> None:
    out, _ = done
    from spanlab.quickstart.runs import Pretraining

    for task in plan.TASKS:
        with_, without = (out / plan.run_name(name, task) for name in (plan.PRETRAINED, plan.UNTRAINED))
        assert steps_of(with_) == steps_of(without)
        mine, theirs = ((run / "config.yaml").read_text().splitlines() for run in (with_, without))
        assert [a.partition(":")[0] for a, b in zip(mine, theirs, strict=True) if a != b] == ["model"]
    # The weights that pre-training began with are those of the untrained model.
    recipe = Pretraining(
        corpus=out / plan.CORPUS,
        settings={"size": "tiny", **plan.PRETRAINING},
        training=plan.PRETRAINING_OPTIMISER,
    ).recipe(2)
    from spanlab.pretraining.initial_model import build_model
    from spanlab.text import Tokenizer

    initial = build_model(recipe, Tokenizer.load(out / plan.TOKENIZER)).criterion
    untrained = load_model(out / plan.UNTRAINED).encoder.state_dict()
    assert all(tensor.equal(untrained[name]) for name, tensor in initial.encoder.state_dict().items())
    trained = load_file(out / plan.PRETRAINED / "model" / "model.safetensors")
    new = load_file(out / plan.UNTRAINED / "model.safetensors")
    assert any(not tensor.equal(new[name]) for name, tensor in trained.items())


def test_dev_and_test_passages_stay_unseen(tmp_path: Path) -> None:
    write_quickstart_text(tmp_path, reference=True)
    seen = " ".join(" ".join(path.read_text() for path in tmp_path.iterdir()).split())
    for passage in load_almanac():
        inside = " ".join(passage.text.split()[:12]) in seen
        assert inside == (passage.split == "train" and passage.language == "en")


def test_labelled_files_hold_what_can_be_learnt_in_minutes(done: tuple[Path, QuickstartResults]) -> None:
    out, _ = done
    entities = [json.loads(line) for line in (out / "entities" / "train.jsonl").read_text().splitlines()]
    for record in entities:
        ends = [0, *(span["end"] for span in record["spans"])]
        assert all(span["start"] >= end for span, end in zip(record["spans"], ends[:-1], strict=True))
    questions = [json.loads(line) for line in (out / "questions" / "test.jsonl").read_text().splitlines()]
    assert all(record["answers"] for record in questions)


def test_what_is_done_is_not_done_again(done: tuple[Path, QuickstartResults], text: Path) -> None:
    out, results = done
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*.safetensors")}
    listener = Listener()
    again = run_quickstart(small(out, text), listener)
    assert again == results
    assert listener.runs == 0
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*.safetensors")} == before
    assert sum(line.endswith("already done") for line in listener.said) == len(RUNS) + 2


def test_another_quickstart_is_not_mistaken_for_this_one(
    done: tuple[Path, QuickstartResults], text: Path, tmp_path: Path
) -> None:
    out, _ = done
    with pytest.raises(InputError, match="started with budget 6 min 0 s, not 10 min 0 s; use the same settings"):
        run_quickstart(small(out, text, budget=600.0))
    other = write_text(tmp_path / "other.txt", seed=2)
    with pytest.raises(InputError, match="started with other text"):
        run_quickstart(small(out, other))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("precious")
    with pytest.raises(InputError, match="not empty and is not a quickstart"):
        run_quickstart(small(tmp_path / "full", text))


def test_overwriting_leaves_what_is_not_its_own(tmp_path: Path, text: Path) -> None:
    out = tmp_path / "quickstart"

    class EnoughError(Exception):
        pass

    class Stopping(Listener):
        def part(self, number: int, total: int, title: str) -> None:
            if number == 2:
                raise EnoughError

    with pytest.raises(EnoughError):
        run_quickstart(small(out, text), Stopping())
    (out / "notes.txt").write_text("mine")
    with pytest.raises(EnoughError):
        run_quickstart(small(out, text, vocabulary=900), Stopping(), overwrite=True)
    assert (out / "notes.txt").read_text() == "mine"
    assert json.loads((out / "quickstart.json").read_text())["settings"]["vocabulary"] == 900
    assert len(json.loads((out / "tokenizer" / "tokenizer.json").read_text())["model"]["vocab"]) == 900


def test_ctrl_c_in_a_run_loses_no_step(tmp_path: Path, text: Path, done: tuple[Path, QuickstartResults]) -> None:
    whole, _ = done

    class Impatient(Listener):
        def record(self, record: Record) -> None:
            if record.step == 1 and record.split == "train":  # once a session: a second Ctrl-C would not wait
                signal.raise_signal(signal.SIGINT)

    out = tmp_path / "quickstart"
    for _ in RUNS:
        with pytest.raises(KeyboardInterrupt):
            run_quickstart(small(out, text), Impatient())
    run_quickstart(small(out, text), Impatient())
    assert_same_outcome(whole, out)


def test_ctrl_c_in_the_last_evaluation_of_a_run_begins_no_other(tmp_path: Path, text: Path) -> None:
    class Late(Listener):
        def record(self, record: Record) -> None:
            if record.step == 2 and record.split == "dev":
                signal.raise_signal(signal.SIGINT)

    for runs in (1, 2):
        events = Late()
        with pytest.raises(KeyboardInterrupt):
            run_quickstart(small(tmp_path / "quickstart", text), events)
        assert events.runs == 1
        assert sum(is_finished(tmp_path / "quickstart" / run) for run in RUNS) == runs


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
def test_killed_in_every_step(tmp_path: Path, text: Path, done: tuple[Path, QuickstartResults]) -> None:
    """No session gets further than a few events, so that every step is met by a kill sooner or later."""
    whole, _ = done
    out, kills, draw = tmp_path / "quickstart", 0, random.Random(3)
    for _ in range(60):
        process = start(["-m", "tests.quickstart.quickstarts", str(out), str(text), str(draw.randint(1, 9))])
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
        if command == "quickstart":
            continue  # the one that is tested by everything else
        quick = {
            "pretrain": ["training.steps=1", "training.batch_size=2", "data.held_out=0"],
            "finetune": ["--dry-run"],
        }
        ended = run_here(command, *rest, *quick.get(command, []))
        assert ended.returncode == 0, (line, ended.stderr)


def test_the_table_says_so_when_pretraining_does_not_help() -> None:
    def said(before: float, after: float) -> str:
        return "\n".join(table.remarks(results_of(before, after, "MiniLM is not installed")))

    assert "-7.5 points: it did not help" in said(20.0, 12.5)
    assert "+0.5 points: within the noise of so few examples" in said(20.0, 20.5)
    assert "An F1 of 12.5 means that no model learned entities" in said(12.5, 3.0)
    assert "no model learned" not in said(12.5, 30.0)
    assert "+30.0 points." in said(20.0, 50.0)
    assert "MiniLM is not installed" in said(20.0, 50.0)


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


def test_steps_fit_beside_the_evaluations() -> None:
    pace = Throughput(step_seconds=0.5, evaluation_seconds=2.0)
    assert pace.steps_in(58.0) == (58 - 2 * plan.EVALUATIONS) / 0.5
    assert pace.steps_in(0.0) == MIN_STEPS
