"""Whole studies of the smallest models: what is refused before training, finished cells, failures, kills, Ray."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spanlab.compare import run as study_runs
from spanlab.compare.cells import FinetuningCell, PretrainingCell
from spanlab.compare.config import Study
from spanlab.compare.energy import measured_joules
from spanlab.compare.plan import PLAN, plan_study
from spanlab.compare.run import StudyEvents, run_study
from spanlab.compare.studies import shipped_studies
from spanlab.errors import InputError
from tests.compare.studying import FINETUNING, small_study, write_task
from tests.pretraining.making import SMALLEST, make_tokenizer, prepare, write_text

TRAINING = ("size=tiny", *(setting for setting in SMALLEST if setting.startswith("training.")))


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_task(tmp_path_factory.mktemp("ner"))


@pytest.fixture(scope="module")
def finished(small_corpus: Path, task: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of two recipes and two seeds that was run once."""
    out = tmp_path_factory.mktemp("finished") / "study"
    run_study(small_study(small_corpus, [task]), out)
    return out


def results_of(out: Path) -> dict[str, Any]:
    results = json.loads((out / "results.json").read_text(encoding="utf-8"))
    assert isinstance(results, dict)
    return results


def refuse_to_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(cell: object, *_: object) -> None:
        raise AssertionError(f"{cell} is run")

    monkeypatch.setattr(PretrainingCell, "run", run)
    monkeypatch.setattr(FinetuningCell, "run", run)


def test_what_a_study_writes(finished: Path) -> None:
    results = results_of(finished)
    assert results["systems"] == ["spanbert sbo=0", "spanbert sbo=1"]
    assert results["tasks"]["ner"]["units"] == results["tasks"]["ner"]["examples"] == 16
    assert {cell["state"] for cell in results["cells"]} == {"finished"}
    assert len(results["cells"]) == 2 * 2 * (1 + 1)
    (comparison,) = results["comparisons"]
    assert (comparison["seeds"], comparison["units"]) == (2, 16)
    scores = results["scores"]["ner"]
    difference = scores["spanbert sbo=1"]["mean"] - scores["spanbert sbo=0"]["mean"]
    assert comparison["difference"] == pytest.approx(difference, abs=1e-5)
    page = (finished / "report.html").read_text(encoding="utf-8")
    assert results["sentence"][3:] in page.replace("&lt;", "<")
    assert page.count("<svg") >= 1
    table = (finished / "table.md").read_text(encoding="utf-8")
    assert "| spanbert sbo=1 |" in table
    assert "seconds" not in json.dumps(results)


def test_pairs_share_their_seed(finished: Path) -> None:
    """Recipes that differ in an objective alone see the same blocks in the same order."""
    import yaml

    configs = [yaml.safe_load(path.read_text()) for path in sorted(finished.glob("pretraining/*/config.yaml"))]
    assert sorted(config["seed"] for config in configs) == [0, 0, 1, 1]
    assert {config["training"]["steps"] for config in configs} == {configs[0]["training"]["steps"]}


def test_finished_cells_are_not_computed_again(
    finished: Path, small_corpus: Path, task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (finished / "results.json").read_bytes()
    refuse_to_run(monkeypatch)
    run_study(small_study(small_corpus, [task]), finished)
    assert (finished / "results.json").read_bytes() == before


def test_a_study_grows(finished: Path, small_corpus: Path, task: str) -> None:
    """Another seed needs its own cells alone."""
    plan = plan_study(small_study(small_corpus, [task], seeds="3"), finished)
    new = [cell for cell in (*plan.pretraining, *plan.finetuning) if not cell.finished]
    assert {cell.seed for cell in new} == {2}
    other = plan_study(small_study(small_corpus, [task], finetuning=[*FINETUNING, "training.epochs=2"]), finished)
    assert all(cell.finished for cell in other.pretraining)
    assert not any(cell.finished for cell in other.finetuning)


def test_a_failed_cell_does_not_stop_the_others(
    finished: Path, small_corpus: Path, task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a third and a fourth seed one pre-training fails, is shown, and is made up for later."""
    whole = PretrainingCell.run

    def fail(cell: PretrainingCell, *arguments: Any) -> None:
        if cell.seed == 2 and cell.recipe.endswith("=1"):
            raise InputError("the disk is on fire", path=cell.folder)
        whole(cell, *arguments)

    monkeypatch.setattr(PretrainingCell, "run", fail)
    study = small_study(small_corpus, [task], seeds="3")
    lines: list[str] = []
    results = run_study(study, finished, events=StudyEvents(say=lines.append))
    assert [(cell.recipe, cell.seed, cell.task) for cell in results.failed] == [
        ("spanbert sbo=1", 2, None),
        ("spanbert sbo=1", 2, "ner"),
    ]
    written = results_of(finished)
    errors = [cell["error"] for cell in written["cells"] if cell["state"] == "failed"]
    assert errors[0].startswith("pretraining/spanbert-sbo=1-seed2-")
    assert errors[0].endswith("the disk is on fire")
    assert errors[1] == "its pre-training failed"
    assert written["comparisons"][0]["seeds"] == 2
    assert "the disk is on fire" in (finished / "report.html").read_text(encoding="utf-8")
    assert any("failed: pretraining/" in line for line in lines)
    monkeypatch.undo()
    results = run_study(study, finished)
    assert not results.failed
    assert results_of(finished)["comparisons"][0]["seeds"] == 3
    assert not list((finished / "failed").iterdir())


def test_a_stop_is_no_failure(finished: Path, small_corpus: Path, task: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(cell: PretrainingCell, *_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(PretrainingCell, "run", stop)
    with pytest.raises(KeyboardInterrupt):
        run_study(small_study(small_corpus, [task], seeds="9,10"), finished)
    assert not list(finished.glob("failed/*seed9*"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"budget": "5 tokens"}, r"recipe 'spanbert sbo=0': the budget of 5 tokens is too small: a step takes"),
        ({"budget": "3 FLOPs"}, "the budget of 3 FLOPs is too small"),
        ({"budget": "0.01s"}, r"the budget of 0.01 s is too short: a step takes .*; allow at least \d+s"),
        ({"seeds": "1"}, "one seed is not enough"),
        ({"data": ["nowhere"]}, "nowhere"),
        (
            {"settings": [*SMALLEST, "objectives.nsp=1"]},
            "objectives.nsp needs sentence pairs",
        ),
        ({"finetuning": ["training.epoch=3"]}, "unknown key 'training.epoch'"),
    ],
)
def test_refusals_before_training(
    options: dict[str, Any],
    message: str,
    small_corpus: Path,
    task: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refuse_to_run(monkeypatch)
    with pytest.raises(InputError, match=message) as refusal:
        run_study(small_study(small_corpus, [task], **options), tmp_path / "study")
    assert "\n" not in str(refusal.value)
    assert not (tmp_path / "study").exists()


def test_files_that_are_refused_before_training(
    small_corpus: Path, task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_to_run(monkeypatch)
    name, _, files = task.partition("=")
    train, dev, test = files.split(":")
    copied = tmp_path / "copy.jsonl"  # other ids and order, the same texts
    rows = [json.loads(line) for line in Path(train).read_text(encoding="utf-8").splitlines()]
    copied.write_text("".join(json.dumps({**row, "id": f"new-{row['id']}"}) + "\n" for row in reversed(rows)))
    for written, message in (
        (f"{name}={train}:{dev}:{tmp_path}/missing.jsonl", r"missing.jsonl: no such file"),
        (
            f"{name}={train}:{dev}:{train}",
            r"train.jsonl: 16 of 16 test examples are in .*, which training uses; test on",
        ),
        (f"{name}={train}:{copied}", "copy.jsonl: 16 of 16 test examples are in"),
        (f"{name}={train}:{test}:{test}", "test.jsonl: 16 of 16 test examples are in"),
    ):
        with pytest.raises(InputError, match=message):
            run_study(small_study(small_corpus, [written]), tmp_path / "study")
    with pytest.raises(InputError, match="no task given"):
        run_study(small_study(small_corpus, []), tmp_path / "study")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "diary.txt").write_text("dear diary")
    with pytest.raises(InputError, match="is not empty and is not a study"):
        run_study(small_study(small_corpus, [task]), tmp_path / "notes")


def test_a_few_shared_examples_are_a_remark(small_corpus: Path, task: str, tmp_path: Path) -> None:
    train, dev, test = (Path(file) for file in task.partition("=")[2].split(":"))
    mixed = tmp_path / "mixed.jsonl"
    one = train.read_text(encoding="utf-8").splitlines(keepends=True)[0]
    mixed.write_text(one + test.read_text(encoding="utf-8"), encoding="utf-8")
    plan = plan_study(small_study(small_corpus, [f"ner={train}:{dev}:{mixed}"]), tmp_path / "study")
    assert plan.remarks == ("ner: 1 of 17 test examples are in train.jsonl, too",)


def test_steps_are_measured_once(
    small_corpus: Path, task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A budget of time gives the same cells whenever the study is continued."""
    from spanlab.compare import budget

    measured = iter([17, 23])

    def within(job: Any, seconds: float) -> Any:
        assert seconds == 60.0
        recipe = job.recipe
        return replace(job, recipe=replace(recipe, training=replace(recipe.training, steps=next(measured))))

    monkeypatch.setattr(budget, "pretraining_within", within)
    study = small_study(small_corpus, [task], budget="1m")
    first, again = plan_study(study, tmp_path / "study"), plan_study(study, tmp_path / "study")
    assert [cell.job.recipe.training.steps for cell in first.pretraining] == [17, 23, 17, 23]
    assert again.pretraining == first.pretraining
    assert json.loads((tmp_path / "study" / PLAN).read_text())["threads"] == 1


def start(corpus: Path, task: str, out: Path) -> "subprocess.Popen[str]":
    finetuning = [word for setting in FINETUNING for word in ("--finetuning", setting)]
    command = ["compare", "spanbert", "--grid", "objectives.sbo=0,1", *SMALLEST, "training.save_every=1"]
    options = ["--data", str(corpus), "--task", task, "--budget", "1k tokens", "--seeds", "2", "--out", str(out)]
    return subprocess.Popen(
        [sys.executable, "-m", "spanlab", *command, *options, *finetuning],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )


def wait_for(process: "subprocess.Popen[str]", reached: Iterator[object]) -> None:
    for _ in reached:
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)


def until_steps(out: Path, wanted: int) -> Iterator[None]:
    """Until the runs of the study have done so many steps in all."""
    while sum(len(path.read_bytes().splitlines()) for path in out.glob("*/*/metrics.jsonl")) < wanted:
        yield


@pytest.mark.slow
def test_killed_again_and_again(small_corpus: Path, task: str, tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    _, errors = (process := start(small_corpus, task, whole)).communicate(timeout=300)
    assert process.returncode == 0, errors
    total = sum(len(path.read_bytes().splitlines()) for path in whole.glob("*/*/metrics.jsonl"))
    for share in (0.1, 0.3, 0.6, 0.9):
        process = start(small_corpus, task, killed)
        wait_for(process, until_steps(killed, round(share * total)))
        process.kill()
        process.communicate(timeout=60)
        assert process.returncode == -signal.SIGKILL
    _, errors = (process := start(small_corpus, task, killed)).communicate(timeout=300)
    assert process.returncode == 0, errors
    assert (killed / "results.json").read_bytes() == (whole / "results.json").read_bytes()


@pytest.mark.slow
def test_ray_gives_the_same_results(finished: Path, small_corpus: Path, task: str, tmp_path: Path) -> None:
    ray = pytest.importorskip("ray", reason="the ray extra is not installed")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        study = small_study(small_corpus, [task])
        run_study(study, tmp_path / "study", engine="ray")
    finally:
        ray.shutdown()
    run_study(study, finished)
    assert (tmp_path / "study" / "results.json").read_bytes() == (finished / "results.json").read_bytes()


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == "span-length" else pytest.mark.slow) for name in shipped_studies()]
)
def test_ready_studies_run_to_their_end(name: str, small_corpus: Path, task: str, tmp_path: Path) -> None:
    results = run_study(ready_study(name, small_corpus, task, tmp_path), tmp_path / "study")
    assert not results.failed
    assert all(comparison.difference is not None for comparison in results.comparisons)
    assert len(results.comparisons) == len(results.systems) - 1 >= 2


def ready_study(name: str, corpus: Path, task: str, folder: Path) -> Study:
    if name != "ar-vs-ae":
        settings = [*SMALLEST, *(["larger batches.training.batch_size=16"] if name == "roberta-steps" else [])]
        return small_study(corpus, [task], name=name, settings=settings, budget="600 tokens")
    words = prepare(text := write_text(folder / "text.txt"), make_tokenizer(text, "word", 300), folder / "words")
    body = ("encoder.layers=1", "encoder.width=32", "encoder.heads=2", "encoder.inner_width=64", "data.length=32")
    own = [f"{variant}.{setting}" for variant in ("BERT", "GPT", "XLNet") for setting in body]
    own += [
        "data.held_out=0.1",
        "BERT.backbone=null",
        "ELMo.data.length=8",
        "XLNet.data.reuse=16",
        "XLNet.data.memory=16",
    ]
    own += ["XLNet.masking.permutation.predictions=8", "ELMo.encoder.projection=16", "ELMo.encoder.cells=32"]
    data = [str(corpus), f"ELMo={words}"]
    return small_study(corpus, [task], name=name, settings=[*TRAINING, *own], data=data, budget="2k tokens")


def test_energy_of_a_run(tmp_path: Path) -> None:
    """Two packages, the counter of one of which starts again; domains within a package are part of it."""
    counters, file = tmp_path / "powercap", tmp_path / "energy.json"
    for name, value in (("intel-rapl:0", 1_000_000), ("intel-rapl:1", 9_500_000), ("intel-rapl:0:0", 5)):
        (counters / name).mkdir(parents=True)
        (counters / name / "energy_uj").write_text(f"{value}\n")
        (counters / name / "max_energy_range_uj").write_text("10000000\n")
    with measured_joules(file, whole=True, counters=counters):
        (counters / "intel-rapl:0" / "energy_uj").write_text("3500000\n")
        (counters / "intel-rapl:1" / "energy_uj").write_text("500000\n")
    assert json.loads(file.read_text()) == {"joules": 3.5}
    with measured_joules(file, whole=False, counters=counters):
        pass
    assert not file.exists()  # an interrupted run has no figure
    with measured_joules(file, whole=True, counters=tmp_path / "nothing"):
        pass
    assert not file.exists()


def test_another_process_is_refused(finished: Path, small_corpus: Path, task: str) -> None:
    from spanlab.atomic_io import locked

    with locked(finished / study_runs.LOCK, "busy"), pytest.raises(InputError, match="another process is running"):
        run_study(small_study(small_corpus, [task]), finished)
